"""The relation head: which discourse relation joins two EDUs, said by their latents (section 3.3)."""

import torch
from torch import Tensor, nn


class RelationHead(nn.Module):
    """A projection and a bilinear form over the mean latents of two EDUs (equation 6).

    Latents are taken at the size they had before `scale` fitted them to the embeddings of the backbone.
    """

    def __init__(self, width: int, relation_width: int, relations: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.projection = nn.Linear(width, relation_width)
        self.bilinear = nn.Bilinear(relation_width, relation_width, relations)

    def forward(self, latent: Tensor, pooling: Tensor, pairs: Tensor) -> Tensor:
        """Label logits [P, labels] of neighbouring EDUs.

        `latent` [B, T, D]; `pooling` [B, S, T] averages each EDU's positions (rows sum to 1, or are 0 at padding);
        `pairs` [P, 2] lists (story, left EDU), the right EDU being the next one.
        """
        pooled = pooling.to(latent.dtype) @ latent / self.scale
        means = self.projection(pooled)  # [B, S, R]; linear, so it may follow the mean
        story, left = pairs.unbind(-1)
        with torch.autocast(latent.device.type, enabled=False):  # which knows no bilinear form on a CPU
            means = means.to(self.bilinear.weight.dtype)
            logits: Tensor = self.bilinear(means[story, left], means[story, left + 1])
        return logits
