"""A search by several processes, killed and resumed: every trial once, and a best recipe that trains."""

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline.toy_corpus import write_corpus
from program import run

from discodvt.errors import BadRequest
from discodvt.experiments.search import Search
from discodvt.experiments.search_results import write_results
from discodvt.experiments.space import Choice, Range, Space
from discodvt.training.recipes import read_recipe
from discodvt.training.run import train

PRETRAIN = Path(__file__).parents[3] / "recipes" / "tiny" / "pretrain.toml"
RATES = Choice((1e-4, 3e-4, 1e-3, 3e-3))
SPACE = Space({"optimizer.learning_rate": RATES, "batch.stories_per_step": Choice((4, 8))})


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> list[str]:
    """A training of a moment: four steps, validated after two."""
    corpus = write_corpus(tmp_path_factory.mktemp("search") / "corpus", train=16, valid=4)
    return [
        f"data.corpus={corpus}", "run.steps=4", "validation.every_steps=2", "run.save_every_steps=2",
        "model.shape.width=8", "model.shape.ffn_width=8", "data.story_tokens=16", "run.tensorboard=false",
    ]  # fmt: skip


def test_every_combination_of_a_small_space_is_tried_once(tmp_path, short):
    space = Space({"optimizer.learning_rate": RATES})
    work = Search(str(PRETRAIN), space, tmp_path, 4, overrides=[*short, "run.steps=1"], pruning=False)
    list(work.run())
    found = write_results(work)
    rates = sorted(trial["values"]["optimizer.learning_rate"] for trial in found["trials"])
    assert rates == sorted(RATES.values)
    assert found["importance"] == {"optimizer.learning_rate": 1.0}
    assert (tmp_path / "importance.svg").read_text().startswith("<?xml")
    with pytest.raises(BadRequest, match="the space has 4 combinations"):
        Search(str(PRETRAIN), space, tmp_path, 5, overrides=short)


def test_hopeless_trials_are_pruned_and_leave_nothing(tmp_path, short):
    space = Space({"optimizer.learning_rate": Range(1e-3, 2e-3)})
    good = Search(str(PRETRAIN), space, tmp_path, 4, overrides=short)
    list(good.run())
    hopeless = Search(str(PRETRAIN), space, tmp_path, 5, overrides=short)
    hopeless.__dict__["study"] = good.study
    good.study.enqueue_trial({"optimizer.learning_rate": 1e-3 + 1e-9})
    hopeless._value = lambda figures: 1e6  # whatever it has learned
    ends = [event.kind for event in hopeless.run()]
    assert ends == ["start", "step", "step", "valid", "pruned"]
    assert not (tmp_path / "trials" / "0004").exists()


def test_a_trial_that_fails_is_named_and_the_rest_goes_on(tmp_path, short):
    space = Space({"batch.stories_per_step": Choice((4, 8)), "batch.stories_per_micro_batch": Choice((4, 8))})
    work = Search(str(PRETRAIN), space, tmp_path, 4, overrides=[*short, "run.steps=1"])
    failed = [event for event in work.run() if event.kind == "failed"]
    assert [event.values for event in failed] == [{"batch.stories_per_step": 4, "batch.stories_per_micro_batch": 8}]
    assert "not a multiple" in failed[0].message
    states = [trial["state"] for trial in write_results(work)["trials"]]
    assert sorted(states) == ["complete", "complete", "complete", "fail"]


def test_what_failed_is_tried_again_by_the_next_process(tmp_path, short):
    corpus = tmp_path / "later"
    options = ["search", PRETRAIN, "--trials", 2, "--out", tmp_path / "out", "--space", tmp_path / "space.toml"]
    for setting in (*short, "run.steps=1", f"data.corpus={corpus}"):
        options += ["--set", setting]
    (tmp_path / "space.toml").write_text("[optimizer]\nlearning_rate = [1e-4, 3e-4]\n")
    first = run(*options)
    assert first.returncode == 1
    assert "no trial was completed; trial 1: " in first.stderr.splitlines()[-1]
    write_corpus(corpus, train=16, valid=4)
    assert run(*options).returncode == 0
    states = [trial["state"] for trial in json.loads((tmp_path / "out" / "search.json").read_text())["trials"]]
    assert states == ["fail", "fail", "complete", "complete"]


def test_a_study_of_another_space_and_files_that_are_none_are_refused(tmp_path, short):
    list(Search(str(PRETRAIN), SPACE, tmp_path / "a", 1, overrides=[*short, "run.steps=1"]).run())
    other = Space({"optimizer.learning_rate": RATES})
    with pytest.raises(BadRequest, match=r"another space or recipe \(space\.batch\.stories_per_step"):
        list(Search(str(PRETRAIN), other, tmp_path / "a", 1, overrides=[*short, "run.steps=1"]).run())
    with pytest.raises(BadRequest, match=r"recipe\.run\.steps: 1 there, 2 asked for"):
        list(Search(str(PRETRAIN), SPACE, tmp_path / "a", 1, overrides=[*short, "run.steps=2"]).run())
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "study.db").write_text("these are no tables" * 100)
    with pytest.raises(BadRequest, match="not a study"):
        list(Search(str(PRETRAIN), SPACE, tmp_path / "b", 1, overrides=short).run())
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "manifest.json").write_text("{}")
    with pytest.raises(BadRequest, match="another stage"):
        list(Search(str(PRETRAIN), SPACE, tmp_path / "c", 1, overrides=short).run())


def test_the_study_is_optunas_own(tmp_path, short):
    list(Search(str(PRETRAIN), SPACE, tmp_path, 1, overrides=[*short, "run.steps=1"]).run())
    with sqlite3.connect(tmp_path / "study.db") as study:
        assert study.execute("select count(*) from trials").fetchone() == (1,)


def in_child(work: Callable[[], None]) -> int:
    """Run in a process of its own (the tests above have imported what it needs); returns its id."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error))
            os._exit(1)
        os._exit(0)
    return child


def test_two_processes_killed_and_resumed_make_each_of_twelve_trials_once(tmp_path, short):
    rates = Choice((1e-4, 2e-4, 3e-4, 6e-4, 1e-3, 3e-3))
    space = Space({"optimizer.learning_rate": rates, "batch.stories_per_step": Choice((4, 8))})

    def one(kill_at: int | None = None) -> Callable[[], None]:
        def work() -> None:
            events = 0
            for event in Search(str(PRETRAIN), space, tmp_path, 12, overrides=short).run():
                events += event.kind == "step"
                if events == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        return work

    for kills in ((5, 6), (3, 3), (None, None)):  # so few that neither process runs out of trials before
        children = [in_child(one(kill)) for kill in kills]
        ends = [os.waitpid(child, 0)[1] for child in children]
        assert [os.WIFSIGNALED(end) for end in ends] == [kill is not None for kill in kills]
        assert all(os.WIFSIGNALED(end) or os.waitstatus_to_exitcode(end) == 0 for end in ends)
    found = write_results(Search(str(PRETRAIN), space, tmp_path, 12, overrides=short))
    trials = found["trials"]
    assert len(trials) == 12
    assert {trial["state"] for trial in trials} <= {"complete", "pruned"}
    assert len({json.dumps(trial["values"], sort_keys=True) for trial in trials}) == 12
    complete = [trial for trial in trials if trial["state"] == "complete"]
    for trial in complete:
        manifest = json.loads((tmp_path / trial["directory"] / "manifest.json").read_text())
        assert manifest["config"]["optimizer"]["learning_rate"] == trial["values"]["optimizer.learning_rate"]
        assert trial["value"] == min(trial["validations"].values())
        assert set(trial["validations"]) == {"2", "4"}
    assert found["best"] == min(complete, key=lambda trial: trial["value"])["trial"]
    best = read_recipe(tmp_path / "best.toml")
    assert best.optimizer.learning_rate == trials_by_number(trials)[found["best"]]["values"]["optimizer.learning_rate"]
    again = list(train(best, tmp_path / "best"))
    assert again[-1].figures["reconstruction"] == trials_by_number(trials)[found["best"]]["value"]
    assert (tmp_path / "trials.csv").read_text().count("\n") == 13


def trials_by_number(trials):
    return {trial["trial"]: trial for trial in trials}
