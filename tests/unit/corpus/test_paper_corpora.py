"""Wikiplots and WritingPrompts from small files."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from discodvt.corpus import Source, SourceRow, Wikiplots, WritingPrompts
from discodvt.corpus.formats import MAX_STORY_MB
from discodvt.corpus.paper_corpora import drop_newline_markers, strip_accents, strip_tags
from discodvt.errors import BadRequest


def rows(source: Source) -> list[SourceRow]:
    return [row for part in source.parts() for row in part.read(MAX_STORY_MB)]


def wikiplots(directory: Path, titles: str, plots: str) -> Wikiplots:
    (directory / "titles").write_text(titles, encoding="utf-8", newline="")
    (directory / "plots.zst").write_bytes(pa.compress(plots.encode(), codec="zstd", asbytes=True))
    return Wikiplots(directory)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_wikiplots(tmp_path: Path, end: str) -> None:
    plots = ["It ran.", "It slept.", "<EOS>", "<EOS>", "It sang.", "<EOS>"]
    found = rows(wikiplots(tmp_path, end.join(["Fox", "None", "Crow", "", ""]), end.join([*plots, ""])))
    assert [(row.prompt, row.story) for row in found] == [
        ("Fox", "It ran. It slept."),
        ("None", ""),
        ("Crow", "It sang."),
    ]
    assert found[0].place.endswith("plots.zst:3")
    assert len(rows(wikiplots(tmp_path, "Fox\nCrow", "It ran.\n<EOS>\nIt sang."))) == 2


@pytest.mark.parametrize(("titles", "counts"), [("a\n", (1, 2)), ("a\nb\nc\nd\n", (4, 2))])
def test_titles_and_plots_must_match(tmp_path: Path, titles: str, counts: tuple[int, int]) -> None:
    message = rf"titles: {counts[0]} titles, but .*plots.zst has {counts[1]} plots"
    with pytest.raises(BadRequest, match=message):
        rows(wikiplots(tmp_path, titles, "x\n<EOS>\ny\n<EOS>\n"))


def test_wikiplots_needs_both_files(tmp_path: Path) -> None:
    (tmp_path / "titles").touch()
    with pytest.raises(BadRequest, match="expected the files `titles` and `plots`"):
        Wikiplots(tmp_path).files()


def test_writingprompts(tmp_path: Path) -> None:
    (tmp_path / "train.wp_source").write_text("[ WP ] A café\n[ EU ] A crow\n", encoding="utf-8")
    (tmp_path / "train.wp_target").write_text("One . <newline> <newline> Two .\nIt sang .\n", encoding="utf-8")
    (tmp_path / "test.wp_source.gz").write_bytes(gzip.compress(b"[ WP ] x\n"))
    (tmp_path / "test.wp_target.gz").write_bytes(gzip.compress(b"y\n"))
    source = WritingPrompts(tmp_path)
    assert [(part.split, part.label) for part in source.parts()] == [("train", "train"), ("test", "test")]
    assert [(row.prompt, row.story) for row in rows(source)][:2] == [
        ("[ WP ] A cafe", "One . Two ."),
        ("[ EU ] A crow", "It sang ."),
    ]
    assert [row.prompt for row in rows(WritingPrompts(tmp_path, strip_tags=True))] == ["A cafe", "A crow", "x"]


def test_writingprompts_pairs_must_match(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"expected train\.wp_source and train\.wp_target"):
        WritingPrompts(tmp_path).files()
    (tmp_path / "valid.wp_source").write_text("a\nb\n")
    with pytest.raises(BadRequest, match=r"no valid\.wp_target"):
        WritingPrompts(tmp_path).files()
    (tmp_path / "valid.wp_target").write_text("a\nb\nc\nd\n")
    with pytest.raises(BadRequest, match=r"valid\.wp_source: 2 lines, but .*valid\.wp_target has 4;"):
        rows(WritingPrompts(tmp_path))
    (tmp_path / "valid.wp_target").write_text("a\n")
    with pytest.raises(BadRequest, match=r"valid\.wp_target: 1 lines, but .*valid\.wp_source has 2;"):
        rows(WritingPrompts(tmp_path))


def test_cleaning() -> None:
    assert strip_accents("Café naïve Å") == "Cafe naive A"
    assert drop_newline_markers("One . <newline> <newline> Two . <newlines>") == "One . Two ."
    assert strip_tags("[ WP ] A fox") == "A fox"
    assert strip_tags("[WP] [ OT ] A [fox]") == "A [fox]"
    assert strip_tags("A [ WP ] fox") == "A [ WP ] fox"


def test_a_plot_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"plots.zst:\d+: a plot of more than 1 MB; split it, or raise `max_story_mb`"):
        list(wikiplots(tmp_path, "Fox\n", "It ran on and on.\n" * 100_000).parts()[0].read(1))
