"""Aristotelian Rescoring from a corpus to stories: sets without a prompt in common, scorers, weights, a writer."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from pipeline.toy_corpus import write_tiny_corpus

from discodvt.baselines.aristotle import join, open_drawer
from discodvt.baselines.plot_corpus import make_plots
from discodvt.baselines.plots import TAGS, strip_tags
from discodvt.baselines.rescoring import ScoredPlot, weight_steps
from discodvt.baselines.stages.plot_scorer import wilson
from discodvt.errors import BadRequest
from discodvt.training.recipes import read_recipe
from discodvt.training.run import train
from discodvt.writing import Request, StoryWriter

KINDS = ("relevance", "event-inter", "event-intraV", "entity")
SHORT = (
    "run.steps=4", "validation.every_steps=2", "run.save_every_steps=4", "run.tensorboard=false",
    "batch.stories_per_step=4", "batch.stories_per_micro_batch=4",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A corpus, its plots, a pretrained BART and all parts of the baseline, trained for a moment."""
    folder = tmp_path_factory.mktemp("aristotle")
    write_tiny_corpus(folder / "corpus")
    make_plots(folder / "corpus", folder / "plots")
    _train("tiny/pretrain", folder, "pretrain", f"data.corpus={folder / 'corpus'}")
    init = f"model.init={folder / 'pretrain'}"
    _train("tiny/plot-writer", folder, "plot-writer", init, f"data.corpus={folder / 'plots/plots'}")
    _train("tiny/story-writer", folder, "story-writer", init, f"data.corpus={folder / 'plots/stories'}")
    for kind in KINDS:
        _train("tiny/scorer", folder, kind, init, f"data.corpus={folder / 'plots/pairs' / kind}")
    join(folder / "joined", **parts(folder))
    return folder


def _train(recipe: str, folder: Path, name: str, *more: str) -> None:
    list(train(read_recipe(recipe, [*SHORT, *more]), folder / name))


def parts(folder: Path, **more) -> dict:
    return {
        "plots": folder / "plots", "plot_writer": folder / "plot-writer", "story_writer": folder / "story-writer",
        "scorers": {kind: folder / kind for kind in KINDS}, "min_tokens": 8, "max_tokens": 40, "candidates": 3,
        "max_pairs": 4,
    } | more  # fmt: skip


def rows_of(path: Path) -> list[dict]:
    return pq.read_table(path).to_pylist()


def test_no_prompt_serves_two_of_writers_rescorers_and_weights(folder):
    plots = folder / "plots"
    writers = {row["prompt"] for row in rows_of(plots / "plots/train.parquet")}
    weights = {row["prompt"] for row in rows_of(plots / "weights.parquet")}
    scorers = {row["prompt"].partition(" <sent>")[0] for row in rows_of(plots / "pairs/event-inter/train.parquet")}
    assert writers
    assert weights
    assert scorers
    assert len(writers | weights | scorers) == len(writers) + len(weights) + len(scorers)


def test_tagged_stories_strip_to_the_stories_of_the_corpus(folder):
    real = {row["id"]: row["story"] for row in rows_of(folder / "corpus/train.parquet")}
    tagged = rows_of(folder / "plots/stories/train.parquet")
    assert tagged
    assert all(strip_tags(row["story"]) == real[row["id"]] for row in tagged)
    assert any("<ent0>" in row["story"] for row in tagged)


def test_pairs_differ_and_the_judge_learns_from_other_plots(folder):
    for kind in (*KINDS, "judge"):
        pairs = rows_of(folder / "plots/pairs" / kind / "train.parquet")
        assert pairs
        assert all(row["story"] != row["changed"] for row in pairs)
    judge = {row["prompt"] for row in rows_of(folder / "plots/pairs/judge/train.parquet")}
    assert not judge & {row["prompt"] for row in rows_of(folder / "plots/pairs/relevance/train.parquet")}


def test_scorers_report_accuracy_with_an_interval(folder):
    facts = json.loads((folder / "relevance" / "manifest.json").read_text())["facts"]["validation"]
    assert facts["accuracy_low"] < facts["accuracy"] < facts["accuracy_high"]
    assert facts["pairs"] > 0
    assert wilson(50, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert wilson(10, 10)[0] == pytest.approx(0.7225, abs=1e-4)


def test_the_ranking_update_of_the_notes():
    """s -0.1 (real), -0.9 (generated), ln p -4, -2: loss 1.2, weight 1 -> 1.0008."""
    ((loss, weights),) = weight_steps(
        [(ScoredPlot(-4.0, (-0.1,)), ScoredPlot(-2.0, (-0.9,)))], rescorers=1, learning_rate=1e-3
    )
    assert loss == pytest.approx(1.2)
    assert weights.item() == pytest.approx(1.0008)


def test_weights_are_learned_and_kept(folder):
    settings = json.loads((folder / "joined" / "rescoring.json").read_text())
    assert settings["scorers"] == list(KINDS)
    assert len(settings["weights"]) == 4
    assert all(weight >= 0 for weight in settings["weights"])


@pytest.mark.parametrize("mode", ["plain", "plot", "token"])
def test_plots_repeat_with_the_seed(folder, mode):
    drawer = open_drawer(folder / "joined")
    drawer.mode, drawer.longest = mode, 16
    first = drawer.draw("Ann and the kite", seed=3)
    assert first == drawer.draw("Ann and the kite", seed=3)
    others = {drawer.draw("Ann and the kite", seed=seed) for seed in range(4, 8)}
    assert others - {first}


def test_rescoring_with_zero_weights_draws_from_the_five_likeliest_alone(folder):
    drawer = open_drawer(folder / "joined")
    drawer.mode, drawer.longest, drawer.shortest = "token", 12, 2
    drawer.weights = torch.zeros(4)
    asked = []
    drawer._rescore = lambda prompt, *, skip: lambda plots: asked.append(plots)
    assert drawer.draw("Ann and the kite", seed=1)
    assert not asked


def test_the_best_of_several_plots_is_the_one_its_scorers_like_best(folder):
    drawer = open_drawer(folder / "joined")
    drawer.weights = torch.tensor([100.0, 0.0, 0.0, 0.0])
    plots = drawer._generate("Ann and the kite", seed=5, count=3, processors=[])
    liked = [score.log_real[0] for score in drawer.score("Ann and the kite", plots)]
    assert drawer.draw("Ann and the kite", seed=5) == drawer._text(plots[liked.index(max(liked))])


def test_a_joined_directory_writes_stories_without_tags(folder):
    writer = StoryWriter.from_pretrained(folder / "joined")
    requests = [Request(f"Ann and the {thing}", index=number, id=thing) for number, thing in enumerate(("kite", "hat"))]
    stories = {story.id: story for story in writer.write_many(requests, batch_size=2)}
    assert {story.prompt for story in stories.values()} == {"Ann and the kite", "Ann and the hat"}
    assert not any(tag in story.text for story in stories.values() for tag in TAGS)
    (alone,) = writer.write_many(requests[1:], batch_size=2)
    assert alone.text == stories["hat"].text


def test_a_corpus_that_is_refused_leaves_nothing_behind(tmp_path):
    write_tiny_corpus(tmp_path / "corpus")
    path = tmp_path / "corpus" / "valid.parquet"
    table = pq.read_table(path)
    rows = [row | {"story": f"{row['story']} <sent>"} for row in table.to_pylist()]
    pq.write_table(table.from_pylist(rows, schema=table.schema), path)
    with pytest.raises(BadRequest, match="holds <sent>, a tag of plots"):
        make_plots(tmp_path / "corpus", tmp_path / "plots")
    assert not (tmp_path / "plots").exists()


def test_wrong_parts_are_refused(folder, tmp_path):
    with pytest.raises(BadRequest, match="a bart checkpoint; give"):
        join(tmp_path / "out", **parts(folder, scorers={"relevance": folder / "pretrain"}))
    with pytest.raises(BadRequest, match=r"no weights\.parquet"):
        join(tmp_path / "out", **parts(folder, plots=folder / "corpus"))
    with pytest.raises(BadRequest, match="none given"):
        join(tmp_path / "out", **parts(folder, scorers={}))
    with pytest.raises(BadRequest, match="`min_tokens` 41 is above `max_tokens` 40"):
        join(tmp_path / "out", **parts(folder, min_tokens=41))
    for name in ("plot_writer", "story_writer"):
        with pytest.raises(BadRequest, match="a discodvt-scorer checkpoint; give a run of the stage"):
            join(tmp_path / "out", **parts(folder, **{name: folder / "relevance"}))
    assert not (tmp_path / "out").exists()
