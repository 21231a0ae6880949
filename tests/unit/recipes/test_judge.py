"""The outside measurement of stories: what is counted, with which text, and that scores are kept."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

RECIPE = Path(__file__).resolve().parents[3] / "recipes" / "nano"
sys.path.insert(0, str(RECIPE))

import judge  # noqa: E402
import seeds  # noqa: E402
import smollm  # noqa: E402


@pytest.fixture(scope="module")
def titles() -> dict[str, judge.Title]:
    return judge.read_titles(RECIPE / "titles.tsv")


def test_there_are_200_titles_to_test_and_100_to_choose_by(titles: dict[str, judge.Title]) -> None:
    splits = [title.split for title in titles.values()]
    assert (splits.count("test"), splits.count("valid"), len(splits)) == (200, 100, 300)


def test_marked_words_and_heroes_stand_in_their_titles(titles: dict[str, judge.Title]) -> None:
    for title in titles.values():
        for word in (title.hero, *title.words):
            assert judge.says(title.prompt, word), (title.prompt, word)


@pytest.mark.parametrize(
    ("story", "word", "found"),
    [
        ("The foxes ran.", "fox", True),
        ("He lost it.", "lose|lost", True),
        ("He is losing it.", "lose|lost", True),
        ("The puppies barked.", "puppy", True),
        ("She stopped.", "stop", True),
        ("Ximena's kite flew.", "Ximena", True),
        ("A carpet.", "car", False),
        ("It was a foxglove.", "fox", False),
    ],
)
def test_a_word_counts_in_its_inflections_only(story: str, word: str, found: bool) -> None:
    assert judge.says(story, word) is found


def test_shares_of_words_and_heroes() -> None:
    titles = {"The fox and the hat": judge.Title("The fox and the hat", "test", "title", "fox", ("fox", "hat"))}
    rows = [{"prompt": "The fox and the hat", "story": story} for story in ("A fox ran.", "The fox's hats.", "A hat.")]
    found = judge.faith([*rows, {"prompt": "unmarked", "story": "fox"}], titles)
    assert found["words"]["value"] == pytest.approx(4 / 6)
    assert found["hero"]["value"] == pytest.approx(2 / 3)
    assert found["hero (title)"]["n"] == 3


def test_first_sentences_need_one_root_and_a_subject() -> None:
    stories = [{"story": "There was a fox. He ran."}, {"story": "In the dark forest of the king. He ran."}]
    assert judge.grammar(stories)["first"]["value"] == 0.5


def test_interval_of_a_ratio_of_sums() -> None:
    rng = np.random.default_rng(0)
    rows = [(float(a), 10.0) for a in rng.normal(20, 2, 400)]
    found = judge.share(rows)
    assert found["low"] < found["value"] < found["high"]
    assert found["value"] == pytest.approx(2.0, abs=0.03)
    assert found["high"] - found["low"] == pytest.approx(4 * 0.2 / 20, rel=0.2)


class CharacterModel:
    """Stands for the judge: a token a character, each costs its place in the alphabet."""

    bos_token_id = 0

    def score(self, pairs: list[tuple[str, str]]) -> list[smollm.TokenLosses]:
        losses = []
        for _, text in pairs:
            nll = np.array([(ord(c) % 32) / 8 for c in text], dtype=np.float32)
            losses.append(smollm.TokenLosses(nll, np.arange(1, len(text) + 1, dtype=np.int32)))
        return losses


def test_fluency_compares_a_story_with_its_own_shuffle_and_its_halves() -> None:
    stories = [{"prompt": "P.", "story": "Aaaa aaaa. Zzzz zzzz. Bbbb."}]
    found = judge.fluency(CharacterModel(), stories)  # type: ignore[arg-type]
    assert found["rise"]["value"] == pytest.approx(0, abs=1e-6)  # its tokens cost the same anywhere
    assert found["halves"]["value"] > 1
    assert found["surprising"]["value"] == pytest.approx(0)
    assert found["perplexity"]["n"] == 1


def test_a_story_is_shuffled_always_in_the_same_way() -> None:
    story = " ".join(f"Sentence {n}." for n in range(9))
    random.seed(1)
    first = judge.shuffled(story)
    random.seed(2)
    assert first == judge.shuffled(story) != story
    assert sorted(judge.sentences(first)) == sorted(judge.sentences(story))


class CountingTokenizer:
    bos_token_id = 0

    def __call__(self, text: str, return_offsets_mapping: bool) -> Any:
        class Encoded:
            input_ids = [1 + ord(c) % 7 for c in text]  # noqa: RUF012
            offset_mapping = [(n, n + 1) for n in range(len(text))]  # noqa: RUF012

        return Encoded


class UniformModel:
    calls = 0

    def model(self, ids: torch.Tensor) -> Any:
        self.calls += 1

        class Out:
            last_hidden_state = torch.zeros(*ids.shape, 2)

        return Out

    def lm_head(self, states: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(states), 8)


def test_only_the_text_after_its_context_is_scored_and_nothing_twice(tmp_path: Path) -> None:
    model = UniformModel()
    pairs = [("Once. ", "A fox."), ("", "A fox ran.")]
    for expected_calls in (1, 1):  # the second judge finds the scores of the first
        scorer = smollm.Judge(tmp_path / "scores.sqlite")
        scorer._opened = model, CountingTokenizer()
        losses = scorer.score(pairs)
        assert [len(each.nll) for each in losses] == [6, 10]
        assert losses[0].ends.tolist() == [1, 2, 3, 4, 5, 6]
        assert losses[0].nll == pytest.approx(np.log(8))
        assert model.calls == expected_calls


def test_seeds_say_what_their_openings_say(titles: dict[str, judge.Title]) -> None:
    rng = random.Random(0)
    avoid = frozenset(prompt.lower() for prompt in titles)
    drawn = [seeds.draw_seed(rng, avoid=avoid) for _ in range(500)]
    for seed in drawn:
        for word in seed.words:
            assert word.lower() in seed.opening.lower(), (seed.title, seed.opening, word)
        assert seed.hero in seed.title
        assert "_" not in seed.title + seed.about + seed.opening
        assert seed.title.lower() not in avoid
    names = {seed.hero for seed in drawn if seed.hero[0].isupper()}
    unseen = {title.hero for title in titles.values() if title.kind == "name" and title.split == "test"}
    assert not names & unseen


def test_the_program_writes_a_table_without_the_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stories = tmp_path / "a.jsonl"
    rows = [{"prompt": "A mouse in the king's kitchen", "story": "A mouse ran. The king saw it.", "finish": "end"}] * 2
    stories.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    arguments = ["judge.py", tmp_path / "out.json", f"a={stories}", "--titles", RECIPE / "titles.tsv", "--no-judge"]
    monkeypatch.setattr(sys, "argv", list(map(str, arguments)))
    judge.main()
    written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert written["a"]["words"]["value"] == pytest.approx(2 / 3)
    assert written["a"]["ended"]["value"] == 1.0
    assert "hero" in capsys.readouterr().out
