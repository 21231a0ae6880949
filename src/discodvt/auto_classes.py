"""`AutoConfig` and `AutoModel` know our checkpoints after `import discodvt`, which still imports no transformers.

Our modules register their classes when they are imported. Until then a stand-in for each configuration is registered,
at once where transformers' Auto classes are loaded already, else right after they are; transformers' first question to
it imports our modules. (To import them there and then would be a circle: theirs are only half imported.)
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_THEIRS = "transformers.models.auto.configuration_auto"
_OURS = {
    "discodvt": ("discodvt", "DiscoDVTConfig"),
    "discodvt-prior": ("prior", "PlanPriorConfig"),
    "discodvt-causal-prior": ("prior", "CausalPlanPriorConfig"),
}


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


def _register(theirs: ModuleType) -> None:
    for model_type, (home, name) in _OURS.items():
        if model_type not in theirs.CONFIG_MAPPING:
            theirs.CONFIG_MAPPING.register(model_type, _stand_in(home, name))


def _stand_in(home: str, name: str) -> type:
    """A class that turns into a configuration of ours when it is used."""

    def real() -> Any:
        return getattr(import_module(f"discodvt.model.{home}"), name)

    def new(cls: type, *arguments: Any, **settings: Any) -> Any:
        return real()(*arguments, **settings)

    def from_dict(*arguments: Any, **settings: Any) -> Any:
        return real().from_dict(*arguments, **settings)

    return type(name, (), {"__new__": new, "from_dict": staticmethod(from_dict), "__module__": __name__})


if _THEIRS in sys.modules:
    _register(sys.modules[_THEIRS])
else:
    sys.meta_path.insert(0, _AfterTheirs())
