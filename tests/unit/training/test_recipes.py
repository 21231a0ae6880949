"""Recipes: defaults are the paper's, all errors at once, overrides."""

import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from discodvt.cli import main
from discodvt.config import find_recipe, shipped_recipes
from discodvt.errors import BadRequest
from discodvt.training.assembly import Recipe
from discodvt.training.recipes import RENAMED, keys, read_recipe, stage_recipes

RECIPES = Path(__file__).parents[3] / "recipes"


def recipe(tmp_path, text: str, *overrides: str) -> Recipe:
    (tmp_path / "r.toml").write_text(text)
    return read_recipe(tmp_path / "r.toml", overrides)


SMALLEST = 'stage = "reconstruct"\n[data]\ncorpus = "c"\n[model]\ninit = "facebook/bart-base"\n[run]\nepochs = 5\n'


def test_defaults_are_the_papers(tmp_path):
    made = recipe(tmp_path, SMALLEST)
    assert (made.model.num_codes, made.model.conv_layers, made.loss.entropy, made.loss.relation) == (256, 3, 0.1, 0.1)
    assert (made.optimizer.learning_rate, made.optimizer.eps, made.optimizer.weight_decay) == (1e-4, 1e-8, 0.0)
    assert (made.batch.stories_per_step, made.batch.stories_per_micro_batch) == (16, 4)
    assert (made.relaxation.temperature, made.relaxation.min_temperature, made.relaxation.decay_rate) == (
        0.9,
        0.1,
        4e-4,
    )
    assert (made.relaxation.noise_free, made.word_dropout.rate) == (0.0, 0.0)


def test_stages_have_their_own_defaults(tmp_path):
    warm = recipe(tmp_path, SMALLEST.replace("reconstruct", "warm-start"))
    assert (warm.optimizer.schedule, warm.relaxation.decay_rate) == ("constant", 0.0)
    prior = recipe(tmp_path, SMALLEST.replace("reconstruct", "prior"))
    assert (prior.batch.stories_per_step, prior.batch.stories_per_micro_batch) == (1024, 128)


def test_all_errors_come_at_once(tmp_path):
    with pytest.raises(BadRequest) as caught:
        recipe(
            tmp_path, SMALLEST, "data.colour=1", "optimizer.learning_rate=-1", "run.log_every_steps=none", "modle.x=1"
        )
    said = str(caught.value)
    for part in ("data.colour: unknown key", "optimizer.learning_rate", "run.log_every_steps", "modle: unknown key"):
        assert part in said
    assert "\n" not in said


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_key_is_refused_with_its_new_name(tmp_path, old, new):
    override = f"{old}.learning_rate=1e-3" if old == "optimiser" else f"{old}=0.5"
    stages = [stage for stage, kind in stage_recipes().items() if new in keys(kind)]
    assert stages
    for stage in stages:
        with pytest.raises(BadRequest, match=rf"{old}: is now {new}(;|$)"):
            recipe(tmp_path, SMALLEST.replace("reconstruct", stage), override)


def test_errors_between_sections_come_along_with_those_within(tmp_path):
    with pytest.raises(BadRequest) as caught:
        recipe(tmp_path, SMALLEST, "data.colour=1", "run.steps=5", "batch.stories_per_step=6", "model.shape.width=96")
    said = str(caught.value)
    for part in ("data.colour", "one of steps and epochs", "not a multiple", "one of init"):
        assert said.count(part) == 1


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["run.steps=5"], "one of steps and epochs"),
        (["batch.stories_per_step=6"], "not a multiple"),
        (["relaxation.min_temperature=1.0"], "above temperature"),
        (["stage=seq2seq", "validation.select_by=bleu-1"], "validation.select_by.*'loss'"),
        (["model.shape.width=96"], "one of init"),
        (["tokenizer.vocab_size=300"], "tokenizer: model.init brings its own"),
        (["denoising.mask_ratio=0.2"], "denoising: not for reconstruct; leave it out"),
        (["stage=pretrain", "word_dropout.rate=0.2"], "word_dropout: not for pretrain"),
        (["stage=prior", "word_dropout.rate=0.2"], "word_dropout: not for prior"),
        (["writing.min_codes=8"], "writing.min_codes: not for reconstruct"),
        (["stage=seq2seq", "model.num_codes=8"], "model.num_codes: not for seq2seq"),
        (["stage=prior", "model.shape.width=96"], "model.shape: not for prior"),
        (["writing.min_tokens=513"], "above data.story_tokens"),
        (["stage=[1]"], "stage: .* is no stage; choose one of codes, cvae, language-model"),
        (["stage=polish"], "stage: 'polish' is no stage"),
        (["stage=seq2seq", "watchdog.grace=0.1"], "watchdog: not for seq2seq"),
        (["stage=warm-start", "loss.relation=0.1"], "loss.relation: not for warm-start"),
        (["model.bottleneck=magic"], "model.bottleneck: .*choose one of gumbel"),
        (["model.bottleneck=bits", "model.num_codes=6"], "model.num_codes: 6 codes are no power of two"),
        (["model.tune=generator", "loss.prior=0.1"], "loss.prior: codes stay as they are"),
        (["weak_plans.min_strength=0.7"], "min_strength 0.7 is above max_strength 0.6"),
        (["weak_plans.share=0.5"], r"weak_plans\.share: for codes that stay"),
        (["stage=plot-writer", "model.tune=lora"], "model.tune: lora, but the tags of plots need rows"),
        ([f"seed={2**63}"], "seed: "),
        (["stage=pretrain", "denoising.mean_span=1e-300"], "denoising.mean_span: .* 0.1"),  # would never end
        (["stage=pretrain", "denoising.mean_span=1e30"], "denoising.mean_span: .* 1000"),
        ([f"model.num_codes={10**23}"], "model.num_codes: "),
        (["model.shape.encoder_layers=1000000000000"], "model.shape.encoder_layers: "),
        (["tokenizer.vocab_size=100000000000000"], "tokenizer.vocab_size: "),
        (["nonsense"], "section.key=value"),
        (["stage.x=1"], "is a value"),
    ],
)
def test_contradictions(tmp_path, overrides, said):
    with pytest.raises(BadRequest, match=said):
        recipe(tmp_path, SMALLEST, *overrides)


def test_lengths_that_contradict_each_other(tmp_path):
    scratch = SMALLEST.replace('init = "facebook/bart-base"', "shape = {positions = 64}")
    with pytest.raises(BadRequest, match=r"positions.*tokenizer|tokenizer.*positions") as caught:
        recipe(tmp_path, scratch)
    assert "512" in str(caught.value)


def test_overrides_are_read_as_toml_or_text(tmp_path):
    made = recipe(tmp_path, SMALLEST, "data.corpus=some/where", "run.tensorboard=false", "loss.entropy=0.5")
    assert made.data.corpus == Path("some/where")
    assert made.run.tensorboard is False
    assert made.loss.entropy == 0.5


SINGLE = [path for path in sorted(RECIPES.glob("*/*.toml")) if not path.stem.endswith("grid")]


@pytest.mark.parametrize("path", SINGLE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_recipe_of_the_project_is_valid(path):
    assert read_recipe(path).out is not None


def test_recipes_that_ship_are_known_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("tiny/seq2seq", "tiny/seq2seq.toml", "recipes/tiny/seq2seq.toml"):
        assert read_recipe(name) == read_recipe(RECIPES / "tiny" / "seq2seq.toml")
    with pytest.raises(BadRequest, match="tiny/none: no such recipe; `discodvt recipes` lists"):
        read_recipe("tiny/none")
    Path("tiny").mkdir()
    Path("tiny/seq2seq").write_text(SMALLEST)  # a file comes first
    assert read_recipe("tiny/seq2seq").stage == "reconstruct"


def test_every_folder_of_recipes_is_part_of_the_wheel():
    settings = tomllib.loads((RECIPES.parent / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    folders = {path.parent for path in shipped_recipes().values()}
    assert settings["wheel"]["force-include"] == {
        f"recipes/{folder.name}": f"discodvt/recipes/{folder.name}" for folder in folders
    }


def test_an_installed_package_has_its_own_recipes(tmp_path, monkeypatch):
    shutil.copytree(RECIPES / "tiny", tmp_path / "discodvt" / "recipes" / "tiny")
    monkeypatch.setattr("discodvt.config.PACKAGE", tmp_path / "discodvt")
    assert set(shipped_recipes()) == {f"tiny/{path.stem}" for path in (RECIPES / "tiny").glob("*.toml")}
    assert find_recipe("tiny/prior") == tmp_path / "discodvt" / "recipes" / "tiny" / "prior.toml"


def test_recipes_are_listed_and_copied(tmp_path, monkeypatch, capsys):
    def program(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["discodvt", "recipes", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        return (int(caught.value.code or 0), *capsys.readouterr())

    code, out, _ = program()
    assert code == 0
    listed = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert set(listed) == set(shipped_recipes())
    assert all(about and not about.startswith("stage =") for about in listed.values())
    assert program("copy", "tiny", str(tmp_path))[0] == 0
    copied = {path.name for path in (tmp_path / "tiny").iterdir()}
    assert {"run.sh", "stories.py", "prior.toml"} <= copied
    assert program("copy", "paper/wikiplots", str(tmp_path / "mine"))[1].strip() == str(
        tmp_path / "mine" / "wikiplots.toml"
    )
    code, _, said = program("copy", "paper/wikiplots", str(tmp_path / "mine"))
    assert (code, said.count("\n")) == (2, 1)
    assert "is there already" in said
    assert "no such recipe; choose one of causal, nano, paper, tiny" in program("copy", "none", str(tmp_path))[2]


@pytest.mark.parametrize(("corpus", "codes"), [("wikiplots", 38), ("writingprompts", 44)])
def test_the_least_lengths_of_the_paper(corpus, codes):
    made = read_recipe(RECIPES / "paper" / f"{corpus}-prior.toml")
    assert (made.writing.min_codes, made.writing.min_tokens) == (codes, 100)
    assert made.as_dict()["writing"] == {"min_codes": codes, "min_tokens": 100}


def test_a_recipe_has_only_the_sections_its_stage_uses(tmp_path):
    sections = {stage: set(kind.model_fields) for stage, kind in stage_recipes().items()}
    baselines = {"language-model", "cvae", "plot-writer", "story-writer", "scorer"}
    assert set(sections) == {"codes", "pretrain", "seq2seq", "warm-start", "reconstruct", "prior"} | baselines
    assert {stage for stage in sections if "denoising" in sections[stage]} == {"pretrain"}
    assert {stage for stage in sections if "kl" in sections[stage]} == {"cvae"}
    latent = {"codes", "warm-start", "reconstruct"}
    assert {stage for stage in sections if "relaxation" in sections[stage]} == latent
    assert {stage for stage in sections if "loss" in sections[stage]} == latent | {"cvae"}
    assert "tokenizer" not in sections["prior"]
    assert "loss" not in recipe(tmp_path, SMALLEST.replace("reconstruct", "seq2seq")).as_dict()


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(BadRequest, match="no such recipe"):
        read_recipe(tmp_path / "none.toml")
    with pytest.raises(BadRequest, match="not a TOML file"):
        recipe(tmp_path, "stage = ")
