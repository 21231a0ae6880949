"""The report command on stage directories: what it writes, and the requests it refuses."""

import json
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import program
import pytest
from pipeline.toy_runs import discourse_run, measure_run, stories, study_run, write_runs

from discodvt.artefacts import open_stage, read_manifest
from discodvt.errors import BadRequest
from discodvt.evaluation.evaluate_files import evaluate_files
from discodvt.report.report_stage import write_report

run = partial(program.run, "report")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def report(runs: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "out"
    done = run(*runs, "--out", out, "--title", "Foxes & owls", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["page"] == str(out / "report.html")
    return out


class Balanced(HTMLParser):
    """Complains of tags that do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_everything_is_written_and_named_in_the_manifest(report: Path) -> None:
    facts = read_manifest(report, "report")["facts"]
    assert facts["sections"] == ["main", "ablation", "modern", "comparison", "discourse", "codes", "examples"]
    for table in facts["tables"]:
        assert all((report / "tables" / f"{table}.{suffix}").stat().st_size for suffix in ("md", "tex", "csv"))
    for figure in facts["figures"]:
        assert (report / "figures" / f"{figure}.pdf").read_bytes().startswith(b"%PDF")
        assert "<svg" in (report / "figures" / f"{figure}.svg").read_text()


def test_the_page_is_whole_and_needs_no_network(report: Path) -> None:
    page = (report / "report.html").read_text(encoding="utf-8")
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert "<title>Foxes &amp; owls</title>" in page
    assert "prompt &lt;" in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    identities = re.findall(r' id="([^"]+)"', page)
    assert len(identities) == len(set(identities))


def test_the_same_runs_give_the_same_report(runs: list[str], report: Path, tmp_path: Path) -> None:
    write_report(runs, tmp_path / "again", title="Foxes & owls")
    for path in report.rglob("*"):
        if path.is_file() and path.name != "manifest.json":
            assert path.read_bytes() == (tmp_path / "again" / path.relative_to(report)).read_bytes(), path.name


def test_the_stages_it_reads_are_called_what_it_calls_them() -> None:
    from discodvt.evaluation.codes import measure, study
    from discodvt.evaluation.discourse import score_stage
    from discodvt.report import systems as read

    held = {study.STAGE: study.CODES, measure.STAGE: measure.FIGURES, score_stage.SCORE_STAGE: score_stage.DISCOURSE}
    assert held == {stage: read.CONTENTS[stage] for stage in (read.STUDY, read.MEASURE, read.DISCOURSE)}


def test_a_part_of_the_runs_gives_a_part_of_the_report(tmp_path: Path) -> None:
    codes = write_report([f"toy={study_run(tmp_path / 's')}"], tmp_path / "codes")
    assert codes["sections"] == ["codes"]
    told = write_report([str(discourse_run(tmp_path / "d", shift=0.1))], tmp_path / "told")
    assert told["sections"] == ["discourse"]
    assert told["systems"] == ["d"]


def test_tables_of_one_name_are_all_written(tmp_path: Path) -> None:
    """The later one took the place of the earlier one: names that differ in a sign only, systems not reported."""
    ours, other, third, references = (stories(tmp_path / f"{seed}.jsonl", seed) for seed in (1, 2, 3, 4))
    folder = tmp_path / "further"
    folder.mkdir()
    namesake = stories(folder / "2.jsonl", 5)
    for name, against in {"a": other, "b": third, "c": namesake}.items():
        evaluate_files(ours, references, out=tmp_path / name, against=against, resamples=2)
    for name in ("s1", "s2"):
        study_run(tmp_path / name)
    given = {"A": ("a", "b", "c"), "BART LM": ("s1",), "bart-lm": ("s2",)}
    runs = [f"{system}={tmp_path / name}" for system, names in given.items() for name in names]
    facts = write_report(runs, tmp_path / "out")
    compared = ["compare-paper-A-2_jsonl", "compare-paper-A-3_jsonl", "compare-paper-A-2_jsonl-2"]
    dictionaries = ["dictionary-BART_LM", "dictionary-bart_lm-2"]
    assert facts["tables"] == ["main", *compared, "codes", *dictionaries]
    assert {path.stem for path in (tmp_path / "out" / "tables").iterdir()} == set(facts["tables"])
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "A against 3.jsonl" in page
    assert all(f'id="table-{name}"' in page for name in facts["tables"])


def test_one_story_is_reported_without_an_interval(tmp_path: Path) -> None:
    one, other = (stories(tmp_path / f"{seed}.jsonl", seed, count=1) for seed in (1, 2))
    evaluate_files(one, other, out=tmp_path / "scores", resamples=0)
    write_report([str(tmp_path / "scores")], tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "no interval" in page
    assert "nan" not in page.lower().replace("nano", "")


def test_wrong_requests_end_in_one_line_and_exit_code_2(tmp_path: Path) -> None:
    first, second, third = (stories(tmp_path / f"{seed}.jsonl", seed) for seed in (1, 2, 3))
    for name, (told, references) in {"a": (first, second), "b": (first, third), "c": (third, second)}.items():
        evaluate_files(told, references, out=tmp_path / name, resamples=0)
    evaluate_files(third, second, out=tmp_path / "code", resamples=0, look_back="code")
    with open_stage(tmp_path / "corpus", "prepare", config={}) as stage:
        stage.finish()
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "manifest.json").write_text("{")
    for name, content in {"listed": "[]", "foreign": '{"name": "web page"}'}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(content)
    measure_run(tmp_path / "m1")
    measure_run(tmp_path / "m2")
    discourse_run(tmp_path / "d1", shift=0.1)
    discourse_run(tmp_path / "d2", shift=0.1, classifier="other")
    requests = [
        (["none"], "none: no such directory"),
        (["empty"], "no manifest.json; not made by discodvt"),
        (["torn"], "not readable as JSON"),
        (["listed"], "not readable as JSON"),
        (["foreign"], "foreign: its manifest.json is not of discodvt; a report is made of `evaluate`"),
        (["corpus"], "made by `prepare`; a report is made of `evaluate`"),
        (["a", "b"], "scored against other references than"),
        (["a", "code"], "`look_back` differs"),
        (["x=a", "x=c"], "system 'x' has other evaluate results"),
        (["x=m1", "x=m2"], "system 'x' has other codes measure results"),
        (["d1", "d2"], "another classifier"),
    ]
    for names, message in requests:
        given = [name.replace("=", f"={tmp_path}/") if "=" in name else str(tmp_path / name) for name in names]
        with pytest.raises(BadRequest, match=re.escape(message)):
            write_report(given, tmp_path / "out")
        assert not (tmp_path / "out").exists()
    with pytest.raises(BadRequest, match="expected DIR or NAME=DIR"):
        write_report(["name="], tmp_path / "out")
    done = run(tmp_path / "a", "--out", tmp_path / "out", "--paper", "wikiplots")
    assert (done.returncode, done.stdout) == (2, "")
    assert "12 stories, the paper scores 1,000" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert run("--out", tmp_path / "out").returncode == 2
