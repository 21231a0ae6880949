"""Grids: what is shared, what is refused before the first step, what a plan costs, and what a failure leaves alone."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline.toy_corpus import write_corpus, write_tiny_stories
from pipeline.toy_grid import GRID, run_step
from program import Started, run

from discodvt.cli.grid import _planned
from discodvt.errors import BadRequest
from discodvt.experiments import grid_run
from discodvt.experiments.grid import read_grid
from discodvt.experiments.grid_costs import _Costs, _wall, estimate
from discodvt.experiments.grid_plan import make_plan
from discodvt.experiments.grid_run import GridRun, locked_grid, read_times
from discodvt.experiments.grid_steps import Step

ROOT = Path(__file__).parents[3]


@pytest.fixture
def written(tmp_path):
    stories = write_tiny_stories(tmp_path / "stories.jsonl", 120)

    def write(text: str = GRID, name: str = "grid.toml") -> Path:
        path = tmp_path / name
        path.write_text(text.replace("STORIES", str(stories)))
        return path

    return write


@pytest.fixture
def quick_steps(monkeypatch):
    monkeypatch.setattr(grid_run, "run_command", run_step)


def planned(path: Path, out: Path):
    return make_plan(read_grid(path), out)


@pytest.mark.parametrize("path", sorted(ROOT.glob("recipes/*/*grid.toml")), ids=lambda path: path.stem)
def test_every_grid_of_the_project_has_a_plan_with_all_systems(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = read_grid(path)
    for corpus in grid.corpora.values():
        if corpus.corpus is not None:
            write_corpus(tmp_path / corpus.corpus, train=4, valid=2)
    plan = planned(path, tmp_path / "out")
    systems = {row.system for row in plan.rows}
    assert systems == set(grid.systems)
    if path.stem == "layers-grid":
        assert systems >= {"1 layer", *(f"{number} layers" for number in range(2, 6))}
        return
    assert systems >= {"Seq2Seq", "BART", "BART-LM", "BART-CVAE", "DiscoDVT"}
    ablations = ("relations", "entropy", "warm start") if path.stem == "grid" else ("relations",)
    assert systems >= {f"DiscoDVT w/o {part}" for part in ablations}
    written = [step.recipe for row in plan.rows for cell in row.cells for step in cell.stories.after if step.recipe]
    priors = {(recipe.model.init, recipe.data.corpus) for recipe in written if recipe.stage == "prior"}
    assert len(priors) == len(
        [recipe for recipe in {id(each): each for each in written}.values() if recipe.stage == "prior"]
    )


def test_seq2seq_takes_subwords_and_no_weights_from_the_backbone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = planned(Path("tiny/grid"), tmp_path / "out")
    (row,) = (row for row in plan.rows if row.system == "Seq2Seq")
    assert [step.recipe.stage for step in row.cells[0].trainings] == ["seq2seq"]
    (row,) = (row for row in plan.rows if row.system == "BART-LM")
    assert [step.recipe.stage for step in row.cells[0].trainings] == ["pretrain", "language-model", "seq2seq"]


def test_what_chains_have_in_common_is_made_once(written, tmp_path):
    plan = planned(written(), tmp_path / "out")
    kinds = [step.kind for step in plan.steps]
    stages = sorted(step.recipe.stage for step in plan.steps if step.recipe)
    assert stages == ["pretrain"] + ["prior"] * 4 + ["reconstruct"] * 4 + ["seq2seq"] * 4 + ["warm-start"] * 2
    once = {"prepare": 1, "annotate": 1, "prompts": 1}
    expected = once | {"generate": 8, "evaluate": 4, "compare": 3}
    assert {kind: kinds.count(kind) for kind in expected} == expected
    places = {step.output: number for number, step in enumerate(plan.steps)}
    assert all(places[before.output] < places[step.output] for step in plan.steps for before in step.after)


def test_a_part_of_the_seeds_shares_its_trainings_with_the_whole(written, tmp_path):
    text = GRID.replace("[systems.BART]", "[systems.BART]\nseeds = [2]")
    whole = planned(written(text), tmp_path / "out")
    part = make_plan(read_grid(written(text), seeds=[1]), tmp_path / "out")
    assert {row.system for row in part.rows} == {"BART, slow", "DiscoDVT", "DiscoDVT w/o relations"}
    assert {cell.seed for row in part.rows for cell in row.cells} == {1}
    made = {step.output for step in part.steps if step.kind in ("train", "generate")}
    assert made < {step.output for step in whole.steps}
    with pytest.raises(BadRequest, match="`seed` 7: no system has it"):
        read_grid(written(text), seeds=[7])


def test_a_change_concerns_only_what_comes_after_it(written, tmp_path):
    before = {step.output for step in planned(written(), tmp_path / "out").steps}
    changed = GRID.replace('recipe = "tiny/prior"', 'recipe = "tiny/prior"\nseed = 7')
    after = {step.output for step in planned(written(changed), tmp_path / "out").steps}
    gone = {path.relative_to(tmp_path / "out").parts[0] for path in before - after}
    assert gone == {"train", "generate", "evaluate", "compare"}
    assert all("prior" in path.name for path in before - after if path.parts[-3] == "train")
    elsewhere = {step.output.name for step in planned(written(), tmp_path / "other").steps}
    assert elsewhere == {path.name for path in before}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('main = "DiscoDVT"', 'main = "DiscDVT"', "no system 'DiscDVT'; did you mean 'DiscoDVT'?"),
        ('["pretrain", "seq2seq"]', '["pretrain", "seq3seq"]', "no stage 'seq3seq'; did you mean 'seq2seq'?"),
        ('"loss.relation" = 0.0', '"loss.relations" = 0.0', "loss.relations: unknown key"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "seeds: a seed is there twice"),
        ("prompts = 4", 'corpus = "x"', "corpora.toy: give one of prepare and corpus"),
        ('recipe = "tiny/prior"', 'recipe = "tiny/priors"', "no such recipe"),
        ("resamples = 20", "resample = 20", "evaluation.resample: unknown key"),
        (
            '"seq2seq"]',
            '"prior", "seq2seq"]',
            "stage prior: starts from pretrain, which leaves a language model; prior needs a DiscoDVT",
        ),
        ('["pretrain", "seq2seq"]', '["pretrain", "warm-start", "seq2seq"]', "seq2seq needs a language model"),
        ('"loss.relation" = 0.0', '"model.init" = "{warmstart}"', "{warmstart} names no stage"),
        ('recipe = "tiny/seq2seq"', 'recipe = "tiny/seq2seq"\nafter = "seq2seq"', "seq2seq needs seq2seq"),
        (
            "[systems.BART]",
            '[stages.a]\nrecipe = "tiny/prior"\nafter = "b"\n[stages.b]\ncommand = ["make", "{a}", "{out}"]\n'
            '[systems.Circle]\nstages = ["a"]\n[systems.BART]',
            "stages: b needs a needs b; no stage can come before itself",
        ),
    ],
)
def test_a_wrong_grid_is_one_line_before_the_first_step(written, tmp_path, old, new, said):
    with pytest.raises(BadRequest) as caught:
        planned(written(GRID.replace(old, new)), tmp_path / "out")
    assert said in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_other_stories_in_the_same_directory_are_another_grid(written, tmp_path):
    def outputs(text: str) -> set[str]:
        return {step.output.name for step in planned(written(text), tmp_path / "out").steps if step.kind != "given"}

    raw = tmp_path / "raw"
    raw.mkdir()
    write_tiny_stories(raw / "train.jsonl", 120)
    prepared = GRID.replace('"STORIES"', f'"{raw}"')
    given = re.sub("prepare = .*", f'corpus = "{tmp_path / "corpus"}"', GRID)
    write_corpus(tmp_path / "corpus", train=20, valid=4)
    before = outputs(prepared), outputs(given)
    assert (outputs(prepared), outputs(given)) == before
    write_tiny_stories(raw / "train.jsonl", 121)
    write_corpus(tmp_path / "corpus", train=21, valid=4)
    assert [first & second for first, second in zip(before, (outputs(prepared), outputs(given)), strict=True)] == [
        set(),
        set(),
    ]


def test_a_file_that_a_step_reads_is_part_of_its_name(written, tmp_path):
    """A file named by a command, and the weights of a checkpoint that a recipe names besides its `model.init`."""
    pairs, encoder = tmp_path / "pairs.tsv", tmp_path / "encoder"
    encoder.mkdir()
    text = GRID.replace("discourse = false", f'classifier = ["--first", "{pairs}"]')
    text = text.replace(
        'recipe = "tiny/prior"\nset = {', f'recipe = "tiny/prior"\nset = {{ "model.prior_encoder" = "{encoder}",'
    )

    def outputs(first: str, weights: str) -> dict[str, set[str]]:
        pairs.write_text(first)
        (encoder / "model.safetensors").write_text(weights)
        found: dict[str, set[str]] = {}
        for step in planned(written(text), tmp_path / "out").steps:
            found.setdefault(step.recipe.stage if step.recipe else step.kind, set()).add(step.output.name)
        return found

    before = outputs("one", "1")
    assert outputs("one", "1") == before
    assert {kind for kind, names in outputs("two", "1").items() if names != before[kind]} == {"classifier", "discourse"}
    changed = {kind for kind, names in outputs("one", "2").items() if names != before[kind]}
    assert changed == {"prior", "generate", "evaluate", "compare", "discourse"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"garbage", "not a Parquet file"),
        ({"id": ["1"], "prompt": ["a"], "text": ["b"]}, "no column story"),
        ({"id": ["1"], "prompt": ["a"], "story": [None]}, "row 0 has no story"),
    ],
)
def test_a_given_corpus_that_is_none_is_one_line(written, tmp_path, content, said):
    (tmp_path / "corpus").mkdir()
    for split in ("train", "valid", "test"):
        path = tmp_path / "corpus" / f"{split}.parquet"
        path.write_bytes(content) if isinstance(content, bytes) else pq.write_table(pa.table(content), path)
    given = re.sub("prepare = .*", f'corpus = "{tmp_path / "corpus"}"', GRID)
    with pytest.raises(BadRequest, match=said):
        estimate(planned(written(given), tmp_path / "out"), jobs=1)


def test_an_estimate_has_every_step_and_no_more_than_the_jobs_at_a_time(written, tmp_path):
    plan = planned(written(), tmp_path / "out")
    costs = estimate(plan, jobs=2)
    assert all(costs.seconds[step] > 0 and costs.bytes[step] > 0 for step in plan.steps)
    assert sum(costs.seconds.values()) / 2 <= costs.wall <= sum(costs.seconds.values())
    assert _wall(plan, costs.seconds, 1) == pytest.approx(sum(costs.seconds.values()))
    assert _planned(plan, costs).row_count == len({step.kind for step in plan.steps}) + 1


def test_an_estimate_counts_the_corpus_that_a_command_names(written, tmp_path):
    costs, seconds = _Costs(planned(written(), tmp_path / "out")), []
    for size in (10, 4000):
        corpus = write_corpus(tmp_path / f"of-{size}", train=size, valid=2)
        step = Step("make", "plots", tmp_path / "out" / f"of-{size}", ("rescoring", "plots", str(corpus)))
        seconds.append(costs.of(step)[0])
    assert seconds[1] > 1.5 * seconds[0]


def tables(out: Path) -> dict[str, str]:
    found = {str(path.relative_to(out)): path.read_text() for path in out.glob("report/*/*/tables/*")}
    return found | {"scores": (out / "report" / "toy" / "scores.json").read_text()}


def test_a_grid_killed_three_times_ends_with_the_same_tables(written, tmp_path):
    text = GRID.replace('main = "DiscoDVT"', 'main = "BART"')
    systems = ("--only", "BART", "--only", "BART, slow", "--seed", 1)

    def start(out: Path) -> Started:
        return Started(tmp_path / f"{out.name}.log", "grid", written(text), "--out", out, "--jobs", 2, *systems)

    whole, out = start(tmp_path / "whole"), tmp_path / "killed"
    assert whole.end() == 0, whole.log.read_text()
    for kind in ("annotate", "train", "generate"):  # killed when the first of a kind has begun
        start(out).kill_when(lambda kind=kind: list((out / kind).glob("*/*")))
    assert not (out / "report").exists()
    last = start(out)
    assert last.end() == 0, last.log.read_text()
    assert tables(out) == tables(tmp_path / "whole")
    page = (out / "report" / "toy" / "main" / "report.html").read_text()
    assert "BART, slow" in page
    assert "draws trainings with replacement" in page
    again = run("grid", written(text), "--out", out, *systems)
    assert again.returncode == 0, again.stderr
    assert ": done in" not in again.stderr  # nothing is made twice


def test_a_failed_step_is_named_and_the_rest_goes_on(written, tmp_path, quick_steps):
    """A disk that is full for one cell; the others are complete, and are reported."""
    text = GRID.replace("seeds = [1, 2]", "seeds = [1]").replace(
        '["pretrain", "seq2seq"]', '["pretrain", { stage = "seq2seq", set = { "optimizer.learning_rate" = 1e38 } }]'
    )
    systems = ("--only", "BART", "--only", "DiscoDVT")
    result = run("grid", written(text), "--out", tmp_path / "out", "--jobs", 2, *systems, "--json")
    assert result.returncode == 1
    found = json.loads(result.stdout)
    assert [step["step"] for step in found["failed"]] == ["toy: train seq2seq-1"]
    assert found["left_out"] == ["toy: generate BART-1", "toy: evaluate BART", "toy: compare BART"]
    assert result.stderr.strip().splitlines()[-1].startswith("discodvt: toy: train seq2seq-1: ")
    page = (tmp_path / "out" / "report" / "toy" / "main" / "report.html").read_text()
    assert "Not complete, and so not here: BART" in page


def test_a_full_disk_in_one_step_loses_nothing_that_is_finished(written, tmp_path, quick_steps):
    text = GRID.replace("seeds = [1, 2]", "seeds = [1]")
    plan = planned(
        written(text[: text.index('[systems."BART, slow"]')].replace('main = "DiscoDVT"', "")), tmp_path / "out"
    )
    (tmp_path / "out" / "annotate").mkdir(parents=True)
    (tmp_path / "out" / "annotate" / "toy").write_text("in the way")  # what a full disk does to a directory
    work = GridRun(plan)
    events = list(work.run())
    assert [event.step.kind for event in events if event.state == "done"] == ["prepare"]
    assert [step.kind for step in work.failed] == ["annotate"]
    assert len(work.left_out) == len(plan.steps) - 2
    (tmp_path / "out" / "annotate" / "toy").unlink()
    kinds = [event.step.kind for event in GridRun(plan).run() if event.state == "done"]
    assert kinds[0] == "annotate"
    assert len(kinds) == len(plan.steps) - 1
    times = read_times(tmp_path / "out")
    assert len(times) == len(plan.steps)
    assert all(took["cpu_seconds"] >= 0 and took["seconds"] > 0 for took in times.values())
    assert sum(took["cpu_seconds"] for took in times.values()) > 1  # trainings among them


def test_a_grid_killed_before_it_removed_an_optimizer_does_so_later(written, tmp_path):
    plan = planned(written(), tmp_path / "out")
    done, under_way = (step for step in plan.steps if step.kind == "train" and step.recipe.stage == "warm-start")
    for step in (done, under_way):
        (step.output / "last-0000002").mkdir(parents=True)
    (done.output / "manifest.json").write_text("{}")
    next(GridRun(replace(plan, steps=(done,))).run(), None)
    assert not (done.output / "last-0000002").exists()
    assert (under_way.output / "last-0000002").exists()


def test_one_grid_at_a_time_works_in_a_directory(tmp_path):
    with (
        locked_grid(tmp_path / "out"),
        pytest.raises(BadRequest, match="a grid is at work in it"),
        locked_grid(tmp_path / "out"),
    ):
        pass
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "stage.json").write_text("{}")
    with pytest.raises(BadRequest, match="the output of another stage"), locked_grid(tmp_path / "other"):
        pass
