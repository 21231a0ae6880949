"""The storyteller's corpus: which prompt a story gets, and what is left out."""

import gzip
import json
import random
import sys
from pathlib import Path

import pytest

RECIPE = Path(__file__).resolve().parents[3] / "recipes" / "nano"
sys.path.insert(0, str(RECIPE))

import data  # noqa: E402
import seeds  # noqa: E402


def story(number: int) -> str:
    words = [f"word{number}x{n}" for n in range(60)]
    return f"There was a fox number{number}. " + ". ".join(" ".join(words[n : n + 6]) for n in range(0, 60, 6)) + "."


def write_rows(path: Path, rows: list[dict[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place, name in enumerate(("train", "valid", "test", "real_test")):
        rows = [{"story": story(place * 10 + n)} for n in range(4)]
        write_rows(tmp_path / "tiny" / f"{name}.jsonl.gz", rows)
    tale = " ".join(f"The fox saw tale sentence {n} of many." for n in range(120))
    write_rows(tmp_path / "tales" / "tales.jsonl.gz", [{"title": "The Fox", "story": tale}])
    return tmp_path


def test_held_out_stories_and_kept_out_titles_never_reach_training(folder: Path, tmp_path: Path) -> None:
    more = write_rows(
        folder / "more.jsonl",
        [
            {"story": story(10)},  # of valid
            {"story": "A new start here. " + story(31)},  # of real_test, with another beginning
            {"story": story(77)},
            {"title": "A mouse in the king's kitchen", "about": "A mouse in the king's kitchen", "opening": "None",
             "story": story(78), "hero": "mouse"},
        ],
    )  # fmt: skip
    counts = data.prepare(folder, tmp_path / "out", [more], RECIPE / "titles.tsv")
    written = (tmp_path / "out" / "train.jsonl").read_text(encoding="utf-8")
    assert counts["left out: held-out text"] == 2
    assert "word77x3" in written
    assert "word10x3" not in written
    assert "word31x3" not in written
    assert "king's kitchen" not in written.lower()


def test_an_opening_leaves_the_story_and_a_title_stays_beside_it() -> None:
    rng = random.Random(3)
    kinds = set()
    for _ in range(60):
        seed = seeds.draw_seed(rng)
        row = {
            "story": f"{seed.opening} Then it rained.",
            "title": seed.title,
            "about": seed.about,
            "opening": seed.opening,
            "hero": "nobody of the prompts",
        }
        for made in data.of_titled(row):
            if made["prompt"] == seed.opening:
                assert made["story"] == "Then it rained."
                kinds.add("opening")
            else:
                assert made["story"] == row["story"]
                kinds.add("title")
    assert kinds == {"opening", "title"}


def test_titles_are_typed_in_several_ways_with_the_same_words() -> None:
    rng = random.Random(0)
    ways = {data.as_typed("The owl who lost a hat", rng) for _ in range(200)}
    assert {"The owl who lost a hat", "the owl who lost a hat", "The Owl who Lost a Hat"} <= ways
    assert "A story about an owl who lost a hat" in ways
    assert all("lost a hat" in way.lower() for way in ways)


def test_pieces_of_a_tale_have_its_title_then_the_sentence_before() -> None:
    text = " ".join(f"The fox saw sentence number {n} here." for n in range(150))
    first, second = data.of_tale({"title": "The Fox", "story": text})
    assert first["prompt"] == "The Fox"
    assert first["story"].startswith("The fox saw sentence number 0")
    assert second["prompt"] in first["story"]
    assert text.index(second["prompt"]) + len(second["prompt"]) + 1 == text.index(second["story"])


def test_a_title_that_its_tale_does_not_mention_gives_way_to_the_first_sentence() -> None:
    (only,) = data.of_tale({"title": "Eighth Evening", "story": "A swan flew by. It was white."})
    assert only == {"prompt": "A swan flew by.", "story": "It was white."}


def test_a_new_hero_is_called_alike_in_prompt_and_story() -> None:
    example = {"prompt": "The fox who lost a hat", "story": "There was a fox. The foxes met an owl. Fox ran."}
    changed = {data._renamed(text, "fox", "otter") for text in example.values()}
    assert changed == {"The otter who lost a hat", "There was an otter. The otters met an owl. Otter ran."}


def test_half_of_the_heroes_change_and_nothing_else() -> None:
    example = {"prompt": "One day, Lily found a key.", "story": "She ran home. Then Lily told Tom, and Lily laughed."}
    drawn = [data.with_new_hero(example, data.hero_of(example), random.Random(seed)) for seed in range(200)]
    new = [each for each in drawn if each != example]
    assert 60 < len(new) < 140
    for each in new:
        name = each["prompt"].split()[2]
        assert each["story"] == example["story"].replace("Lily", name)
    assert len({each["prompt"] for each in new}) > 50


def test_a_hero_that_is_not_in_the_prompt_stays() -> None:
    example = {"prompt": "A rainy day", "story": "One day Lily ran. Then Lily fell."}
    assert data.hero_of(example) is None
