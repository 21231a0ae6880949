"""Corruption drawn for a seed, a step and a story, and nothing else."""

import numpy as np
import pytest

from discodvt.data.corruption import Denoiser, drop_words, generator, gumbel
from discodvt.data.subwords import train_tokenizer

MASK, END = 99, 2


def denoiser(masked: float = 0.3, permute: bool = True, mean_span: float = 3.0, longest: int = 1024) -> Denoiser:
    ends = np.zeros(100, dtype=np.bool_)
    ends[9] = True
    return Denoiser(masked, mean_span, permute, longest, MASK, END, ends)


STORY = np.array([0, *([10, 11, 12, 9, 20, 21, 9, 30, 31, 32, 33, 9] * 5), 2], dtype=np.int32)


def test_draws_are_keyed():
    def draw(**changes):
        return generator("codes", **({"seed": 1, "step": 2, "story": 3} | changes)).random(4).tolist()

    assert draw() == draw()
    assert len({tuple(draw(**{name: 9})) for name in ("seed", "step", "story")} | {tuple(draw())}) == 4
    assert generator("words", seed=1, step=2, story=3).random() != draw()[0]


def test_gumbel_noise_has_its_mean_and_spread():
    noise = gumbel(np.random.default_rng(0), 400, 256)
    assert noise.dtype == np.float32
    assert noise.mean() == pytest.approx(0.5772, abs=0.02)
    assert noise.var() == pytest.approx(np.pi**2 / 6, abs=0.05)
    assert np.isfinite(noise).all()


def test_word_dropout_keeps_the_start():
    ids = np.arange(1000, dtype=np.int32)
    dropped = drop_words(np.random.default_rng(0), ids, share=0.3, mask=-1)
    assert dropped[0] == 0
    assert np.mean(dropped == -1) == pytest.approx(0.3, abs=0.05)
    assert np.array_equal(dropped[dropped != -1], ids[dropped != -1])


def test_infilling_masks_the_asked_share_in_few_spans():
    corrupted = denoiser(permute=False)(np.random.default_rng(0), STORY)
    kept = corrupted[corrupted != MASK]
    assert len(STORY) - len(kept) == round(0.3 * (len(STORY) - 2))
    assert 3 <= (corrupted == MASK).sum() <= 14
    assert (corrupted[0], corrupted[-1]) == (0, 2)
    remaining = iter(STORY.tolist())
    assert all(word in remaining for word in kept.tolist())  # what is left stands in its order


def test_sentences_change_places_whole():
    corrupted = denoiser(masked=0.0)(np.random.default_rng(1), STORY)
    assert not np.array_equal(corrupted, STORY)
    assert sorted(corrupted.tolist()) == sorted(STORY.tolist())
    text = " ".join(map(str, corrupted[1:-1]))
    assert text.count("10 11 12 9") == 5
    assert text.count("30 31 32 33 9") == 5


@pytest.mark.parametrize("length", [2, 3, 4])
def test_the_shortest_stories_survive(length):
    for seed in range(20):
        corrupted = denoiser(masked=0.5)(np.random.default_rng(seed), STORY[:length])
        assert len(corrupted) >= 2


def test_a_cut_story_keeps_its_last_word_and_is_given_an_end():
    cut = STORY[:-1]
    corrupted = denoiser(masked=0.0, permute=False)(np.random.default_rng(0), cut)
    assert corrupted.tolist() == [*cut.tolist(), END]
    masked = [denoiser(masked=0.6, permute=False)(np.random.default_rng(seed), cut) for seed in range(20)]
    assert any(each[-2] == MASK for each in masked)  # the last word may be masked as any other


def test_what_is_longer_than_the_encoder_is_cut_before_its_end():
    for settings in ({"masked": 0.0}, {"mean_span": 0.4}):
        corrupted = denoiser(**settings, longest=len(STORY) - 1)(np.random.default_rng(0), STORY)
        assert len(corrupted) == len(STORY) - 1
        assert (corrupted[0], corrupted[-1]) == (0, END)


def test_a_sentence_also_ends_before_a_closing_curly_quote():
    """Byte-level tokens spell it in letters of their own."""
    tokenizer = train_tokenizer(["“Oh no.” “Go!” ‘Well?’ “So,” " * 9], 300)
    ends = Denoiser.of(tokenizer, masked=0.3, mean_span=3.0, permute_sentences=True, longest=64).ends_sentence
    ids = tokenizer("“Oh no.” “Go!” ‘Well?’ “So,”", add_special_tokens=False)["input_ids"]
    texts = [tokenizer.decode(ids[: place + 1])[-2:] for place in np.flatnonzero(ends[ids])]
    assert texts == [".”", "!”", "?’"]
