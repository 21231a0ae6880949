"""The tiny recipes through every stage: losses fall, files are there, killed runs resume bit for bit."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from pipeline.toy_corpus import write_corpus
from pipeline.trainings import SHORT, assert_resumed_equals_whole, assert_two_equal_one, lines
from safetensors.torch import load_file
from transformers import AutoTokenizer, BartForConditionalGeneration

from discodvt.errors import WorkFailed
from discodvt.model import DiscoDVT, PlanPrior
from discodvt.training.assembly import Site
from discodvt.training.recipes import read_recipe
from discodvt.training.run import train
from discodvt.training.validation import validate
from discodvt.writing import StoryWriter

RECIPES = Path(__file__).parents[2] / "recipes" / "tiny"
STAGES = {"pretrain": "pretrain", "warm-start": "warm-start", "reconstruct": "reconstruct", "prior": "writer",
          "seq2seq": "seq2seq"}  # fmt: skip
STARTS_FROM = {"warm-start": "pretrain", "reconstruct": "warm-start", "prior": "reconstruct", "seq2seq": "pretrain"}


def recipe_of(stage: str, chain: Path, *overrides: str):
    given = [f"data.corpus={chain / 'corpus'}"]
    if stage in STARTS_FROM:
        given.append(f"model.init={chain / STAGES[STARTS_FROM[stage]]}")
    return read_recipe(RECIPES / f"{stage}.toml", [*given, *overrides])


def run(stage: str, chain: Path, out: Path, *overrides: str, resume: bool = False):
    return list(train(recipe_of(stage, chain, *overrides), out, resume=resume))


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> Path:
    """All five stages, one after the other, for half their steps."""
    directory = tmp_path_factory.mktemp("tiny")
    write_corpus(directory / "corpus", valid=8)
    for stage, name in STAGES.items():
        run(stage, directory, directory / name, "run.steps=20")
    return directory


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_learns_and_leaves_its_files(chain, stage):
    out = chain / STAGES[stage]
    term = "prior" if stage == "prior" else "reconstruction"
    valid = [line[term] for line in lines(out, "valid")]
    assert valid[-1] < valid[0] - 0.1
    assert lines(out, "train")[0]["step"] == 1
    expected = {"manifest.json", "metrics.jsonl", "training.png", "README.md", "config.json", "model.safetensors",
                "tokenizer.json", "tensorboard"}  # fmt: skip
    assert expected <= {path.name for path in out.iterdir()}
    assert not list(out.rglob("*.partial"))
    assert not list(out.rglob("*.bin")) + list(out.rglob("*.pt"))
    card = (out / "README.md").read_text()
    assert f"# DiscoDVT: {stage}" in card
    assert "Watchdog" in card
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["facts"]["without_gradient"] == []
    frozen = {name.partition(".")[0] for name in manifest["facts"]["frozen"]}
    assert frozen == ({"relation_head"} if stage == "warm-start" else set())


def test_the_outputs_open_with_from_pretrained(chain):
    for stage in ("pretrain", "seq2seq"):
        BartForConditionalGeneration.from_pretrained(chain / stage)
    writer = DiscoDVT.from_pretrained(chain / "writer")
    trained = DiscoDVT.from_pretrained(chain / "reconstruct")
    assert all(torch.equal(a, b) for a, b in zip(writer.parameters(), trained.parameters(), strict=True))
    assert trained.config.id2label[20] == "unknown"
    prior = PlanPrior.from_pretrained(chain / "writer" / "prior")
    tokenizer = AutoTokenizer.from_pretrained(chain / "writer")
    prompt = tokenizer(" A day with Ann", return_tensors="pt")
    plan = prior.generate(**prompt, min_new_tokens=3)[:, 1:]
    plan = torch.where(plan < 16, plan, writer.config.padding_code)
    text = tokenizer.batch_decode(writer.generate(**prompt, plan=plan, max_length=40), skip_special_tokens=True)
    assert text[0].strip()


def test_validation_watches_the_codes(chain):
    last = lines(chain / "reconstruct", "valid")[-1]
    assert {"codes_used", "codes_dead", "code_perplexity", "swap_gap", "relation_accuracy", "bleu_1"} <= last.keys()
    assert lines(chain / "reconstruct", "valid")[0]["step"] == 0


def test_resuming_a_finished_run_does_nothing_and_says_so(chain):
    out = chain / "pretrain"
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    events = run("pretrain", chain, out, "run.steps=20", resume=True)
    assert [event.kind for event in events] == ["note"]
    assert "nothing to resume" in events[0].message
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


VQ = ("model.bottleneck=vq", "loss.entropy=0")  # codes that are updated after each step, and restarted by chance


@pytest.mark.parametrize(("stage", "codes"), [*((stage, ()) for stage in STAGES), ("reconstruct", VQ)])
def test_killed_and_resumed_equals_uninterrupted(chain, stage, codes, tmp_path):
    extra = ("model.shape.dropout=0.1",) if stage == "pretrain" else ("model.dropout=0.1", *codes)
    has = "optimizer.safetensors"
    assert_resumed_equals_whole(lambda: recipe_of(stage, chain, *SHORT, *extra), tmp_path, has=has)


@pytest.mark.parametrize(("stage", "codes"), [("reconstruct", ()), ("reconstruct", VQ), ("prior", ())])
def test_two_processes_equal_one(chain, pair, stage, codes, tmp_path):
    settings = (*SHORT, *codes, "model.dropout=0.0", "batch.stories_per_step=8", "batch.stories_per_micro_batch=2")
    assert_two_equal_one(pair, recipe_of(stage, chain, *settings), tmp_path)


def test_the_watchdog_can_stop_a_run_that_ignores_its_plan(chain, tmp_path):
    with pytest.raises(WorkFailed, match="ignores the plan"):
        run("reconstruct", chain, tmp_path / "out", *SHORT, "watchdog.on_alarm=stop", "watchdog.min_swap_gap=50",
            "watchdog.grace=0.1")  # fmt: skip
    stopped = list((tmp_path / "out").glob("last-*"))
    assert [path.name for path in stopped] == ["last-0000003"]
    assert "ignores the plan" in (stopped[0] / "README.md").read_text()


def test_dead_codes_are_restarted_beside_all_used_ones_but_not_at_the_end(chain, tmp_path, monkeypatch):
    counts = torch.zeros(16, dtype=torch.long)
    counts[[3, 5, 9]] = torch.tensor([10, 30, 20])
    restarts = []

    def validated(*arguments, **settings):
        return validate(*arguments, **settings)[0], {"codes": counts}

    def restart(bottleneck, dead, busy, *, generator):
        restarts.append((dead.tolist(), busy.tolist()))

    monkeypatch.setattr("discodvt.training.loop.validate", validated)
    monkeypatch.setattr("discodvt.model.bottlenecks.gumbel.GumbelBottleneck.restart", restart)
    events = run("reconstruct", chain, tmp_path / "out", *SHORT, "watchdog.restart_dead_codes=true")
    told = [(event.step, event.message) for event in events if "codes restarted" in event.message]
    assert told == [(3, "13 dead codes restarted")]  # of validations at 0, 3, 6 and 7
    ((dead, busy),) = restarts
    assert dead == [code for code in range(16) if code not in (3, 5, 9)]
    assert busy == [5, 9, 3] * 4 + [5]  # the busiest first, each in turn


def published(directory: Path) -> tuple[str, dict[str, torch.Tensor]]:
    return (directory / "README.md").read_text(), load_file(directory / "model.safetensors")


def test_the_model_of_the_highest_bleu_is_published_with_its_own_figures(chain, tmp_path, monkeypatch):
    """BLEU-1 of 0.2, 0.6 and 0.4 at steps 3, 6 and 7: weights, card and manifest are those of step 6."""
    scores, seen = iter((0.2, 0.6, 0.4)), []

    def measured(model, *_, **__):
        seen.append({name: weight.clone() for name, weight in model.state_dict().items()})
        return next(scores)

    monkeypatch.setattr("discodvt.training.stages.reconstruct.written_bleu_1", measured)
    out = tmp_path / "out"
    run("reconstruct", chain, out, *SHORT, "validation.select_by=bleu-1", "watchdog.grace=0.8",
        "watchdog.min_swap_gap=50")  # fmt: skip
    facts = json.loads((out / "manifest.json").read_text())["facts"]
    assert (facts["best_step"], facts["steps"], facts["validation"]["bleu_1"]) == (6, 7, 0.6)
    card, weights = published(out)
    assert all(torch.equal(weight, seen[1][name]) for name, weight in weights.items())
    assert "- Step 6 of 7" in card
    assert "| bleu 1 | 0.6000 |" in card
    assert "- step 6: another story's plan costs only" in card  # its own validation's alarm
    assert [alarm[:6] for alarm in facts["alarms"]] == ["step 6", "step 7"]


def test_the_best_prior_is_published_and_the_writers_card_is_about_it(chain, tmp_path, monkeypatch):
    """Losses of 2, 1 and 1.5 at steps 3, 6 and 7; a writer's root has the card of the prior in it."""
    losses, seen = iter((9.0, 2.0, 1.0, 1.5)), []

    def validated(stage, *_, **__):
        seen.append({name: weight.clone() for name, weight in stage.model.state_dict().items()})
        return {"prior": next(losses)}, {}

    monkeypatch.setattr("discodvt.training.loop.validate", validated)
    out = tmp_path / "out"
    run("prior", chain, out, *SHORT)
    assert json.loads((out / "manifest.json").read_text())["facts"]["validation"] == {"prior": 1.0}
    card, weights = published(out / "prior")
    assert all(torch.equal(weight, seen[2][name]) for name, weight in weights.items())
    assert (out / "README.md").read_text() == card
    assert "- Step 6 of 7" in card
    assert "| prior | 1.0000 |" in card


def test_progress_is_told_while_a_stage_is_made_ready(chain, tmp_path):
    told: dict[str, list[tuple[int, int]]] = {"tokenizing": [], "reading plans": []}
    site = Site(tmp_path, Accelerator(cpu=True), None, lambda what, done, total: told[what].append((done, total)))
    recipe_of("prior", chain).assemble(site)
    assert told["tokenizing"][-1] == told["reading plans"][-1] == (104, 104)  # both splits
    assert len(told["reading plans"]) == 96 // 16 + 1  # batches


def test_the_warm_start_has_no_prompts(chain, tmp_path):
    for stage, empty in (("warm-start", True), ("reconstruct", False)):
        made = recipe_of(stage, chain).assemble(Site(tmp_path / stage, Accelerator(cpu=True), last=None))
        for feed in (made.train, made.valid):
            prompts = feed.batch(np.arange(len(feed)), step=0)["prompt_ids"]
            assert (prompts.tolist() == [[0, 2]] * len(feed)) == empty


def test_a_writer_keeps_to_the_lengths_of_training(chain, tmp_path):
    written = run("prior", chain, tmp_path / "out", *SHORT, "data.prompt_tokens=5", "data.story_tokens=60",
                  "writing.min_tokens=20", "writing.min_codes=3")  # fmt: skip
    assert written
    lengths = StoryWriter.from_pretrained(tmp_path / "out").lengths
    assert (lengths.prompt_tokens, lengths.min_tokens, lengths.max_tokens) == (5, 20, 60)
    assert (lengths.min_codes, lengths.max_codes) == (3, 8)
    kept = {stage: json.loads((chain / name / "generation_config.json").read_text()) for stage, name in STAGES.items()}
    assert {each["max_new_tokens"] for each in kept.values()} == {96}
    assert {stage for stage, each in kept.items() if each.get("prompt_tokens") == 16} == {
        "reconstruct", "prior", "seq2seq"}  # fmt: skip
    assert "min_new_tokens" not in json.loads((chain / "writer" / "prior" / "generation_config.json").read_text())


def test_a_gradient_that_is_not_finite_stops_the_run(chain, tmp_path):
    with pytest.raises(WorkFailed, match="not finite"):
        run("seq2seq", chain, tmp_path / "out", *SHORT, "optimizer.learning_rate=1e30")
