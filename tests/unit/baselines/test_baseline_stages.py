"""Baselines under the one loop: BART-LM is the warm start without its latent, BART-CVAE is its backbone with one."""

import json
import math
import shutil
from pathlib import Path
from tempfile import mkdtemp

import pytest
import torch
from pipeline.toy_corpus import write_corpus
from tiny_bart import tiny_bart
from transformers import BartForConditionalGeneration, PreTrainedModel

from discodvt.baselines.cvae_model import BartCVAE
from discodvt.baselines.stages.bart_cvae import CVAEFeed, CVAEObjective, CVAEWatchdog, KLTerm, information
from discodvt.checkpoints import Checkpoint
from discodvt.model import DiscoDVT
from discodvt.training.latent_objective import TokenPrediction
from discodvt.training.outputs import read_metrics
from discodvt.training.recipes import read_recipe
from discodvt.training.run import train
from discodvt.training.stages.seq2seq import TextObjective
from discodvt.writing import Request, StoryWriter

SHORT = (
    "run.steps=3", "validation.every_steps=2", "run.save_every_steps=1", "run.tensorboard=false",
    "batch.stories_per_step=4", "batch.stories_per_micro_batch=2", "data.story_tokens=48",
)  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "annotated", train=24, valid=8)


@pytest.fixture(scope="module")
def pretrained(corpus, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("backbone") / "pretrain"
    list(train(read_recipe("tiny/pretrain", [*SHORT, f"data.corpus={corpus}"]), out))
    return out


def stage_of(name: str, corpus: Path, init: Path, *more: str):
    """The recipe and its assembled stage, as a run would have it."""
    from accelerate import Accelerator

    from discodvt.training.assembly import Site

    recipe = read_recipe(name, [*SHORT, f"data.corpus={corpus}", f"model.init={init}", *more])
    return recipe, recipe.assemble(Site(Path(mkdtemp(dir=corpus.parent)), Accelerator(), last=None))


def small_bart(*, dropout: float = 0.0) -> BartForConditionalGeneration:
    torch.manual_seed(0)
    ids = {"decoder_start_token_id": 0, "forced_eos_token_id": None}
    config = tiny_bart(60, ffn_width=32, dropout=dropout, **ids)
    return BartForConditionalGeneration(config).eval()


def batch(rows: int = 3, length: int = 9) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    ids = torch.randint(4, 60, (rows, length))
    ids[:, 0] = 0
    mask = torch.ones_like(ids)
    mask[-1, -2:] = 0
    labels = ids.roll(-1, 1).masked_fill(mask == 0, -100)
    prompt = torch.randint(4, 60, (rows, 5))
    return {
        "prompt_ids": prompt, "prompt_mask": torch.ones_like(prompt), "story_ids": ids.masked_fill(mask == 0, 1),
        "story_mask": mask, "labels": labels, "latent_noise": torch.randn(rows, 4),
    }  # fmt: skip


def test_bart_lm_reads_no_prompt_and_has_the_loss_of_the_warm_start_at_zero_latent(corpus, pretrained):
    _, lm = stage_of("tiny/language-model", corpus, pretrained)
    _, warm = stage_of("tiny/warm-start", corpus, pretrained, "model.num_codes=4")
    rows = lm.valid.tokens.story_lengths.argsort()[:4]
    given, same = lm.valid.batch(rows, step=None), warm.valid.batch(rows, step=None)
    assert given["prompt_ids"].tolist() == [[0, 2]] * 4
    assert all(torch.equal(given[name], same[name]) for name in ("prompt_ids", "story_ids", "labels"))
    disco: DiscoDVT = warm.objective.model
    torch.nn.init.zeros_(disco.up.projection.weight)
    torch.nn.init.zeros_(disco.up.projection.bias)
    ours = lm.objective.eval()(given).sums["reconstruction"]
    theirs = warm.objective.eval()(same).sums["reconstruction"]
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
    assert isinstance(lm.objective, TextObjective)


def test_bart_lm_keeps_its_rate_and_passes_over_as_many_tokens_as_the_warm_start(corpus, pretrained, tmp_path):
    seen = []
    for name, more in (("tiny/language-model", []), ("tiny/warm-start", ["model.num_codes=4"])):
        recipe = read_recipe(name, [*SHORT, f"data.corpus={corpus}", f"model.init={pretrained}", *more])
        assert recipe.optimizer.schedule == "constant"
        list(train(recipe, tmp_path / recipe.stage))
        facts = json.loads((tmp_path / recipe.stage / "manifest.json").read_text())
        seen.append((facts["facts"]["steps"], facts["facts"]["tokens"], facts["inputs"]["train.parquet"]))
    assert seen[0] == seen[1]
    recipe = read_recipe("tiny/seq2seq", [*SHORT, f"data.corpus={corpus}", f"model.init={tmp_path / 'language-model'}"])
    list(train(recipe, tmp_path / "bart-lm"))
    assert Checkpoint.open(tmp_path / "bart-lm").kind == "bart"


def test_a_cvae_with_a_zero_projection_is_its_backbone():
    bart, given = small_bart(), batch()
    model = BartCVAE.from_backbone(bart, latent_dimensions=4).eval()
    torch.nn.init.zeros_(model.latent.projection.weight)
    plain = TextObjective(bart).eval()(given).sums["reconstruction"]
    z = torch.randn(3, 4)
    ours = model.summed_nll(given["prompt_ids"], given["prompt_mask"], given["story_ids"], given["labels"], z)
    assert ours.item() == plain.item()


@torch.no_grad()
def test_z_begins_with_a_common_size_however_large_the_states_of_a_reader_are():
    """Else it drowns the words: beside a story Llama a new CVAE had 6.5 nats a subword instead of 1.1."""
    bart, given = small_bart(), batch()
    bart.model.encoder.layers[-1].final_layer_norm.weight.fill_(20.0)
    model = BartCVAE.from_backbone(bart, latent_dimensions=4).eval()
    names = ("story_ids", "story_mask", "prompt_ids", "prompt_mask", "latent_noise")
    read = model.read(*(given[name] for name in names))
    assert read.posterior.mean.abs().max() < 2
    assert read.kl.sum(-1).max() < 8


@torch.no_grad()
def test_z_begins_with_what_stories_differ_in():
    """Half of the variance of each dimension, also of stories that were not looked at; a part of them is enough."""
    model = BartCVAE.from_backbone(small_bart(), latent_dimensions=4).eval()
    drawn = torch.Generator().manual_seed(0)
    ids = torch.randint(5, model.config.backbone.vocab_size, (400, 12), generator=drawn)
    mask = torch.ones_like(ids)
    model.tell_apart((ids[start : start + 16], mask[:16]) for start in range(0, 256, 16))
    posterior = model.read(ids, mask, ids[:, :4], mask[:, :4], torch.zeros(400, 4)).posterior
    torch.testing.assert_close(posterior.mean[:256].mean(0), torch.zeros(4), atol=1e-3, rtol=0)
    torch.testing.assert_close(posterior.mean[:256].var(0), torch.full((4,), 0.5), atol=0.01, rtol=0)
    torch.testing.assert_close(posterior.mean[256:].var(0), torch.full((4,), 0.5), atol=0.25, rtol=0)
    torch.testing.assert_close(posterior.log_variance.exp(), torch.full((400, 4), 0.5))
    model.tell_apart([(ids[:1], mask[:1])])  # which differs from nothing
    assert (model.read(ids, mask, ids, mask, torch.zeros(400, 4)).posterior.mean == 0).all()


def test_permuting_a_batch_permutes_latents_and_padding_changes_nothing():
    model, given = BartCVAE.from_backbone(small_bart(), latent_dimensions=4).eval(), batch()
    names = ("story_ids", "story_mask", "prompt_ids", "prompt_mask", "latent_noise")
    read = model.read(*(given[name] for name in names))
    order = torch.tensor([2, 0, 1])
    moved = model.read(*(given[name][order] for name in names))
    torch.testing.assert_close(moved.z, read.z[order])
    torch.testing.assert_close(moved.kl, read.kl[order])
    wider = dict(given)
    for name, filling in (("story_ids", 1), ("story_mask", 0), ("prompt_ids", 1), ("prompt_mask", 0)):
        wider[name] = torch.nn.functional.pad(given[name], (0, 3), value=filling)
    torch.testing.assert_close(model.read(*(wider[name] for name in names)).z, read.z, rtol=1e-4, atol=1e-5)


def test_the_kl_of_a_story_weighs_as_much_as_its_nll():
    model, given = BartCVAE.from_backbone(small_bart(), latent_dimensions=4).eval(), batch()
    objective = CVAEObjective(model, KLTerm(), CVAEWatchdog(), TokenPrediction(), total=10)
    output = objective(given, 0)
    read = model.read(*(given[n] for n in ("story_ids", "story_mask", "prompt_ids", "prompt_mask", "latent_noise")))
    assert output.sums["kl_penalty"].item() == pytest.approx(read.kl.clamp(min=0.1).sum().item(), rel=1e-5)
    assert {term.per for term in objective.terms.values()} == {"tokens"}
    unweighed = CVAEObjective(model, KLTerm(weight=0.0), CVAEWatchdog(), TokenPrediction(), total=10)
    assert unweighed(given).sums["kl_penalty"] == 0  # validations choose the best by what is trained
    figures = objective.figures(objective(given).tallies)
    means = model.read(*(given[n] for n in ("story_ids", "story_mask", "prompt_ids", "prompt_mask")), torch.zeros(3, 4))
    assert figures["kl"] == pytest.approx(means.kl.sum(-1).mean().item(), rel=1e-5)
    assert figures["kl_floor"] == pytest.approx(0.4)
    assert figures["active_units"] == (means.posterior.mean.var(0) >= 0.01).sum().item()


def test_the_weight_of_the_kl_may_rise_as_in_optimus():
    model = BartCVAE.from_backbone(small_bart(), latent_dimensions=4)
    objective = CVAEObjective(
        model, KLTerm(silent_until=0.5, whole_at=0.75), CVAEWatchdog(), TokenPrediction(), total=100
    )
    assert [objective.weight(step) for step in (0, 49, 50, 60, 75, 99)] == pytest.approx([0, 0, 0, 0.4, 1, 1])
    assert CVAEObjective(model, KLTerm(), CVAEWatchdog(), TokenPrediction(), total=100).weight(0) == 1.0


def test_words_may_be_predicted_from_z_alone():
    """At first every word is as likely as any other; then the posterior learns from it without a generator."""
    model, given = BartCVAE.from_backbone(small_bart(), latent_dimensions=4).eval(), batch()
    loss = TokenPrediction(token_prediction=0.5, token_prediction_until=0.5)
    objective = CVAEObjective(model, KLTerm(), CVAEWatchdog(), loss, total=10)
    assert objective.terms["token_prediction"].weight == 0.5
    tokens = (given["labels"] != -100).sum().item()
    uniform = tokens * math.log(model.config.backbone.vocab_size)
    assert objective(given, 0).sums["token_prediction"].item() == pytest.approx(uniform, rel=1e-5)
    assert objective(given, 2).sums["token_prediction"].item() == pytest.approx(0.6 * uniform, rel=1e-5)
    assert objective(given, 5).sums["token_prediction"].item() == 0
    assert objective(given).sums["token_prediction"].item() == pytest.approx(uniform, rel=1e-5)
    torch.nn.init.eye_(objective.token_head.projection.weight)
    objective(given, 0).sums["token_prediction"].backward()
    assert model.latent.posterior.layers.weight.grad.abs().sum() > 0
    assert all(weight.grad is None for weight in model.generator.parameters())


def test_a_cvae_trains_resumes_to_the_same_bytes_and_opens(corpus, pretrained, tmp_path):
    asked = [*SHORT, f"data.corpus={corpus}", f"model.init={pretrained}", "model.latent_dimensions=4"]
    asked += ["loss.token_prediction=1.0", "optimizer.learning_rate=0.01"]
    recipe = read_recipe("tiny/cvae", asked)
    list(train(recipe, tmp_path / "whole"))
    events = train(recipe, tmp_path / "killed")
    for event in events:
        if event.kind == "step" and event.step == 2:
            break
    events.close()
    list(train(recipe, tmp_path / "killed", resume=True))
    whole, killed = (tmp_path / name / "model.safetensors" for name in ("whole", "killed"))
    assert whole.read_bytes() == killed.read_bytes()
    lines = [line for line in read_metrics(tmp_path / "whole" / "metrics.jsonl") if line["kind"] == "valid"]
    assert {"kl", "active_units", "swap_gap", "mutual_information", "nll_at_prior", "kl_floor"} <= lines[-1].keys()
    model = Checkpoint.open(tmp_path / "whole").load(BartCVAE)
    assert model.config.latent_dimensions == 4
    assert Checkpoint.open(tmp_path / "whole").kind == "discodvt-cvae"


def test_information_is_that_of_all_stories_and_collapse_raises_an_alarm(corpus, pretrained):
    _, stage = stage_of("tiny/cvae", corpus, pretrained, "model.latent_dimensions=4")
    feed: CVAEFeed = stage.valid
    model = stage.objective.model
    found = information(model, feed, device=torch.device("cpu"), seed=0)
    assert -0.1 <= found["mutual_information"] <= found["most_mutual_information"]  # an estimate from draws
    torch.nn.init.zeros_(model.latent.projection.weight)
    for head in (model.latent.posterior.layers,):
        torch.nn.init.zeros_(head.weight)
        torch.nn.init.zeros_(head.bias)
    figures = stage.objective.figures(stage.objective.eval()(feed.batch(feed.sort_keys.argsort(), step=None)).tallies)
    assert (figures["kl"], figures["active_units"], figures["swap_gap"]) == (0, 0, 0)
    said = stage.objective.alarms(3, figures)
    assert len(said) == 2
    assert "posterior collapse" in said[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("kl.form=whole", "kl.form"),
        ("model.latent_dimensions=0", "model.latent_dimensions"),
        ("loss.entropy=0.1", "not for cvae"),
    ],
)
def test_wrong_recipes_are_refused(corpus, change, said):
    from discodvt.errors import BadRequest

    with pytest.raises(BadRequest, match=said):
        read_recipe("tiny/cvae", [f"data.corpus={corpus}", change])


def test_noise_is_each_storys_own(corpus, pretrained):
    _, stage = stage_of("tiny/cvae", corpus, pretrained, "model.latent_dimensions=4")
    together = stage.train.batch(stage.train.sort_keys.argsort()[:3], step=5)["latent_noise"]
    alone = stage.train.batch(stage.train.sort_keys.argsort()[1:2], step=5)["latent_noise"]
    assert torch.equal(together[1:2], alone)
    assert not torch.equal(together, stage.train.batch(stage.train.sort_keys.argsort()[:3], step=6)["latent_noise"])


def test_a_cvae_writes_through_the_one_writer_and_as_its_backbone_without_projection(corpus, pretrained, tmp_path):
    asked = [*SHORT, f"data.corpus={corpus}", f"model.init={pretrained}", "model.latent_dimensions=4", "run.steps=1"]
    list(train(read_recipe("tiny/cvae", asked), tmp_path / "cvae"))
    model: BartCVAE = Checkpoint.open(tmp_path / "cvae").load(BartCVAE)
    requests = [Request(f"A day with {name}", index=number) for number, name in enumerate(("Ann", "Ben", "Cat"))]

    def written(name: str, part: PreTrainedModel) -> list[str]:
        part.save_pretrained(tmp_path / name)
        for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            shutil.copy(tmp_path / "cvae" / file, tmp_path / name / file)
        writer = StoryWriter.from_pretrained(tmp_path / name)
        return [story.text for story in sorted(writer.write_many(requests, batch_size=3), key=lambda each: each.index)]

    torch.nn.init.normal_(model.latent.projection.weight, std=3.0)
    loud = written("loud", model)
    assert loud == written("again", model)
    torch.nn.init.zeros_(model.latent.projection.weight)
    plain = written("plain", model.generator)
    assert written("silent", model) == plain
    assert loud != plain
