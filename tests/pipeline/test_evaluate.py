"""The evaluate command on files: table, JSON, comparison, its stage directory, wrong requests."""

import json
from functools import partial
from pathlib import Path

import program
import pytest
from program import refused

from discodvt.artefacts import open_stage, read_manifest
from discodvt.corpus import CORPUS_SCHEMA, write_rows
from discodvt.errors import BadRequest
from discodvt.evaluation import evaluate
from discodvt.evaluation.evaluate_files import evaluate_files
from discodvt.evaluation.metrics import word_tokens
from discodvt.executors import local

SENTENCES = (
    "The fox ran home because he was late.",
    "Although it rained, they played outside.",
    "Then the owl laughed.",
    "Mia found a ball and she gave it to Tom.",
    "It was a long day.",
)
COUNT = 12
run = partial(program.run, "evaluate")


def story(number: int, shift: int = 0) -> str:
    return " ".join(SENTENCES[(number * 3 + shift + step * (number % 4 + 1)) % len(SENTENCES)] for step in range(4))


def write(path: Path, *, shift: int = 0, skip: int = 0) -> Path:
    records = (
        {"id": f"s{n}", "prompt": f"prompt {n}", "story": story(n, shift), "plan": [1], "finish": "end"}
        for n in reversed(range(skip, COUNT))
    )
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("references") / "corpus"
    with open_stage(directory, "prepare", config={}) as stage:
        with stage.writing("test.parquet") as path:
            rows = ({"id": f"s{n}", "prompt": f"prompt {n}", "story": story(n, 1)} for n in range(COUNT))
            write_rows(path, rows, CORPUS_SCHEMA)
        stage.finish()
    return directory


def test_scores_against_a_corpus_are_those_of_the_library_and_kept(tmp_path, corpus):
    stories, target = write(tmp_path / "stories.jsonl"), tmp_path / "scores"
    done = run(stories, "--references", corpus, "--out", target, "--json", "--resamples", 50, "--seed", 4)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    order = list(reversed(range(COUNT)))
    expected = evaluate([story(n) for n in order], [story(n, 1) for n in order], resamples=50, seed=4)
    assert printed["scores"] == {name: score.as_dict() for name, score in expected.items()}
    assert printed["stories"] == COUNT
    assert json.loads((target / "scores.json").read_text()) == printed
    assert read_manifest(target, "evaluate")["config"]["mode"] == "paper"
    again = evaluate_files(stories, corpus, out=target, resamples=50, seed=4)
    assert again == printed
    with pytest.raises(BadRequest, match="another config"):
        evaluate_files(stories, corpus, out=target, resamples=50, seed=4, mode="modern")


@pytest.mark.usefixtures("warm_workers")
def test_workers_cut_texts_into_words_and_give_the_same_scores(tmp_path, corpus, monkeypatch):
    stories, other = write(tmp_path / "stories.jsonl"), write(tmp_path / "other.jsonl", shift=2)
    request = (stories, "--references", corpus, "--against", other, "--resamples", 20)
    assert run(*request, "--out", tmp_path / "here").returncode == 0
    started = []

    class Counted(local.LocalProcesses):
        def start(self, ticket, task):
            started.append(ticket)
            super().start(ticket, task)

    monkeypatch.setattr(local, "LocalProcesses", Counted)
    monkeypatch.setattr(word_tokens, "TEXTS_PER_SHARD", 5)
    done = run(*request, "--out", tmp_path / "there", "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert started == [0, 1, 2] * 3  # texts of two files for the scores, and of a third for the comparison
    for path in (tmp_path / "here").iterdir():
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes()
    refused(run(*request, "--resources", "gpus=1"), "--resources: for tasks of a Ray cluster; give --on ray")


def test_a_killed_run_goes_on_with_the_words_it_has(tmp_path, corpus, monkeypatch):
    stories, target = write(tmp_path / "stories.jsonl"), tmp_path / "scores"
    request = (stories, "--references", corpus, "--resamples", 20, "--out")
    monkeypatch.setattr(word_tokens, "TEXTS_PER_SHARD", 5)
    assert run(*request, tmp_path / "undisturbed").returncode == 0
    cut, done = word_tokens.tokenize, []

    def killed(text: str) -> list[str]:
        if len(done) == 11:  # in the third of six shards
            raise KeyboardInterrupt
        done.append(text)
        return cut(text)

    monkeypatch.setattr(word_tokens, "tokenize", killed)
    assert run(*request, target).returncode == 130
    assert len(list((target / "shards").iterdir())) == 2
    monkeypatch.setattr(word_tokens, "tokenize", lambda text: (done.append(text), cut(text))[1])
    done.clear()
    assert run(*request, target).returncode == 0
    assert len(done) == 2 * COUNT - 10
    for path in (tmp_path / "undisturbed").iterdir():
        assert path.read_bytes() == (target / path.name).read_bytes()
    assert not (target / "shards").exists()


def test_the_codes_of_plans_are_counted_where_every_story_has_one(tmp_path, corpus):
    stories = write(tmp_path / "stories.jsonl")
    records = [json.loads(line) for line in stories.read_text().splitlines()]
    plans = [[1, 1, 2, 3]] * 6 + [[7, 7]] * 6
    planned, mixed, wrong = (tmp_path / f"{name}.jsonl" for name in ("planned", "mixed", "wrong"))
    for path, codes in ((planned, plans), (mixed, [[], *plans[1:]]), (wrong, [["x"], *plans[1:]])):
        path.write_text("\n".join(json.dumps(a | {"plan": b}) for a, b in zip(records, codes, strict=True)))
    found = evaluate_files(planned, corpus, resamples=0)["utilisation"]
    assert found["mean"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert (found["bins"][15], found["bins"][10]) == (0.5, 0.5)
    assert evaluate_files(mixed, corpus, resamples=0)["utilisation"] is None
    with pytest.raises(BadRequest, match=r"wrong\.jsonl:1: plan is not a list of codes"):
        evaluate_files(wrong, corpus, resamples=0)
    assert "code utilisation of their plans: 62.5%" in run(planned, "--references", corpus, "--resamples", 0).stdout


def test_two_systems_are_compared_in_a_table(tmp_path, corpus):
    ours, theirs = write(tmp_path / "a.jsonl"), write(tmp_path / "b.jsonl", shift=1)
    done = run(ours, "--references", corpus, "--against", theirs, "--mode", "modern", "--resamples", 50)
    assert done.returncode == 0, done.stderr
    assert "a.jsonl (a) against b.jsonl (b): 12 stories, modern mode" in done.stdout
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert {"BLEU", "MSJ-2", "LD-4", "rep-8", "length", "finish"} <= rows.keys()
    assert "100.00" in rows["BLEU"]  # b is the references


def test_wrong_requests_end_in_one_line_and_exit_code_2(tmp_path, corpus):
    stories = write(tmp_path / "stories.jsonl")
    lines = stories.read_text().splitlines()
    (tmp_path / "corrupt.jsonl").write_text("\n".join([*lines[:4], lines[4][:20], *lines[5:]]))
    (tmp_path / "empty.jsonl").write_text("\n".join([*lines[:2], json.dumps({"id": "s1", "story": ""})]))
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    (tmp_path / "strange.jsonl").write_text(json.dumps({"id": "other", "story": "x"}))
    fewer, lone = write(tmp_path / "fewer.jsonl", skip=2), write(tmp_path / "one.jsonl", skip=COUNT - 1)
    requests = [
        ((tmp_path / "empty.jsonl", corpus), {}, "empty.jsonl:3: the story is empty"),
        ((tmp_path / "strange.jsonl", corpus), {}, "no reference with this id"),
        ((tmp_path / "deep.jsonl", corpus), {}, "deep.jsonl:1: JSON nested too deep"),
        ((stories, fewer), {}, "stories.jsonl:11: no reference with this id, nor for 1 more of 12 stories"),
        ((fewer, stories), {}, "stories.jsonl:11: no story with this id, nor for 1 more of 12 references"),
        ((lone, lone), {}, "one.jsonl: intervals need more than one story; .* `resamples` 0"),
        ((stories, corpus), {"against": fewer}, "its id is not among the other system's"),
        ((stories, corpus), {"split": "valid"}, "no split valid"),
        ((stories, tmp_path / "none.jsonl"), {}, "none.jsonl: no such file"),
    ]
    for files, options, message in requests:
        with pytest.raises(BadRequest, match=message):
            evaluate_files(*files, out=tmp_path / "out", resamples=10, **options)
        assert not (tmp_path / "out").exists()
    done = run(fewer, "--references", corpus, "--drop-unmatched", "--resamples", 0)
    assert (done.returncode, done.stderr) == (0, "2 references without a story left out\n")
    assert evaluate_files(lone, lone, resamples=0)["scores"]["B-1"]["low"] is None
    done = run(tmp_path / "strange.jsonl", "--references", corpus)
    assert "check --references, --split and --match" in done.stderr
    done = run(tmp_path / "corrupt.jsonl", "--references", corpus, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert "corrupt.jsonl:5: not JSON" in done.stderr
    assert len(done.stderr.splitlines()) == 1
