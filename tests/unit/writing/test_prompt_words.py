"""Words of the prompt are favoured until the story has them; names are spelled as the prompt spells them."""

import json
import shutil
import string
import time
from functools import partial

import numpy as np
import pytest
from unit.writing.toy_writer import save_causal_writer, save_writer

from discodvt.errors import BadRequest
from discodvt.writing import Request, SamplingParams, StoryWriter
from discodvt.writing.prompt_words import HERO, SPELLING, PromptWords, content_words

BIAS = 2.0
LETTERS = string.ascii_lowercase


@pytest.fixture(scope="module")
def storyteller() -> StoryWriter:
    return StoryWriter.from_pretrained()


def favoured(storyteller: StoryWriter, prompt: str, told: list[str]) -> dict[str, float]:
    """What is added to the logits of which subwords after others, as text."""
    tokenizer = storyteller._tokenizer
    scores = np.zeros(tokenizer.get_vocab_size(), dtype=np.float32)
    words = PromptWords(prompt, tokenizer, BIAS)
    symbols = [tokenizer.token_to_id(subword) for subword in told]
    assert None not in symbols
    for length in range(len(symbols) + 1):  # as the story grows
        scores[:] = 0
        words.favour(scores, symbols[:length])
    at_once = np.zeros_like(scores)
    PromptWords(prompt, tokenizer, BIAS).favour(at_once, symbols)
    assert np.array_equal(scores, at_once)
    return {tokenizer.id_to_token(int(symbol)): float(scores[symbol]) for symbol in np.flatnonzero(scores)}


def test_content_words_are_those_the_story_is_about() -> None:
    assert content_words("The fox who lost his hat, and a FOX") == ["fox", "lost", "hat", "FOX"]
    assert content_words("Tell me a story about Zuleika's goat") == ["Zuleika", "goat"]
    assert content_words("it was 7") == []


def test_no_prompt_is_slow(storyteller: StoryWriter) -> None:
    """A run of letters cost the square of its length, at times that of its copies; words cost their number."""
    runs, spelled = (
        "a" * 20_000,
        " ".join(f"{a}{b}{c}{d}" for a in "bcdf" for b in LETTERS for c in LETTERS for d in LETTERS),
    )
    begun = time.process_time()
    assert favoured(storyteller, f"dog {runs} bird", []) == {"▁dog": HERO * BIAS, "▁bird": BIAS}
    assert favoured(storyteller, spelled, [])
    assert time.process_time() - begun < 5


def test_a_word_is_favoured_until_the_story_has_it(storyteller: StoryWriter) -> None:
    assert favoured(storyteller, "a dog and the bird", []) == {"▁dog": HERO * BIAS, "▁bird": BIAS}
    assert favoured(storyteller, "a dog and the bird", ["▁The", "▁dog"]) == {"▁bird": BIAS}
    assert favoured(storyteller, "it was", ["▁The"]) == {}


def test_capitals_of_a_title_are_no_names(storyteller: StoryWriter) -> None:
    assert storyteller._tokenizer.encode(" fox", add_special_tokens=False).tokens == ["▁fo", "x"]
    told = favoured(storyteller, "The Fox And The Bird", ["▁The", "▁bird"])
    assert told == {"▁Fox": HERO * BIAS, "▁fo": HERO * BIAS}
    assert favoured(storyteller, "The Fox And The Bird", ["▁fo", "x"]) == {"▁Bird": BIAS, "▁bird": BIAS}
    assert "▁Fox" in favoured(storyteller, "Foxes drink milk", ["▁The"])
    assert "▁Fox" not in favoured(storyteller, "Foxes drink milk", ["▁fo", "xes"])  # a first word, and no name


def test_a_name_that_is_begun_is_spelled_to_its_end(storyteller: StoryWriter) -> None:
    assert storyteller._tokenizer.encode(" Haruto", add_special_tokens=False).tokens == ["▁Har", "ut", "o"]
    assert favoured(storyteller, "Haruto", ["▁Har"])["ut"] == SPELLING * BIAS
    assert "u" not in favoured(storyteller, "Haruto", ["▁Har"])  # the usual subword alone
    other_subwords = favoured(storyteller, "Haruto", ["▁H"])
    assert other_subwords["ar"] == other_subwords["a"] == SPELLING * BIAS
    assert favoured(storyteller, "Haruto", ["▁Har", "ut", "o", "▁ran", "▁Har"])["ut"] == SPELLING * BIAS  # each time
    assert favoured(storyteller, "Haruto", ['▁"', "H", "ar"])["ut"] == SPELLING * BIAS  # after a quotation mark
    assert "ut" not in favoured(storyteller, "Haruto", ["▁Hal"])
    ended = favoured(storyteller, "Haruto", ["▁Har", "ut", "o"])
    assert ended["s"] == ended["ut"] == -SPELLING * BIAS
    assert not {"▁ran", "'", ".", "▁Har"} & set(ended)


def test_a_rare_word_in_small_letters_may_be_inflected(storyteller: StoryWriter) -> None:
    assert storyteller._tokenizer.encode(" crane", add_special_tokens=False).tokens == ["▁c", "rane"]
    assert favoured(storyteller, "fox and crane", ["▁c"])["rane"] == SPELLING * BIAS
    assert favoured(storyteller, "dog and crane", ["▁c", "rane"]) == {"▁dog": HERO * BIAS}


def test_stories_of_the_storyteller_keep_their_hero(storyteller: StoryWriter) -> None:
    prompts = [f"{name} and the kite" for name in ("Zuleika", "Haruto", "Figaro", "Odalys", "Blip", "Gunther")]

    def kept(bias: float) -> int:
        requests = [Request(prompt, index=index) for index, prompt in enumerate(prompts)]
        stories = storyteller.write_many(requests, SamplingParams(prompt_bias=bias, max_tokens=60))
        return sum(story.prompt.split()[0] in story.text for story in stories)

    assert kept(BIAS) >= max(5, kept(0.0) + 1)


@pytest.mark.parametrize("save", [save_writer, partial(save_causal_writer, kind="llama")])
def test_any_tokenizer_and_any_batch(tmp_path, save) -> None:
    save(tmp_path / "plain")
    shutil.copytree(tmp_path / "plain", tmp_path / "biased")
    path = tmp_path / "biased" / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"prompt_bias": 3.0}))
    plain, biased = (StoryWriter.from_pretrained(tmp_path / name) for name in ("plain", "biased"))
    prompts = ["Ann saw a café 🦊", "the naïve dog", "fox"]
    requests = [Request(prompt, index=index) for index, prompt in enumerate(prompts)]
    lengths = {"min_tokens": 20, "max_tokens": 30}
    together = {story.index: story.text for story in biased.write_many(requests, SamplingParams(**lengths))}
    asked = [plain.write(prompt, index=index, prompt_bias=3.0, **lengths).text for index, prompt in enumerate(prompts)]
    assert [together[index] for index in range(3)] == asked
    assert asked != [plain.write(prompt, index=index, **lengths).text for index, prompt in enumerate(prompts)]


def test_long_stories_favour_no_words(storyteller: StoryWriter) -> None:
    with pytest.raises(BadRequest, match="`words` and `prompt_bias`"):
        storyteller.write("A fox", words=500, prompt_bias=1.0)
