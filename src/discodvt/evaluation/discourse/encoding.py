"""Marker pairs as subwords, kept in flat arrays, and batches of them as the classifier reads them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from discodvt.data.batches import Rows
from discodvt.data.collate import padded
from discodvt.data.ragged import Ints, Ragged
from discodvt.data.subwords import as_input
from discodvt.discourse.labels import MARKERS
from discodvt.evaluation.discourse.pairs import Pair

PAIRS_PER_BLOCK = 4096
_MARKER_IDS = {marker: place for place, marker in enumerate(MARKERS)}


@dataclass(frozen=True, slots=True)
class EncodedPairs:
    """Pair i: subwords `first[i]` of Arg1 and `second[i]` of Arg2, without specials, and the number of its marker."""

    first: Ragged
    second: Ragged
    labels: NDArray[np.int64]  # [P]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> Rows:
        return self.first.lengths + self.second.lengths


@dataclass(frozen=True, slots=True)
class PairReader:
    """Turns pairs into what one classifier reads: its subwords, its specials, one row a pair or two."""

    tokenizer: PreTrainedTokenizerBase
    reading: str
    argument_tokens: int  # kept of each argument, from its beginning

    def encode(self, pairs: Iterable[Pair]) -> EncodedPairs:
        """Tokenise pairs as they come, a block at a time."""
        stream = iter(pairs)
        first: list[Ints] = []
        second: list[Ints] = []
        labels: list[int] = []
        while block := list(islice(stream, PAIRS_PER_BLOCK)):
            first += self._subwords([pair.arg1 for pair in block])
            second += self._subwords([pair.arg2 for pair in block])
            labels += [_MARKER_IDS[pair.marker] for pair in block]
        return EncodedPairs(Ragged.of(first), Ragged.of(second), np.array(labels, dtype=np.int64))

    def batch(self, pairs: EncodedPairs, rows: Rows) -> dict[str, Tensor]:
        """Inputs of `RelationClassifier.forward` for some pairs."""
        start, end = [self.tokenizer.cls_token_id], [self.tokenizer.sep_token_id]
        firsts = [np.concatenate([start, pairs.first[row], end]).astype(np.int32) for row in rows]
        seconds = [np.concatenate([start, pairs.second[row], end]).astype(np.int32) for row in rows]
        if self.reading == "twin":
            ids, mask = padded([*firsts, *seconds], self.tokenizer.pad_token_id)
            sides = mask.clone()
            sides[len(rows) :] *= 2
        else:
            joined = [np.concatenate([one, two[1:]]) for one, two in zip(firsts, seconds, strict=True)]
            ids, mask = padded(joined, self.tokenizer.pad_token_id)
            ends = torch.tensor([len(one) for one in firsts])[:, None]
            sides = mask * torch.where(torch.arange(mask.shape[1]) < ends, 1, 2)
        return {"input_ids": ids, "attention_mask": mask, "sides": sides}

    def _subwords(self, texts: list[str]) -> list[Ints]:
        backend = self.tokenizer.backend_tokenizer
        encoded = backend.encode_batch([as_input(text) for text in texts], add_special_tokens=False)
        return [np.array(each.ids[: self.argument_tokens], dtype=np.int32) for each in encoded]
