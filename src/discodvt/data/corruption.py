"""What training does to a story before a model sees it, drawn anew for each seed, step and story.

Every draw comes from a generator of its own, so it does not depend on the batch a story is in, on the number of
processes, or on what was drawn before: a resumed run draws the same.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from discodvt.data.tokens import Ints

_PURPOSES = ("codes", "words", "denoising", "latent", "plan")


def generator(purpose: str, *, seed: int, step: int, story: int) -> np.random.Generator:
    """The random numbers of one story at one step, for one purpose."""
    return np.random.default_rng([seed, step, story, _PURPOSES.index(purpose)])


def gumbel(random: np.random.Generator, codes: int, vocabulary: int) -> NDArray[np.float32]:
    """Gumbel noise [L, K]: minus the logarithm of an exponential variable."""
    drawn = random.standard_exponential((codes, vocabulary), dtype=np.float32)
    return -np.log(np.maximum(drawn, np.finfo(np.float32).tiny))


def drop_words(random: np.random.Generator, ids: Ints, *, share: float, mask: int) -> Ints:
    """Replace a share of the words a decoder reads by `<mask>`; the first, `<s>`, stays."""
    dropped = random.random(len(ids)) < share
    dropped[0] = False
    return np.where(dropped, mask, ids).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Denoiser:
    """BART's corruption (Lewis et al. 2020): sentences in another order, then spans replaced by one mask each."""

    masked: float
    mean_span: float
    permute_sentences: bool
    longest: int  # positions of the encoder
    mask: int
    end: int  # `</s>`
    ends_sentence: NDArray[np.bool_]  # [V] true for subwords that end in a full stop

    @classmethod
    def of(
        cls,
        tokenizer: PreTrainedTokenizerBase,
        *,
        masked: float,
        mean_span: float,
        permute_sentences: bool,
        longest: int,
    ) -> "Denoiser":
        ends = np.zeros(len(tokenizer), dtype=np.bool_)
        decoder = tokenizer.backend_tokenizer.decoder  # a byte-level token spells the curly quote in three letters
        for token, number in tokenizer.get_vocab().items():
            ends[number] = decoder.decode([token]).rstrip('"”’').endswith((".", "!", "?"))
        mask, end = int(tokenizer.mask_token_id), int(tokenizer.eos_token_id)
        return cls(masked, mean_span, permute_sentences, longest, mask, end, ends)

    def __call__(self, random: np.random.Generator, ids: Ints) -> Ints:
        """Corrupt `<s> y1 .. yM </s>`, or a story cut without its end, to `<s> .. </s>` of at most `longest` ids."""
        words = ids[1:-1] if ids[-1] == self.end else ids[1:]
        if self.permute_sentences:
            sentences = np.split(words, np.flatnonzero(self.ends_sentence[words]) + 1)
            words = np.concatenate([sentences[place] for place in random.permutation(len(sentences))])
        kept = self._infill(random, words)[: self.longest - 2]
        return np.concatenate([ids[:1], kept, [self.end]]).astype(np.int32)

    def _infill(self, random: np.random.Generator, words: Ints) -> Ints:
        """Text infilling: spans of Poisson length become one mask; a span of length 0 puts a mask between words."""
        left = round(self.masked * len(words))
        spans: list[int] = []
        while left > 0:
            spans.append(min(int(random.poisson(self.mean_span)), left))
            left -= spans[-1]
        random.shuffle(spans)
        stay = len(words) - sum(spans)
        gaps = np.diff(np.sort(random.integers(0, stay + 1, size=len(spans))), prepend=0)  # words kept before each span
        pieces: list[Ints] = []
        position = 0
        for gap, span in zip(gaps.tolist(), spans, strict=True):
            pieces += [words[position : position + gap], np.array([self.mask], dtype=np.int32)]
            position += gap + span
        return np.concatenate([*pieces, words[position:]]).astype(np.int32)
