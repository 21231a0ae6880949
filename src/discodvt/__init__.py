"""DiscoDVT: long text with a plan.

The public names are loaded when first asked for, so that `import discodvt` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discodvt import auto_classes as auto_classes  # transformers' Auto classes know ours from now on

__version__ = "0.1.0"

_HOMES = {
    "Annotator": "discodvt.discourse",
    "Annotation": "discodvt.discourse",
    "Mention": "discodvt.discourse",
    "DiscoDVT": "discodvt.model",
    "DiscoDVTConfig": "discodvt.model",
    "PlanPrior": "discodvt.model",
    "PlanPriorConfig": "discodvt.model",
    "StoryWriter": "discodvt.writing",
}
__all__ = [
    "Annotation", "Annotator", "DiscoDVT", "DiscoDVTConfig", "Mention", "PlanPrior", "PlanPriorConfig", "StoryWriter",
]  # fmt: skip

if TYPE_CHECKING:
    from discodvt.discourse import Annotation, Annotator, Mention
    from discodvt.model import DiscoDVT, DiscoDVTConfig, PlanPrior, PlanPriorConfig
    from discodvt.writing import StoryWriter


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'discodvt' has no attribute {name!r}")
