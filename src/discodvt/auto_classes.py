"""`AutoConfig` and `AutoModel` know our checkpoints after `import discodvt`, which still imports no transformers.

Our modules register their classes when they are imported. Until then a stand-in is registered for each configuration,
which imports them when transformers first asks for it: at once where the Auto classes are loaded already, else right
after they are (to import our models there and then would be a circle: theirs are only half imported).
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_THEIRS = "transformers.models.auto.configuration_auto"
_OURS = {  # model type: its configuration, and the module that registers its model
    "discodvt": ("DiscoDVTConfig", "discodvt.model.discodvt"),
    "discodvt-prior": ("PlanPriorConfig", "discodvt.model.prior"),
}


def _stand_in(configuration: str, home: str) -> type:
    """A class that turns into the configuration when it is used."""

    def real() -> Any:
        return getattr(import_module(home), configuration)

    class StandIn:
        def __new__(cls, *arguments: Any, **settings: Any) -> Any:
            return real()(*arguments, **settings)

        @classmethod
        def from_dict(cls, *arguments: Any, **settings: Any) -> Any:
            return real().from_dict(*arguments, **settings)

    return StandIn


def _register(theirs: ModuleType) -> None:
    for model_type, (configuration, home) in _OURS.items():
        if model_type not in theirs.CONFIG_MAPPING:
            theirs.CONFIG_MAPPING.register(model_type, _stand_in(configuration, home))


class _AfterTheirs:
    """Finds transformers' module as Python would, and registers the stand-ins once it has run."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == _THEIRS else None
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            run = loader.exec_module

            def run_and_register(module: ModuleType) -> None:
                run(module)
                _register(module)

            loader.exec_module = run_and_register
        return spec


def know_auto_classes() -> None:
    """Called once, by `import discodvt`."""
    if _THEIRS in sys.modules:
        _register(sys.modules[_THEIRS])
    else:
        sys.meta_path.insert(0, _AfterTheirs())
