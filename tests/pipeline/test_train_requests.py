"""`discodvt train` with a wrong request: one clear line on standard error, exit 2, nothing written."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import program
import pytest
import torch
from pipeline.toy_corpus import contents, story, write_corpus
from safetensors.torch import load_file, save_file
from tiny_bart import tiny_bart
from transformers import BartForConditionalGeneration

from discodvt.config import LoopSettings
from discodvt.corpus import ANNOTATED_SCHEMA, write_rows
from discodvt.data.subwords import train_tokenizer
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.fit_stage import fit_classifier
from discodvt.model import DiscoDVT
from discodvt.training.recipes import read_recipe
from discodvt.training.run import _check_processes
from discodvt.training.run import train as run

SHAPE = tiny_bart(320)
SIZES = {"num_codes": 8, "code_width": 8, "conv_channels": 8, "relation_width": 8}
LINES = "".join(f"{name} = {size}\n" for name, size in SIZES.items())


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A corpus, a small BART with its tokenizer, and a recipe that would work."""
    directory = tmp_path_factory.mktemp("made")
    write_corpus(directory / "corpus", train=16, valid=8)
    torch.manual_seed(0)
    BartForConditionalGeneration(SHAPE).save_pretrained(directory / "bart")
    train_tokenizer((str(story(number)["story"]) for number in range(30)), 320).save_pretrained(directory / "bart")
    (directory / "recipe.toml").write_text(
        'stage = "reconstruct"\n[data]\ncorpus = "corpus"\nstory_tokens = 64\n[model]\ninit = "bart"\n'
        f"{LINES}[batch]\nstories_per_step = 4\n[run]\nsteps = 2\ntensorboard = false\n"
    )
    return directory


@pytest.fixture
def place(made, tmp_path, monkeypatch) -> Path:
    """A copy of it, to work and to break things in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(*arguments: str) -> tuple[int, str, str]:
    result = program.run("train", "recipe.toml", "--out", "out", *arguments)
    return result.returncode, result.stdout, result.stderr


def refused(*arguments: str) -> str:
    before = contents(Path("out"))
    code, _, said = ask(*arguments)
    assert (code, said[:10], said.count("\n")) == (2, "discodvt: ", 1), said
    assert contents(Path("out")) == before
    return said


def test_the_recipe_itself_works_and_says_so(place):
    code, out, _ = ask()
    assert code == 0
    assert "done" in out
    assert "holds a finished run" in refused()
    code, out, _ = ask("--resume")
    assert code == 0
    assert "nothing to resume" in out
    assert "out" in refused("--set", "seed=7", "--set", "run.steps=3")
    code, _, _ = ask("--overwrite", "--set", "run.steps=1")
    assert code == 0
    assert json.loads((place / "out" / "manifest.json").read_text())["facts"]["steps"] == 1


def test_a_refused_overwrite_brings_the_finished_run_back(place):
    assert ask()[0] == 0
    assert "64" in refused("--overwrite", "--set", "data.story_tokens=80")
    assert "nothing to resume" in ask("--resume")[1]


def test_a_finished_run_made_of_something_else_is_not_resumed(place):
    assert ask()[0] == 0
    assert "another config" in refused("--resume", "--set", "seed=99")
    weights = load_file(place / "bart" / "model.safetensors")
    weights["final_logits_bias"] += 1
    save_file(weights, place / "bart" / "model.safetensors", metadata={"format": "pt"})
    assert "another input" in refused("--resume")


def test_a_resumed_run_that_is_refused_keeps_its_checkpoint(place):
    for event in run(read_recipe(place / "recipe.toml", ["run.save_every_steps=1"]), place / "out"):
        if event.kind == "step" and event.step == 2:
            break
    (last,) = (place / "out").glob("last-*")
    for path in last.glob("*.safetensors"):
        path.rename(path.with_suffix(".bin"))
    assert "never loaded" in refused("--resume", "--set", "run.save_every_steps=1")
    assert last.is_dir()


def stopped(place: Path, *overrides: str, at: int = 2) -> list[str]:
    """A run that was stopped at a step, with a checkpoint after each; the arguments to ask for it again."""
    settings = ["run.steps=4", "run.save_every_steps=1", *overrides]
    for event in run(read_recipe(place / "recipe.toml", settings), place / "out"):
        if event.kind == "step" and event.step == at:
            break
    return [word for setting in settings for word in ("--set", setting)]


def test_a_resumed_run_may_differ_in_what_is_named(place):
    again = stopped(place)
    said = refused(*again, "--resume", "--set", "optimizer.learning_rate=1e-5")
    assert "optimizer.learning_rate: 0.0001 there, 1e-05 asked for" in said
    code, _, said = ask(*again, "--resume", "--change", "optimizer.learning_rate=1e-5")
    assert code == 0, said
    changed = {"key": "optimizer.learning_rate", "from": 1e-4, "to": 1e-5}
    assert json.loads((place / "out" / "manifest.json").read_text())["changes"] == [changed]
    rates = [json.loads(line) for line in (place / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["learning_rate"] for line in rates if "learning_rate" in line] == pytest.approx([1e-4, 2.5e-6])
    card = (place / "out" / "README.md").read_text()
    assert "## Changed on resume\n\n- step 1: optimizer.learning_rate from 0.0001 to 1e-05\n" in card


def test_a_disk_that_is_full_is_one_line_and_the_last_checkpoint_stays(place):
    """A limit on the size of files, below that of the model, stands for the disk."""
    resource = pytest.importorskip("resource")  # not on Windows
    again = stopped(place)
    (last,) = (place / "out").glob("last-*")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((last / "model.safetensors").stat().st_size - 1, limits[1]))
    try:
        code, _, said = ask(*again, "--resume")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 1
    assert re.search(r"^discodvt: out/last-0*2\.partial: cannot be written .*File too large", said, re.MULTILINE)
    assert list((place / "out").glob("last-*[0-9]")) == [last]
    assert ask(*again, "--resume")[0] == 0


def test_a_change_is_remembered_when_the_run_is_killed_again(place):
    stopped(place)
    settings = ["run.steps=4", "run.save_every_steps=1", "optimizer.learning_rate=1e-5"]
    recipe = read_recipe(place / "recipe.toml", settings)
    for event in run(recipe, place / "out", resume=True, changes=["optimizer.learning_rate"]):
        if event.kind == "step":
            break  # before the next checkpoint
    list(run(recipe, place / "out", resume=True))
    assert "- step 1: optimizer.learning_rate from 0.0001 to 1e-05\n" in (place / "out" / "README.md").read_text()


def test_what_the_watchdog_advises_can_be_changed_on_resume(place):
    again, changes = stopped(place), ("word_dropout.rate=0.3", "relaxation.noise_free=1.0", "loss.entropy=0.5")
    for change in changes:
        shutil.copytree("out", change)
        result = program.run("train", "recipe.toml", "--out", change, *again, "--resume", "--change", change)
        assert result.returncode == 0, result.stderr
        (kept,) = json.loads((place / change / "manifest.json").read_text())["changes"]
        assert f"{kept['key']}={kept['to']}" == change
    list(run(read_recipe(place / "recipe.toml", again[1::2]), place / "out", resume=True))
    unchanged = load_file(place / "out" / "model.safetensors")
    for change in changes:
        changed = load_file(place / change / "model.safetensors")
        assert any(not torch.equal(changed[name], unchanged[name]) for name in unchanged), change


def test_what_may_not_change_on_resume(place):
    again = stopped(place)
    assert "--change seed: fixed" in refused(*again, "--resume", "--change", "seed=3")
    assert "--change model.num_codes: fixed" in refused(*again, "--resume", "--change", "model.num_codes=16")
    said = refused(*again, "--change", "optimizer.learning_rate=1e-5")
    assert "--change is for a run that is resumed; use --set" in said


def test_the_advice_after_a_gradient_that_is_not_finite_works(place):
    arguments = ["--set", "run.steps=6", "--set", "optimizer.learning_rate=1e30"]
    code, _, said = ask(*arguments)
    assert code == 1
    assert "not finite at a learning rate of" in said
    advice = said.partition("--resume --change ")[2].partition(",")[0]
    assert advice == "optimizer.learning_rate=1e+29"
    code, _, said = ask(*arguments, "--resume", "--change", "optimizer.learning_rate=1e-4")
    assert code == 0, said


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["assembly.tokenize_corpus", "loop.validate"])
def test_a_crash_at_the_start_leaves_no_unfinished_run(place, monkeypatch, where, error):
    def crash(*_, **__):
        raise error("out of luck")

    with monkeypatch.context() as patch:
        patch.setattr(f"discodvt.training.{where}", crash)
        with pytest.raises(error):
            list(run(read_recipe(place / "recipe.toml"), place / "out"))
    assert not (place / "out").exists()


def test_a_run_killed_at_its_start_is_started_again_even_with_another_recipe(place):
    for event in run(read_recipe(place / "recipe.toml"), place / "out"):
        if event.kind == "step":
            break
    assert (place / "out" / "stage.json").exists()
    code, _, said = ask("--set", "seed=7")
    assert code == 0, said
    assert json.loads((place / "out" / "manifest.json").read_text())["config"]["seed"] == 7


def test_the_unfinished_work_of_another_command_is_left_alone(place):
    (place / "out").mkdir()
    (place / "out" / "stage.json").write_text(json.dumps({"stage": "annotate", "config": {}, "inputs": {}}))
    assert "holds an unfinished `annotate`" in refused()


def test_a_request_that_cannot_be_read_is_named(place):
    (place / "out").mkdir()
    (place / "out" / "stage.json").write_text('{"stage": ')
    assert "stage.json: not readable as JSON" in refused()


def test_shares_of_prompts_and_stories_that_are_cut_are_said_at_the_start(place):
    code, out, _ = ask("--set", "data.prompt_tokens=1", "--set", "data.story_tokens=16")
    assert code == 0
    first = out.splitlines()[0]
    assert first == (
        "`data.prompt_tokens` 1 cuts 100% of the prompts and `data.story_tokens` 16 cuts 100% of the stories "
        "of the train split"
    )
    assert "cuts" not in ask("--overwrite", "--set", "data.story_tokens=64")[1]


def test_the_numbers_of_processes_that_would_do_are_said():
    for processes, said in {
        3: "use 1 or 2 or 4$",
        8: "use 1 or 2 or 4, or set batch.stories_per_micro_batch=2$",
    }.items():
        with pytest.raises(BadRequest, match=f"4 micro-batches of a step cannot be shared by {processes} .*{said}"):
            _check_processes(LoopSettings(), SimpleNamespace(num_processes=processes))
    _check_processes(LoopSettings(), SimpleNamespace(num_processes=4))


def test_a_refused_discourse_fit_leaves_nothing_either(place):
    settings = {"epochs": 1.0, "first_epochs": 1.0, "pairs_per_step": 10_000, "argument_tokens": 8}
    with pytest.raises(BadRequest, match="do not fill one step"):
        list(fit_classifier(place / "corpus", place / "out", **settings))
    assert not contents(Path("out"))


@pytest.fixture
def coded(place) -> Path:
    """The BART has become a DiscoDVT of 8 codes."""
    DiscoDVT.from_bart(place / "bart", **SIZES).save_pretrained(place / "bart")
    return place


def test_a_prior_is_refused_before_any_work(coded, monkeypatch):
    monkeypatch.delattr("discodvt.training.stages.prior.read_plans")  # the work
    for setting, said in {
        "data.story_tokens=80": "need 80 positions, the model has 64",
        "data.prompt_tokens=63": "need 65 positions, the model has 64",
        "model.bottleneck=straight-through": "bottleneck is gumbel, the recipe asks for straight-through",
        "writing.min_codes=9": "more than the 8 codes",
    }.items():
        assert said in refused("--set", "stage=prior", "--set", setting)


def test_a_prior_needs_codes_that_were_learned(place):
    assert "knows no plans" in refused("--set", "stage=prior")


def test_codes_made_of_bits_are_not_restarted(coded):
    DiscoDVT.from_bart(SHAPE, **SIZES, bottleneck="bits").save_pretrained(coded / "bart")
    assert "nothing to restart" in refused("--set", "watchdog.restart_dead_codes=true")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("model.bottleneck=vq",), "loss.entropy: vq codes have no probabilities; set loss.entropy=0"),
        (("model.bottleneck=fsq", "loss.entropy=0", "relaxation.noise_free=0.2"), "set relaxation.noise_free=0"),
        (("model.bottleneck=fsq", "model.code_levels=[3, 3]"), "code_levels 3 x 3 give 9 codes, num_codes is 8"),
        (("model.code_levels=[4, 2]",), "code_levels are for fsq codes"),
        (("model.bottleneck=vq", "watchdog.restart_dead_codes=true"), "nothing to restart"),
    ],
)
def test_codes_that_cannot_be_made_or_trained_so(place, settings, said):
    assert said in refused(*(part for each in settings for part in ("--set", each)))


def test_codes_of_a_checkpoint_without_probabilities(coded):
    DiscoDVT.from_bart(SHAPE, **SIZES, bottleneck="fsq", code_levels=[2, 4]).save_pretrained(coded / "bart")
    said = refused()
    assert "loss.entropy: the fsq codes of bart have no probabilities; set loss.entropy=0" in said
    more = ("--set", "loss.entropy=0", "--set", "model.bottleneck=fsq")
    assert ask(*more)[0] == 0
    assert DiscoDVT.from_pretrained(coded / "out").config.code_levels == [2, 4]


def test_stage_1_may_change_the_bottleneck(coded):
    code, _, said = ask("--set", "model.bottleneck=bits", "--set", "watchdog.grace=0")
    assert code == 0
    assert "raise loss.entropy (now 0.1), or raise loss.batch_entropy (now 0)" in said
    assert "restart_dead_codes" not in said  # not for codes made of bits


@pytest.mark.parametrize("setting", ["denoising.mask_ratio=0", "denoising.mean_span=0.4"])
def test_denoising_stories_as_long_as_the_model(place, setting):
    write_rows(place / "corpus" / "train.parquet", (story(n) | {"story": "Ann saw. " * 40} for n in range(16)),
               ANNOTATED_SCHEMA)  # fmt: skip
    recipe = place / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(LINES, ""))
    code, _, said = ask("--set", "stage=pretrain", "--set", setting)
    assert code == 0, said


def test_an_unfinished_run_says_how_to_go_on(place):
    again = stopped(place)
    assert "go on with --resume, or start over with --overwrite" in refused(*again)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("data.colour=1", "unknown key"),
        ("data.story_tokens=80", "64"),
        ("data.prompt_tokens=63", "positions"),
        ("data.corpus=nowhere", "nowhere"),
        ("model.init=./nowhere", "no such directory"),
        ("batch.stories_per_step=64", "do not fill one step"),
    ],
)
def test_wrong_settings(place, setting, said):
    assert said in refused("--set", setting)


@pytest.mark.parametrize(
    "overrides", [["stage=seq2seq", *(f"model.{name}=" for name in SIZES)], ["model.tune=generator"]]
)
def test_a_rate_of_a_posterior_that_is_not_trained(place, overrides):
    words = [word for override in [*overrides, "optimizer.posterior_rate=0.5"] for word in ("--set", override)]
    assert "optimizer.posterior_rate: no posterior is trained here" in refused(*words)


def test_the_posteriors_rate_may_be_given_on_resume(place):
    again = stopped(place)
    code, _, said = ask(*again, "--resume", "--change", "optimizer.posterior_rate=0.5")
    assert code == 0, said
    changed = {"key": "optimizer.posterior_rate", "from": None, "to": 0.5}
    assert json.loads((place / "out" / "manifest.json").read_text())["changes"] == [changed]


def test_a_checkpoint_of_another_shape(place):
    DiscoDVT.from_bart(place / "bart", **SIZES | {"num_codes": 12}).save_pretrained(place / "bart")
    assert "codes is 12, the recipe asks for 8" in refused()


def test_weights_that_do_not_fit_their_config(place):
    weights = load_file(place / "bart" / "model.safetensors")
    weights["model.shared.weight"] = weights["model.shared.weight"][:100].clone()
    save_file(weights, place / "bart" / "model.safetensors", metadata={"format": "pt"})
    assert "do not fit" in refused()


def test_a_corpus_without_annotations(place):
    write_corpus(place / "corpus", train=16, valid=8, annotated=False)
    assert "discodvt annotate" in refused()


def test_an_empty_split(place):
    write_rows(place / "corpus" / "valid.parquet", [], ANNOTATED_SCHEMA)
    assert "no story" in refused()
    (place / "corpus" / "valid.parquet").unlink()
    assert "no valid split" in refused("--overwrite")


def test_a_pickle_checkpoint(place):
    torch.save(load_file(place / "bart" / "model.safetensors"), place / "bart" / "pytorch_model.bin")
    (place / "bart" / "model.safetensors").unlink()
    assert "never loaded" in refused()


def test_another_family_of_models(place):
    config = json.loads((place / "bart" / "config.json").read_text())
    (place / "bart" / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    assert "bert checkpoint" in refused()
