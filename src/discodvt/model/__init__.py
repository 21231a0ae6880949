"""The model: pure PyTorch on Hugging Face classes. Names are loaded when first asked for: bottlenecks need no other."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discodvt.model.configuration import DiscoDVTConfig, PlanPriorConfig
    from discodvt.model.discodvt import DiscoDVT, PosteriorOutput
    from discodvt.model.prior import CausalPlanPrior, PlanPrior

__all__ = ["CausalPlanPrior", "DiscoDVT", "DiscoDVTConfig", "PlanPrior", "PlanPriorConfig", "PosteriorOutput"]


def __getattr__(name: str) -> Any:
    for home in ("configuration", "prior", "discodvt") if name in __all__ else ():
        found = getattr(import_module(f"discodvt.model.{home}"), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'discodvt.model' has no attribute {name!r}")
