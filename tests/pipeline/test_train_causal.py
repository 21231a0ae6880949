"""A causal language model through the stages: it learns, resumes bit for bit, two processes equal one."""

import json
from pathlib import Path

import pytest
import torch
from pipeline.toy_corpus import story, write_corpus
from pipeline.toy_models import COMMON, LATENT, save_language_models
from pipeline.trainings import SHORT, assert_resumed_equals_whole, assert_two_equal_one, lines
from safetensors.torch import load_file

from discodvt.checkpoints import Checkpoint
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT
from discodvt.model.resampling import SMALL
from discodvt.training.recipes import read_recipe
from discodvt.training.run import train
from discodvt.training.stages.codes import LATENT_SIZE

RECIPES = {
    "codes": f'stage = "codes"\n{COMMON}{LATENT}tune = "plan"\n',
    "reconstruct": f'stage = "reconstruct"\n{COMMON}{LATENT}',
    "rated": f'stage = "reconstruct"\n{COMMON}{LATENT}prior_layers = 1\n'.replace("[loss]", "[loss]\nprior = 0.2"),
    "tuned": f'stage = "reconstruct"\n{COMMON}{LATENT}tune = "generator"\n',
    "prior": f'stage = "prior"\n{COMMON}',
    "seq2seq": f'stage = "seq2seq"\n{COMMON}',
}
STARTS_FROM = {
    "codes": "llama",
    "reconstruct": "codes",
    "rated": "codes",
    "tuned": "reconstruct",
    "prior": "tuned",
    "seq2seq": "llama",
}


def recipe_of(stage: str, chain: Path, *overrides: str):
    path = chain / f"{stage}.toml"
    path.write_text(RECIPES[stage])
    given = [f"data.corpus={chain / 'corpus'}", f"model.init={chain / STARTS_FROM[stage]}"]
    return read_recipe(path, [*given, *overrides])


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("causal")
    write_corpus(directory / "corpus")
    save_language_models(directory, "llama")
    for stage in RECIPES:
        list(train(recipe_of(stage, directory), directory / stage))
    return directory


@pytest.mark.parametrize("stage", RECIPES)
def test_a_stage_learns_and_leaves_its_files(chain, stage):
    term = "prior" if stage == "prior" else "reconstruction"
    valid = [line[term] for line in lines(chain / stage, "valid")]
    assert valid[-1] < valid[0] - 0.1
    facts = json.loads((chain / stage / "manifest.json").read_text())["facts"]
    assert facts["without_gradient"] == []
    frozen = {".".join(name.split(".")[: 1 + name.startswith("up")]) for name in facts["frozen"]}
    expected = {"codes": {"generator", "up.projection"}, "tuned": {"posterior", "down", "bottleneck"}}
    assert frozen == expected.get(stage, set())


def test_the_generator_is_untouched_by_the_codes_stage_and_the_codes_by_the_generators(chain):
    base, joint, tuned = (load_file(chain / stage / "model.safetensors") for stage in ("llama", "reconstruct", "tuned"))
    codes = DiscoDVT.from_pretrained(chain / "codes").state_dict()
    assert all(torch.equal(weight, codes[f"generator.{name}"]) for name, weight in base.items())
    for name, weight in joint.items():
        fixed = name.startswith(("posterior.", "down.", "bottleneck."))
        assert torch.equal(weight, tuned[name]) == fixed, name


def test_a_prior_beside_the_codes_learns_and_makes_them_easier_to_draw(chain, tmp_path):
    """`loss.prior`: the same steps with and without it, then the stage `prior` for both."""
    beside = [line["prior"] for line in lines(chain / "rated", "valid")]
    assert beside[-1] < beside[0] - 0.3
    first, last = {}, {}
    for source in ("rated", "reconstruct"):
        settings = [f"model.init={chain / source}", "model.prior_layers=1"]
        list(train(recipe_of("prior", chain, *settings), tmp_path / source))
        first[source], *_, last[source] = (line["prior"] for line in lines(tmp_path / source, "valid"))
    assert first["rated"] < first["reconstruct"] - 0.3  # it goes on with what was learned beside the codes
    assert last["rated"] < last["reconstruct"] - 0.05


@torch.no_grad()
def test_the_codes_stage_leaves_a_latent_the_generator_can_bear(chain):
    model = Checkpoint.open(chain / "codes").load(DiscoDVT)
    tokenizer = Checkpoint.open(chain / "codes").tokenizer()
    latents = [
        model.read(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long)).latent[0]
        for ids in (tokenizer(" " + str(story(number)["story"])).input_ids[:60] for number in range(20))
    ]
    size = torch.cat(latents).square().mean().sqrt() / model.backbone.embedding_scale(model.generator)
    assert size.item() == pytest.approx(LATENT_SIZE, rel=0.3)


@torch.no_grad()
def test_the_codes_stage_leaves_weights_of_their_usual_size_that_read_and_say_the_same(chain):
    kept, trained = (Checkpoint.open(chain / "codes" / name).load(DiscoDVT) for name in ("", "last-0000016"))
    ids = torch.randint(4, 300, (3, 50), generator=torch.Generator().manual_seed(0))
    ours, theirs = (model.read(ids, torch.ones_like(ids)) for model in (kept, trained))
    assert torch.equal(ours.codes, theirs.codes)
    assert torch.equal(ours.latent, theirs.latent)
    start = SMALL / trained.config.conv_channels**0.5
    assert start / trained.up.projection.weight.std() > 1.6  # it shrank
    assert 1 / 1.6 < kept.up.projection.weight.std() / start < 1.6


def test_the_writer_opens_and_its_prior_draws_plans(chain):
    model = DiscoDVT.from_pretrained(chain / "prior")
    assert not model.config.is_encoder_decoder
    assert (chain / "prior" / "prior" / "config.json").exists()


@pytest.mark.parametrize("stage", RECIPES)
def test_killed_and_resumed_equals_uninterrupted(chain, stage, tmp_path):
    has = "optimizer.safetensors"
    assert_resumed_equals_whole(lambda: recipe_of(stage, chain, *SHORT), tmp_path, has=has)


@pytest.mark.parametrize("stage", ["codes", "reconstruct", "prior"])
def test_two_processes_equal_one(chain, pair, stage, tmp_path):
    settings = (*SHORT, "batch.stories_per_step=8", "batch.stories_per_micro_batch=2")
    assert_two_equal_one(pair, recipe_of(stage, chain, *settings), tmp_path)


def test_bad_requests(chain, tmp_path):
    with pytest.raises(BadRequest, match=r"need 112 positions, the model has 96; set them lower"):
        list(train(recipe_of("seq2seq", chain, "data.story_tokens=103"), tmp_path / "out"))
    with pytest.raises(BadRequest, match=r"model\.tune: the generator takes no part"):
        recipe_of("codes", chain, "model.tune=all")
    (tmp_path / "pretrain.toml").write_text(RECIPES["seq2seq"].replace("seq2seq", "pretrain"))
    given = [f"data.corpus={chain / 'corpus'}", f"model.init={chain / 'llama'}"]
    denoising = read_recipe(tmp_path / "pretrain.toml", given)
    with pytest.raises(BadRequest, match="denoising is for BART"):
        list(train(denoising, tmp_path / "out"))
