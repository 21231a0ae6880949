"""A plan to the latent h^z: what `DiscoDVT.latent` computes, from bare weights (section 3.2)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from discodvt.checkpoints import Weights
from discodvt.errors import BadRequest
from discodvt.model.bottlenecks import load_code_book

_NUMBERS = {"conv_layers": int, "plan_tail": int, "latent_scale": int | float, "plan_strength": int | float}


class Latent:
    """The code book and the convolutions that stretch a plan."""

    def __init__(self, weights: Weights, config: Mapping[str, Any]) -> None:
        for key, kind in _NUMBERS.items():
            value = config.get(key, None if key == "conv_layers" else 0)
            if not isinstance(value, kind) or isinstance(value, bool) or not 0 <= value < float("inf"):
                wanted = f"a {'whole ' if kind is int else ''}number of 0 or more"
                path = weights.directory / "config.json"
                raise BadRequest(f"{path}: {key} is {json.dumps(value)}; expected {wanted}")
        conv_layers: int = config["conv_layers"]
        names = [f"up.convolutions.{number}" for number in range(conv_layers)]
        try:
            self._embedding = load_code_book(config, weights.__getitem__)  # the last row is the padding code
        except (KeyError, ValueError) as error:
            raise BadRequest(f"{weights.directory / 'config.json'}: {error}; copy the directory again") from None
        self._convolutions = [(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in names]
        scale: float = config.get("latent_scale", 1.0)
        self._projection = weights["up.projection.weight"] * scale, weights["up.projection.bias"] * scale
        self.num_codes = len(self._embedding) - 1
        self.tokens_per_code = 2**conv_layers
        self.tail: int = config.get("plan_tail", 0) * self.tokens_per_code

    @torch.inference_mode()
    def __call__(self, plan: Sequence[int], length: int, *, strength: float | None = None) -> Tensor:
        """Codes to h^z [length, D], times `strength`.

        Positions past the plan carry the latent of padding codes, which ends a story; the first of them, as many as the
        model's `plan_tail` says, carry none.
        """
        needed = -(-length // self.tokens_per_code) + 1  # one code beyond, so that the cut edge is never seen
        codes = [*plan, *[self.num_codes] * needed][:needed]
        states = F.embedding(torch.tensor(codes, device=self._embedding.device), self._embedding).t()[None]  # [1, E, L]
        for weight, bias in self._convolutions:
            states = F.relu(F.conv_transpose1d(states, weight, bias, stride=2, padding=1))
        latent = F.linear(states[0, :, :length].t(), *self._projection)
        planned = len(plan) * self.tokens_per_code
        latent[planned : planned + self.tail] = 0
        return latent if strength is None else latent * strength
