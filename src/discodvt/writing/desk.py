"""Room for the stories in the making: keys and values, control, and masks; story b is row b of each."""

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from discodvt.writing.bart import WINDOW, Decoder


class View(NamedTuple):
    """The first rows of a desk, as far as attention has to look."""

    causal: Tensor  # [T, window]: what position t may see
    prompt_mask: Tensor  # [B, 1, 1, N]
    caches: list[tuple[Tensor, Tensor, Tensor]]  # for each layer the whole cache, keys and values [B, H, window, D / H]
    prompts: list[tuple[Tensor, Tensor]]  # for each layer keys and values [B, H, N, D / H]


class Desk:
    """Rows for stories of up to `length` symbols."""

    def __init__(self, decoder: Decoder, rows: int, length: int) -> None:
        length = -(-length // WINDOW) * WINDOW
        heads, width, like = decoder.heads, decoder.width // decoder.heads, decoder.positions
        self.caches = [like.new_zeros(2, rows, heads, length, width) for _ in decoder.layers]
        self.prompts = [like.new_zeros(2, rows, heads, WINDOW, width) for _ in decoder.layers]
        self.control = like.new_zeros(rows, length, decoder.width)
        self.causal = like.new_full((length, length), float("-inf")).triu(1)
        self.prompt_mask = like.new_zeros(rows, WINDOW)
        self._view: tuple[int, int, View] | None = None

    def view(self, count: int, window: int) -> View:
        """The first `count` rows and `window` positions; the same view serves until one of the two changes."""
        if self._view is None or self._view[:2] != (count, window):
            view = View(
                causal=self.causal[:, :window],
                prompt_mask=self.prompt_mask[:count, None, None],
                caches=[(room, room[0, :count, :, :window], room[1, :count, :, :window]) for room in self.caches],
                prompts=[(room[0, :count], room[1, :count]) for room in self.prompts],
            )
            self._view = (count, window, view)
        return self._view[2]

    def seat(self, row: int, control: Tensor, prompt: list[Tensor]) -> None:
        """Give a row to a new story: its control [T, D], and the keys and values of its prompt."""
        length = prompt[0].shape[2]
        self._widen(length)
        for room, layer in zip(self.prompts, prompt, strict=True):
            room[:, row, :, :length] = layer
        self.prompt_mask[row] = float("-inf")
        self.prompt_mask[row, :length] = 0.0
        self.control[row, : len(control)] = control

    def move(self, source: int, target: int) -> None:
        """Move a story to the row of one that is finished."""
        for room in (*self.caches, *self.prompts):
            room[:, target] = room[:, source]
        for each in (self.control, self.prompt_mask):
            each[target] = each[source]

    def _widen(self, length: int) -> None:
        """Make room for a prompt longer than all before it."""
        more = -(-length // WINDOW) * WINDOW - self.prompt_mask.shape[1]
        if more > 0:
            self._view = None
            self.prompts = [F.pad(room, (0, 0, 0, more)) for room in self.prompts]
            self.prompt_mask = F.pad(self.prompt_mask, (0, more), value=float("-inf"))
