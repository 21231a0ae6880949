"""Drawn splits: fixed by seed and prompt, near their shares; names of files; digests."""

from collections import Counter
from pathlib import Path

import pytest

from discodvt.corpus.sources import split_named, stem
from discodvt.corpus.splits import Seen, draw_split, normalise, parse_shares
from discodvt.errors import BadRequest


def test_shares_are_met_and_the_seed_matters() -> None:
    shares = parse_shares("90/5/5")
    drawn = {seed: [draw_split(f"prompt {i}", seed=seed, shares=shares) for i in range(4000)] for seed in (1, 2)}
    counts = Counter(drawn[1])
    assert counts["train"] == pytest.approx(3600, abs=80)
    assert counts["valid"] == pytest.approx(200, abs=60)
    assert drawn[1] != drawn[2]


def test_a_prompt_has_one_split_whatever_its_spacing() -> None:
    shares = parse_shares("34/33/33")
    for i in range(50):
        assert draw_split(f"A  Prompt {i}", seed=1, shares=shares) == draw_split(
            f"a prompt {i} ", seed=1, shares=shares
        )


def test_the_draw_does_not_change_between_versions() -> None:
    shares = parse_shares("1/1/1")
    drawn = " ".join(draw_split(name, seed=42, shares=shares) for name in "abcdefgh")
    assert drawn == "valid train train test test train valid test"


@pytest.mark.parametrize("shares", ["0/0/1", "100/0/0", "0/1/0"])
def test_one_share_takes_all(shares: str) -> None:
    wanted = ("train", "valid", "test")[[share != "0" for share in shares.split("/")].index(True)]
    assert {draw_split(str(i), seed=0, shares=parse_shares(shares)) for i in range(100)} == {wanted}


@pytest.mark.parametrize("text", ["", "90/10", "90/5/5/0", "a/b/c", "-1/1/1", "0/0/0", "nan/1/1", "inf/1/1"])
def test_bad_shares(text: str) -> None:
    with pytest.raises(BadRequest, match="expected three shares"):
        parse_shares(text)


def test_names() -> None:
    names = ["train", "Validation", "val", "dev", "test", "train-00000-of-00002", "train_1", "real_test", "trains"]
    expected = ["train", "valid", "valid", "valid", "test", "train", "train", None, None]
    assert [split_named(name) for name in names] == expected
    assert [stem(Path(name)) for name in ("a/x.jsonl.gz", "x.csv", "x.y.parquet", "x.txt.zst")] == [
        "x",
        "x",
        "x.y",
        "x",
    ]


def test_seen() -> None:
    seen = Seen()
    assert [seen.add("a"), seen.add("b"), seen.add("a")] == [True, True, False]
    assert "a" in seen
    assert "c" not in seen
    assert all(seen.add(f"text {i}") for i in range(5000))
    assert not any(seen.add(f"text {i}") for i in range(5000))
    assert all(f"text {i}" in seen for i in range(5000))


def test_texts_that_count_as_the_same() -> None:
    assert normalise(" The\n FOX\u00a0ran ") == "the fox ran"
