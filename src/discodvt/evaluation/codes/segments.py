"""Which text a code stands for: code l governs the subwords 2^c l + 1 to 2^c (l + 1) of its story (section 4.6).

The latent of a decoder position takes part in predicting the next subword, so these are the subwords written under it;
a code sees a little beyond them on both sides. Segments tile the text that was kept of the story.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from transformers import PreTrainedTokenizerBase

from discodvt.corpus import Example
from discodvt.data.ragged import Ints, Ragged
from discodvt.data.subwords import as_input


@dataclass(frozen=True, slots=True)
class Segments:
    """Stories with their subwords `ids[story]` and the character `ends[story]` of each, cut into segments."""

    stories: Sequence[Example]
    ids: Ragged
    ends: Ragged
    tokens_per_code: int

    def span(self, story: int, index: int) -> tuple[int, int]:
        """The characters of a segment; a code that stands for nothing but the story's end has none."""
        ends = self.ends[story]
        first = min(index * self.tokens_per_code, len(ends))
        last = min(first + self.tokens_per_code, len(ends))
        return (int(ends[first - 1]) if first else 0), (int(ends[last - 1]) if last else 0)

    def text(self, story: int, index: int) -> str:
        """The text of a segment, empty before the first and past the last one."""
        start, end = self.span(story, index) if index >= 0 else (0, 0)
        return self.stories[story].story[start:end]

    def phrase(self, story: int, first: int, count: int) -> str:
        """The text of `count` subwords from the subword `first` on."""
        ends = self.ends[story]
        return self.stories[story].story[int(ends[first - 1]) if first else 0 : int(ends[first + count - 1])].strip()


def cut_segments(
    tokenizer: PreTrainedTokenizerBase, stories: Iterable[Example], *, story_tokens: int, tokens_per_code: int
) -> Segments:
    """Stories that are not blank, as subwords with their places in the text."""
    kept: list[Example] = []
    ids: list[Ints] = []
    ends: list[Ints] = []
    told = (story for story in stories if story.story.strip())
    shift = len(as_input(""))
    while block := list(islice(told, 1024)):
        encoded = tokenizer.backend_tokenizer.encode_batch(
            [as_input(story.story) for story in block], add_special_tokens=False
        )
        for story, subwords in zip(block, encoded, strict=True):
            kept.append(story)
            ids.append(np.array(subwords.ids[:story_tokens], dtype=np.int32))
            places = np.array([end for _, end in subwords.offsets[:story_tokens]], dtype=np.int32)
            ends.append(np.maximum(places - shift, 0))
    return Segments(kept, Ragged.of(ids), Ragged.of(ends), tokens_per_code)
