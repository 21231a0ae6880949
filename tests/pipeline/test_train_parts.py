"""Runs that train a part (LoRA, the plan alone): what is stored, opened again, merged, resumed; bases that are gone."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from pipeline.toy_corpus import write_corpus
from pipeline.toy_models import COMMON, LATENT, save_language_models
from pipeline.trainings import SHORT, assert_resumed_equals_whole, assert_two_equal_one
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    LlamaModel,
)
from typer.testing import CliRunner

from discodvt import StoryWriter
from discodvt.checkpoints import Checkpoint
from discodvt.cli import app
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT
from discodvt.model.backbones import load_language_model
from discodvt.training.parts import merge
from discodvt.training.recipes import read_recipe
from discodvt.training.run import train

LORA = 'tune = "lora"\n[lora]\nrank = 4\nalpha = 32.0\n'
RECIPES = {
    "plan": f'stage = "codes"\n{COMMON}{LATENT}tune = "plan"\n',
    "lora": f'stage = "reconstruct"\n{COMMON}{LATENT}{LORA}',
    "text": f'stage = "seq2seq"\n{COMMON}[model]\n{LORA}',
}
FEW = ("run.steps=6", "validation.every_steps=6", "optimizer.learning_rate=0.02")


def recipe_of(name: str, home: Path, init: str, *overrides: str):
    path = home / f"{name}.toml"
    path.write_text(RECIPES[name])
    return read_recipe(path, [f"data.corpus={home / 'corpus'}", f"model.init={home / init}", *overrides])


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Three language models, and runs of each kind: `plan`, `lora` (after it) and `text` on the Llama."""
    directory = tmp_path_factory.mktemp("parts")
    write_corpus(directory / "corpus")
    save_language_models(directory, "llama", "gpt2", "bart")
    for name, init in (("plan", "llama"), ("lora", "plan"), ("text", "llama")):
        list(train(recipe_of(name, directory, init, *FEW), directory / name))
    return directory


def moved(home: Path, run: str, target: Path) -> Path:
    """A copy of a run and of its base, so that either can be damaged."""
    shutil.copytree(home / run, target / run)
    shutil.copytree(home / "llama", target / "base")
    told = json.loads((target / run / "base.json").read_text())
    (target / run / "base.json").write_text(json.dumps(told | {"base": str(target / "base")}))
    return target / run


@pytest.mark.parametrize("run", ["plan", "lora", "text"])
def test_a_part_holds_what_was_trained_and_names_its_base(home, run):
    stored = load_file(home / run / "trained.safetensors")
    assert not (home / run / "model.safetensors").exists()
    base = set(load_file(home / "llama" / "model.safetensors"))
    assert not {name.removeprefix("generator.") for name in stored} & base
    assert any(".lora_A." in name for name in stored) == (run != "plan")
    told = json.loads((home / run / "base.json").read_text())
    assert (told["base"], told["model_type"]) == (str(home / "llama"), "llama")
    optimizer = load_file(home / run / "last-0000006" / "optimizer.safetensors")
    held = {name.partition("|")[0] for name in optimizer}
    assert held
    assert all(".lora_" in name for name in held if name.startswith("model.generator.") or run == "text")
    assert str(home / "llama") in (home / run / "README.md").read_text()


@pytest.mark.parametrize("init", ["llama", "gpt2", "bart"])
def test_merged_equals_unmerged(home, init, tmp_path):
    """The model of the last step as it was in training (PEFT), as it is opened, and as it is merged."""
    seen = {}
    list(train(recipe_of("lora", home, init, *FEW), tmp_path / "run"))
    checkpoint = Checkpoint.open(tmp_path / "run")
    opened, bare = checkpoint.load(DiscoDVT), checkpoint.load(DiscoDVT, merged=False)
    from discodvt.config import Lora
    from discodvt.training.parts import add_lora

    add_lora(bare.generator, Lora(rank=4, alpha=32.0))
    named = dict(bare.generator.named_parameters())
    for name, weight in checkpoint.lora().items():
        named[name.replace(".weight", ".default.weight")].data.copy_(weight)
    merge(tmp_path / "run", tmp_path / "whole")
    assert not (tmp_path / "whole" / "base.json").exists()
    models = {"unmerged": bare.eval(), "opened": opened, "whole": DiscoDVT.from_pretrained(tmp_path / "whole")}
    models["base"] = checkpoint.load(DiscoDVT, merged=False)
    ids = torch.arange(5, 25).view(2, 10)
    for name, model in models.items():
        with torch.no_grad():
            latent = model.latent(torch.tensor([[1, 2], [3, 4]]), 10)
            seen[name] = model(ids[:, :4], torch.ones(2, 4).long(), decoder_input_ids=ids, decoder_latent=latent).logits
    for name in ("opened", "whole"):
        assert torch.allclose(seen[name], seen["unmerged"], atol=1e-5)
    assert not torch.allclose(seen["base"], seen["unmerged"], atol=1e-2)  # LoRA had learned something


@pytest.mark.parametrize("engine", [None, "transformers"])
@pytest.mark.parametrize("run", ["plan", "lora", "text"])
def test_the_same_stories_before_and_after_the_merge(home, run, engine, tmp_path):
    merge(home / run, tmp_path / "whole")
    plan = None if run == "text" else [1, 2, 3]
    told = [
        StoryWriter.from_pretrained(source, engine=engine).write("A fox", plan=plan, seed=0, max_tokens=20).text
        for source in (home / run, tmp_path / "whole")
    ]
    assert told[0] == told[1]
    assert told[0]


def test_a_plain_model_after_lora_is_refused_by_transformers_until_merged(home, tmp_path):
    with pytest.raises(OSError, match="safetensors"):
        AutoModelForCausalLM.from_pretrained(home / "text")
    merge(home / "text", tmp_path / "whole")
    whole, ours = (
        AutoModelForCausalLM.from_pretrained(tmp_path / "whole"),
        load_language_model(Checkpoint(home / "text")),
    )
    ids = torch.arange(5, 25).view(2, 10)
    assert torch.equal(whole(ids).logits, ours(ids).logits)


def test_a_run_on_a_lora_checkpoint_names_that_as_its_base(home, tmp_path):
    list(train(recipe_of("lora", home, "lora", "run.steps=1"), tmp_path / "again"))
    assert json.loads((tmp_path / "again" / "base.json").read_text())["base"] == str(home / "lora")
    first, again = (
        Checkpoint.open(path).load(DiscoDVT, merged=path == home / "lora").generator
        for path in (home / "lora", tmp_path / "again")
    )
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize(("run", "init"), [("lora", "llama"), ("text", "gpt2")])
def test_killed_and_resumed_equals_uninterrupted(home, run, init, tmp_path):
    has = "trained.safetensors"
    assert_resumed_equals_whole(lambda: recipe_of(run, home, init, *SHORT), tmp_path, has=has)


def test_two_processes_equal_one(home, pair, tmp_path):
    settings = (*SHORT, "batch.stories_per_step=8", "batch.stories_per_micro_batch=2")
    assert_two_equal_one(pair, recipe_of("lora", home, "llama", *settings), tmp_path)


def test_a_base_that_is_gone_or_another(home, tmp_path):
    run = moved(home, "lora", tmp_path)
    assert DiscoDVT.from_pretrained(run)
    weights = load_file(tmp_path / "base" / "model.safetensors")
    save_file({name: weight + 1 for name, weight in weights.items()}, tmp_path / "base" / "model.safetensors")
    for opening in (
        DiscoDVT.from_pretrained,
        StoryWriter.from_pretrained,
        lambda path: Checkpoint.open(path).load(DiscoDVT),
    ):
        with pytest.raises(BadRequest, match=r"the weights of its base .*base are not those it was trained on"):
            opening(run)
    shutil.rmtree(tmp_path / "base")
    with pytest.raises(BadRequest, match=r"its base .*base is not there; put it back, or correct .*base\.json"):
        DiscoDVT.from_pretrained(run)
    shutil.copytree(home / "gpt2", tmp_path / "base")
    with pytest.raises(BadRequest, match=r"the wrong base, .*base is a gpt2, it was trained on a llama"):
        StoryWriter.from_pretrained(run)
    told = json.loads((run / "base.json").read_text())
    (run / "base.json").write_text(json.dumps(told | {"lora": {}}))
    with pytest.raises(BadRequest, match=r"base\.json: not as it was written"):
        StoryWriter.from_pretrained(run)


def test_the_program_says_so_in_one_line(home, tmp_path):
    run = moved(home, "text", tmp_path)
    shutil.rmtree(tmp_path / "base")
    for words in (["merge", str(run), str(tmp_path / "out")], ["generate", "A fox", "--model", str(run)]):
        result = CliRunner().invoke(app, words)
        assert isinstance(result.exception, BadRequest)
        assert result.exception.exit_code == 2
        assert "is not there" in str(result.exception)
        assert "\n" not in str(result.exception)
    with pytest.raises(BadRequest, match="a whole model already"):
        merge(home / "llama", tmp_path / "out")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("lora.target_modules=['no_such']", "lora.target_modules: no_such: no such linear layers"),
        ("lora.target_modules=['lm_head']", "output layer stay as they are"),
        ("lora.target_modules=['embed_tokens']", "output layer stay as they are"),
    ],
)
def test_layers_that_lora_cannot_change(home, override, said, tmp_path):
    with pytest.raises(BadRequest, match=said):
        list(train(recipe_of("text", home, "llama", override), tmp_path / "out"))


def test_recipes_that_contradict_themselves(home):
    with pytest.raises(BadRequest, match=r"lora: of use with model\.tune=lora only"):
        recipe_of("lora", home, "llama", "model.tune=all")
    with pytest.raises(BadRequest, match=r"model\.tune: lora changes trained weights"):
        recipe_of("lora", home, "llama", "model.random_init=true")


def test_models_that_are_no_backbone(home, tmp_path, monkeypatch):
    """Without `inputs_embeds`, or without an end symbol."""
    shutil.copytree(home / "llama", tmp_path / "endless")
    settings = json.loads((tmp_path / "endless" / "config.json").read_text())
    (tmp_path / "endless" / "config.json").write_text(json.dumps(settings | {"eos_token_id": None}))
    with pytest.raises(BadRequest, match=r"no end symbol \(eos_token_id\)"):
        list(train(recipe_of("lora", home, str(tmp_path / "endless")), tmp_path / "out"))
    monkeypatch.setattr(LlamaModel, "forward", lambda self, input_ids=None, use_cache=None: None)
    with pytest.raises(BadRequest, match="cannot be run from input embeddings"):
        list(train(recipe_of("lora", home, "llama"), tmp_path / "out"))
