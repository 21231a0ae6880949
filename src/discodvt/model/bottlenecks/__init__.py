"""The discrete bottlenecks, one file each behind one interface (`base.Bottleneck`); torch, but no transformers."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from discodvt.model.bottlenecks.base import Bottleneck, BottleneckOutput
from discodvt.model.bottlenecks.bits import BitBottleneck
from discodvt.model.bottlenecks.fsq import FiniteScalarBottleneck
from discodvt.model.bottlenecks.gumbel import GumbelBottleneck, StraightThroughBottleneck
from discodvt.model.bottlenecks.vq import VectorBottleneck

BOTTLENECKS: dict[str, type[Bottleneck]] = {  # by the name configurations and recipes give
    "gumbel": GumbelBottleneck,
    "straight-through": StraightThroughBottleneck,
    "bits": BitBottleneck,
    "vq": VectorBottleneck,
    "fsq": FiniteScalarBottleneck,
}


def bottleneck_class(name: str) -> type[Bottleneck]:
    """The bottleneck of a name; `ValueError` where there is none."""
    if name not in BOTTLENECKS:
        raise ValueError(f"bottleneck {name!r} is unknown; choose one of {', '.join(BOTTLENECKS)}")
    return BOTTLENECKS[name]


def new_bottleneck(config: Mapping[str, Any]) -> Bottleneck:
    """The bottleneck a configuration (the keys of `DiscoDVTConfig`) names, with codes of its own."""
    return bottleneck_class(config["bottleneck"])(
        config["conv_channels"],
        config["num_codes"],
        config["code_width"],
        logit_gain=config["code_logit_gain"],
        levels=config.get("code_levels"),
    )


def load_code_book(config: Mapping[str, Any], weight: Callable[[str], Tensor]) -> Tensor:
    """The code book [K + 1, E] of a checkpoint, from its `config.json` and a look-up of its weights by name."""
    kind, levels = bottleneck_class(config["bottleneck"]), config.get("code_levels")
    problem = kind.problem(config["num_codes"], levels)
    if problem:
        raise ValueError(problem)
    book = kind.book_from(lambda name: weight(f"bottleneck.{name}"), config["num_codes"], levels)
    if len(book) != config["num_codes"] + 1:
        raise ValueError(f"num_codes is {config['num_codes']}, the weights hold {len(book) - 1} codes")
    return book


__all__ = [
    "BOTTLENECKS",
    "Bottleneck",
    "BottleneckOutput",
    "bottleneck_class",
    "load_code_book",
    "new_bottleneck",
]
