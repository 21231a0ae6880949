"""The codes commands on a model of random weights: figures that are known beforehand, files, page, wrong requests."""

import json
import re
import shutil
from functools import partial
from html import unescape
from pathlib import Path

import numpy as np
import program
import pytest
import torch
from pipeline.toy_corpus import write_corpus
from safetensors.numpy import save_file
from tiny_bart import tiny_bart
from transformers import BartForConditionalGeneration

from discodvt.artefacts import open_stage, read_manifest
from discodvt.checkpoints import STORYTELLER
from discodvt.corpus import read_examples
from discodvt.data.batches import collate, in_order
from discodvt.data.subwords import train_tokenizer
from discodvt.errors import BadRequest
from discodvt.evaluation.codes import inference, study
from discodvt.evaluation.codes.inference import exchanged, open_planner, plans_of, tokens_of
from discodvt.evaluation.codes.measure import comparison, measure_codes, read_measured
from discodvt.evaluation.codes.study import study_codes
from discodvt.model import DiscoDVT, PlanPrior, PlanPriorConfig
from discodvt.report.code_section import MEASUREMENTS
from discodvt.report.pages import code_page
from discodvt.training.stages.prior import PLANS
from discodvt.training.stages.reconstruct import LatentObjective, RelationLoss, TemperatureSchedule

CODES, POSITIONS = 12, 64
pytestmark = pytest.mark.usefixtures("impatient_probe")
run = partial(program.run, "codes")
QUICK = {"split": "valid", "train_stories": 40, "resamples": 20, "story_tokens": POSITIONS, "prompt_tokens": 8}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A corpus, a writer (a DiscoDVT with a prior that knows nothing) and its generator alone, as a plain BART."""
    directory = tmp_path_factory.mktemp("codes")
    write_corpus(directory / "corpus", train=60, valid=25)
    write_corpus(directory / "bare", train=12, valid=4, annotated=False)
    texts = [story.story for story in read_examples(directory / "corpus" / "train.parquet")]
    tokenizer = train_tokenizer(texts, 330)
    torch.manual_seed(0)
    plain = BartForConditionalGeneration(tiny_bart(len(tokenizer), ffn_width=32, positions=POSITIONS))
    sizes = {"num_codes": CODES, "code_width": 8, "conv_channels": 8, "relation_width": 8, "code_logit_gain": 20.0}
    model = DiscoDVT.from_bart(plain, **sizes)
    prior = PlanPrior(PlanPriorConfig.from_backbone_config(model.config.backbone, num_codes=CODES, max_codes=8))
    torch.nn.init.zeros_(prior.decoder.embed_tokens.weight)  # tied to its output: every code is as likely as the next
    for part, name in ((model, "writer"), (prior, "writer/prior"), (plain, "plain")):
        part.save_pretrained(directory / name)
        tokenizer.save_pretrained(directory / name)
    return directory


@pytest.fixture(scope="module")
def measured(home) -> dict:
    return measure_codes(home / "writer", home / "corpus", home / "measured", against=home / "plain",
                         without_relations=home / "writer", **QUICK)  # fmt: skip


@pytest.fixture(scope="module")
def studied(home) -> dict:
    return study_codes(home / "writer", home / "corpus", home / "studied", split="valid", story_tokens=POSITIONS,
                       example_stories=3, page=code_page)  # fmt: skip


@pytest.mark.usefixtures("warm_workers")
def test_workers_read_the_same_plans(home, studied, monkeypatch, tmp_path):
    monkeypatch.setattr(inference, "STORIES_PER_SHARD", 8)
    shards = []
    plan = inference.plans_in_shards
    monkeypatch.setattr(study, "plans_in_shards", lambda *given: shards.append(len(given[2])) or plan(*given))
    study_codes(home / "writer", home / "corpus", tmp_path / "out", split="valid", story_tokens=POSITIONS,
                example_stories=3, page=code_page, workers=2)  # fmt: skip
    assert shards[0] > 8  # several
    for path in (home / "studied").iterdir():
        assert path.read_bytes() == (tmp_path / "out" / path.name).read_bytes(), path.name


def test_losses_and_relations_are_those_of_training(home, measured):
    planner = open_planner(home / "writer", prompt_tokens=8, story_tokens=POSITIONS)
    tokens = tokens_of(planner, home / "corpus" / "valid.parquet", limit=None)
    batch = collate(tokens, np.arange(len(tokens)), pad=planner.model.config.pad_token_id)
    with torch.no_grad():
        output = LatentObjective(planner.model, RelationLoss(), temperature=TemperatureSchedule(0.9, 0.1, 0.0))(batch)
    right, labelled = output.tallies["relations"].tolist()
    value = {name: figure["value"] for name, figure in measured["figures"].items()}
    assert measured["tokens"] == int(batch["story_mask"].sum())
    assert value["nll"] == pytest.approx(output.sums["reconstruction"].item() / measured["tokens"], rel=1e-5)
    assert value["relation_accuracy"] == pytest.approx(right / labelled)
    assert measured["facts"]["marker_pairs"] == labelled
    assert measured["usage"]["used"] == int((output.tallies["codes"] > 0).sum())


def test_a_prior_that_knows_nothing_has_the_perplexity_of_a_die(measured):
    value = {name: figure["value"] for name, figure in measured["figures"].items()}
    assert value["prior_perplexity"] == pytest.approx(CODES)
    assert value["prior_perplexity_rivalled"] == pytest.approx(CODES + 1)
    assert value["prior_to_unigram"] == pytest.approx(CODES / value["unigram_perplexity"])


def test_a_model_compared_with_itself_gains_nothing(measured):
    gain = measured["figures"]["probe_gain"]
    assert (gain["value"], gain["low"], gain["high"]) == (0, 0, 0)


def test_figures_of_few_stories_are_json_without_nan(home, tmp_path):
    """Two of three stories have no marker pair: resamples without any made NaN of their accuracy."""
    measure_codes(home / "writer", home / "corpus", tmp_path / "out", **QUICK | {"max_stories": 3})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    found = json.loads((tmp_path / "out" / "figures.json").read_text(), parse_constant=refuse)
    accuracy = found["figures"]["relation_accuracy"]
    assert accuracy["low"] <= accuracy["value"] <= accuracy["high"]
    assert accuracy["too_few"] == f"{found['facts']['marker_pairs']} marker pairs, at least 20 are needed"
    assert "too_few" not in found["figures"]["nll"]


def test_a_report_has_a_row_for_every_figure(measured):
    assert [name for rows in MEASUREMENTS.values() for name in rows] == measured["names"]


def test_a_generator_that_ignores_its_plan_has_no_gap_and_no_gain(home, tmp_path):
    deaf = DiscoDVT.from_pretrained(home / "writer")
    for parameter in deaf.up.projection.parameters():
        torch.nn.init.zeros_(parameter)
    deaf.save_pretrained(tmp_path / "deaf")
    open_planner(home / "writer").tokenizer.save_pretrained(tmp_path / "deaf")
    found = measure_codes(tmp_path / "deaf", home / "corpus", tmp_path / "out", against=home / "plain", **QUICK)
    for name in ("swap_gap", "nll_gain"):
        assert found["figures"][name]["value"] == pytest.approx(0, abs=1e-6)
        assert found["figures"][name]["high"] == pytest.approx(0, abs=1e-6)
    assert "prior_perplexity" not in found["figures"]


def test_plans_are_exchanged_between_stories_of_like_length(home):
    planner = open_planner(home / "writer", prompt_tokens=8, story_tokens=POSITIONS)
    tokens = tokens_of(planner, home / "corpus" / "valid.parquet", limit=None)
    plans = plans_of(planner, tokens)
    numbered = type(plans)(np.repeat(np.arange(len(plans), dtype=np.int32), plans.lengths), plans.offsets)
    order = in_order(tokens.story_lengths, len(tokens))[0].tolist()
    for story, plan in enumerate(exchanged(numbered, tokens.story_lengths)[row] for row in range(len(plans))):
        (giver,) = set(plan.tolist())
        assert giver != story
        assert abs(order.index(giver) - order.index(story)) == 1


def prior_run(home: Path, out: Path, *, read: Path) -> Path:
    """The writer of `home` as a prior run that read this corpus leaves it: with the plans of its training stories."""
    planner = open_planner(home / "writer", prompt_tokens=8, story_tokens=POSITIONS)
    with open_stage(out, "train", config={}, inputs=[read / "train.parquet"]) as stage:
        planner.model.save_pretrained(out)
        planner.tokenizer.save_pretrained(out)
        PlanPrior.from_pretrained(home / "writer" / "prior").save_pretrained(out / "prior")
        plans = plans_of(planner, tokens_of(planner, home / "corpus" / "train.parquet", limit=None))
        save_file({"train.values": plans.values, "train.offsets": plans.offsets}, out / PLANS)
        stage.finish()
    return out


def test_the_priors_own_training_plans_are_used_where_they_are(home, measured, tmp_path):
    writer = prior_run(home, tmp_path / "writer", read=home / "corpus")
    found = measure_codes(writer, home / "corpus", tmp_path / "out", **QUICK)
    assert (measured["facts"]["code_model_plans"], found["facts"]["code_model_plans"]) == (40, 60)
    assert found["figures"]["probe_accuracy"] == measured["figures"]["probe_accuracy"]  # of 40 stories in both
    beside = measure_codes(home / "writer", home / "corpus", tmp_path / "beside", prior=writer / "prior", **QUICK)
    assert beside["facts"]["code_model_plans"] == 60  # the same weights


def test_plans_of_another_corpus_or_an_unknown_model_are_not_used(home, tmp_path):
    other = prior_run(home, tmp_path / "other", read=home / "bare")
    unknown = prior_run(home, tmp_path / "unknown", read=home / "corpus")
    (unknown / "model.safetensors").unlink()
    for writer in (other, unknown):
        out = tmp_path / f"out-{writer.name}"
        found = measure_codes(home / "writer", home / "corpus", out, prior=writer / "prior", **QUICK)
        assert found["facts"]["code_model_plans"] == 40


def test_the_prior_of_another_model_is_refused(home, tmp_path):
    writer = prior_run(home, tmp_path / "writer", read=home / "corpus")
    model = DiscoDVT.from_pretrained(writer)
    torch.nn.init.normal_(model.up.projection.weight)
    model.save_pretrained(writer)
    with pytest.raises(BadRequest, match=r"prior: learned the plans of writer, another model than .*; give its own"):
        measure_codes(home / "writer", home / "corpus", tmp_path / "out", prior=writer / "prior", **QUICK)
    assert not (tmp_path / "out").exists()


def test_a_finished_directory_is_read_again_and_refused_to_other_requests(home, measured):
    before = (home / "measured" / "figures.json").stat().st_mtime_ns
    again = measure_codes(home / "writer", home / "corpus", home / "measured", against=home / "plain",
                          without_relations=home / "writer", **QUICK)  # fmt: skip
    assert again == measured
    assert (home / "measured" / "figures.json").stat().st_mtime_ns == before
    assert read_manifest(home / "measured", "codes measure")["facts"]["stories"] == 25
    with pytest.raises(BadRequest, match="another config"):
        measure_codes(home / "writer", home / "corpus", home / "measured", **QUICK)
    table = (home / "measured" / "figures.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in table[1:]] == measured["names"]


def test_the_dictionary_holds_every_code_used_and_the_page_every_story(home, studied):
    assert {entry["code"] for entry in studied["codes"]} | set(studied["usage"]["dead"]) == set(range(CODES))
    assert sum(entry["count"] for entry in studied["codes"]) == studied["usage"]["codes"]
    page = (home / "studied" / "codes.html").read_text(encoding="utf-8")
    stories = {story.id: story.story for story in read_examples(home / "corpus" / "valid.parquet")}
    shown = re.findall(r'<p class="story"[^>]*>(.*?)</p>', page, flags=re.DOTALL)
    for told, html in zip(studied["told"], shown, strict=True):
        text = unescape(re.sub(r"<[^>]+>", "", re.sub(r"<sub>\d+</sub>", "", html)))
        assert stories[told["id"]].startswith(text)
        assert len(text) > 20
    linked = set(re.findall(r'href="#(code-\d+)"', page))
    assert linked <= set(re.findall(r'<article id="(code-\d+)"', page))
    assert not re.search(r"https?://|src=|@import", page)
    assert (home / "studied" / "codes.csv").read_text().count("\n") == len(studied["codes"]) + 1


def test_runs_are_compared_on_the_same_stories_only(home, measured, tmp_path):
    rows = comparison(read_measured([home / "measured", home / "measured"]))
    assert rows[0]["conv_layers"] == 3
    assert rows[0]["nll"] == measured["figures"]["nll"]["value"]
    measure_codes(home / "writer", home / "corpus", tmp_path / "fewer", max_stories=20, **QUICK)
    with pytest.raises(BadRequest, match=r"fewer: measured on 20 valid stories"):
        read_measured([home / "measured", tmp_path / "fewer"])


def test_wrong_requests_are_refused_with_one_line_and_leave_nothing(home, tmp_path):
    requests = [
        (home / "plain", home / "corpus", {}, "plain: a bart checkpoint; give a DiscoDVT"),
        (home / "writer" / "prior", home / "corpus", {}, "a discodvt-prior checkpoint; give a DiscoDVT"),
        (tmp_path / "nowhere", home / "corpus", {}, "nowhere: no such directory"),
        (home / "writer", home / "bare", {}, "run `discodvt annotate` first"),
        (home / "writer", home / "corpus", {"split": "test"}, "no split test; it has train, valid"),
        (
            home / "writer",
            home / "corpus",
            {"story_tokens": 100},
            "need 100 positions, the model has 64",
        ),
    ]
    for checkpoint, corpus, options, message in requests:
        for work in (study_codes, measure_codes):
            with pytest.raises(BadRequest, match=message):
                work(checkpoint, corpus, tmp_path / "out", **{"split": "valid"} | options)
            assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
    with pytest.raises(BadRequest, match="held-out"):
        measure_codes(home / "writer", home / "corpus", tmp_path / "out", split="train")
    with pytest.raises(BadRequest, match="a discodvt checkpoint; give a plain language model"):
        measure_codes(home / "writer", home / "corpus", tmp_path / "out", against=home / "writer", **QUICK)


def test_a_damaged_checkpoint_is_refused_before_it_is_built(home, tmp_path):
    """Each is said in one line that names the checkpoint, and at once: a billion layers took minutes and all memory."""
    for name, damage, message in (
        ("cut", lambda at: (at / "model.safetensors").write_bytes(b"\x10" + b"\0" * 30), "cut: .*safetensors"),
        ("huge", lambda at: configured(at, decoder_layers=10**9), "decoder_layers is 1000000000; expected"),
        ("heads", lambda at: configured(at, decoder_attention_heads=7), "decoder_attention_heads is 7; expected"),
        ("mute", lambda at: (at / "tokenizer.json").unlink(), r"mute: no tokenizer\.json"),
    ):
        shutil.copytree(home / "writer", tmp_path / name)
        damage(tmp_path / name)
        for work in (study_codes, measure_codes):
            with pytest.raises(BadRequest, match=message):
                work(tmp_path / name, home / "corpus", tmp_path / "out", split="valid")
            assert not (tmp_path / "out").exists()


def configured(directory: Path, **changes: int) -> None:
    config = json.loads((directory / "config.json").read_text())
    config["backbone_config"] |= changes
    (directory / "config.json").write_text(json.dumps(config))


def test_lengths_are_those_kept_with_the_model():
    """The storyteller has no manifest: its lengths are in its generation settings; a paper prompt has 16 subwords."""
    planner = open_planner(STORYTELLER)
    assert (planner.prompt_tokens, planner.story_tokens) == (48, 512)


def test_the_command_studies_by_default_prints_json_alone_and_ends_with_2_on_a_wrong_request(home, measured, tmp_path):
    done = run(home / "writer", home / "corpus", tmp_path / "out", "--split", "valid", "--story-tokens", 64, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["usage"]["vocabulary"] == CODES
    assert (tmp_path / "out" / "codes.html").is_file()
    compared = run("compare", home / "measured", "--csv", tmp_path / "runs.csv", "--plot", tmp_path / "runs.png")
    assert compared.returncode == 0, compared.stderr
    assert (tmp_path / "runs.csv").read_text().startswith("model,conv_layers,tokens_per_code,codes,codes_used")
    assert (tmp_path / "runs.png").read_bytes()[:4] == b"\x89PNG"
    wrong = run("measure", home / "plain", home / "corpus", tmp_path / "none", "--split", "valid")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert len(wrong.stderr.splitlines()) == 1
    misspelt = run("mesure", home / "writer", home / "corpus", tmp_path / "none")
    assert (misspelt.returncode, misspelt.stdout) == (2, "")
    assert "No such command 'mesure'. Did you mean 'measure'?" in misspelt.stderr
