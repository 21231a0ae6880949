"""The sizes of the latent and their defaults (the paper's, section 4.2), once for the model and for recipes.

Plain values: this module imports neither torch nor transformers.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatentSizes:
    """K codes, one for every 2^c tokens, and the relation head over their latent."""

    num_codes: int = 256  # K, the latent vocabulary
    code_width: int = 256  # width of a code's embedding
    conv_layers: int = 3  # c: each halves the length
    conv_channels: int = 128
    bottleneck: str = "gumbel"  # a name of `discodvt.model.bottlenecks.BOTTLENECKS`
    code_levels: list[int] | None = None  # of fsq codes: their product is K; None: chosen by K
    code_logit_gain: float = 1.0  # scales the code logits at initialisation; above 1 for models grown from scratch
    num_relations: int = 21  # ten markers in two directions, and `unknown`
    relation_width: int = 256


PAPER = LatentSizes()
