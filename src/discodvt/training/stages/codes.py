"""Stage `codes`: posterior, codes and up-sampling learn without the generator, before it joins in `reconstruct`.

Each story token is predicted from the latent alone by the frozen output layer of the language model. That is a fraction
of the work of a whole step, and codes that already say something about their words are used by a pretrained generator
from the start; without, it had not heard its plan when the same training had gone on for 150 steps
(docs/experiments.md). Not in the paper.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from discodvt.config import LossValidation
from discodvt.data.batches import Batch
from discodvt.model import DiscoDVT
from discodvt.model.resampling import rebalanced
from discodvt.training.latent_objective import LatentObjective, RelationLoss
from discodvt.training.stages.reconstruct import LatentRecipe

UP = "up."
LATENT_SIZE = 0.2  # of the embeddings' standard deviation: a pretrained generator bears that from the first step


class CodesObjective(LatentObjective):
    """Stories are reconstructed from their codes alone.

    The loss is blind to the size of the latent, which would grow without end: every step brings it back. That is done
    in the last projection, which is not trained here. It shrinks as the convolutions grow, too small in the end for a
    stage that trains both at one rate: the model that is kept has them of their usual sizes, and the same latent.
    """

    def __init__(self, model: DiscoDVT, *arguments: Any, **settings: Any) -> None:
        super().__init__(model, *arguments, **settings)
        self.not_trained += ("up.projection",)
        self.add_token_head()
        self.latent_size = LATENT_SIZE * model.backbone.embedding_scale(model.generator)
        self._squares: list[Tensor] = []  # mean squares of the latents of a step

    def _reconstruction(self, batch: Batch, latent: Tensor) -> Tensor:
        if self.training:
            self._squares.append(latent.detach()[batch["story_mask"].bool()].float().square().mean())
        return self._token_prediction(batch, latent)

    def after_step(self, gather: Callable[[Tensor], Tensor]) -> None:
        super().after_step(gather)
        size = gather(torch.stack(self._squares)).mean().sqrt()
        self._squares = []
        with torch.no_grad():
            for weight in self.model.up.projection.parameters():
                weight.mul_(float(self.latent_size / size))

    def exported(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        up = {name.removeprefix(UP): weight for name, weight in weights.items() if name.startswith(UP)}
        return weights | {UP + name: weight for name, weight in rebalanced(up).items()}


class Codes(LatentRecipe):
    summary = "A DiscoDVT whose posterior and codes were trained without its generator."
    objective = CodesObjective

    stage: Literal["codes"]
    loss: RelationLoss = RelationLoss()
    validation: LossValidation = LossValidation()

    def contradictions(self) -> list[str]:
        wrong = super().contradictions()
        if self.model.tune != "plan":
            wrong.append("model.tune: the generator takes no part in this stage; set it to plan")
        if self.loss.token_prediction > 0:
            wrong.append("loss.token_prediction: it is the reconstruction loss of this stage; leave it out")
        if self.word_dropout.rate > 0:
            wrong.append("word_dropout.rate: the generator reads no words in this stage; set it to 0")
        return wrong

    @property
    def reads_relations(self) -> bool:
        return self.loss.relation > 0
