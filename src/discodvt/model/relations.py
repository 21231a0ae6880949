"""The relation head: which marker joins two neighbouring EDUs, told from the latent alone (section 3.3)."""

from torch import Tensor, nn


class RelationHead(nn.Module):
    """A projection and a bilinear form over the mean latents of two EDUs (equation 6)."""

    def __init__(self, width: int, relation_width: int, relations: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, relation_width)
        self.bilinear = nn.Bilinear(relation_width, relation_width, relations)

    def forward(self, latent: Tensor, pooling: Tensor, pairs: Tensor) -> Tensor:
        """Label logits [P, labels] of neighbouring EDUs.

        `latent` [B, T, D]; `pooling` [B, S, T] averages each EDU's positions (rows sum to 1, or are 0 at padding);
        `pairs` [P, 2] lists (story, left EDU), the right EDU being the next one.
        """
        means = self.projection(pooling.to(latent.dtype) @ latent)  # [B, S, R]; linear, so it may follow the mean
        story, left = pairs.unbind(-1)
        logits: Tensor = self.bilinear(means[story, left], means[story, left + 1])
        return logits
