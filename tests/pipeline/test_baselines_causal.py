"""Every baseline around a causal language model: it learns, and writes through the one writer as it was trained."""

import json
from pathlib import Path

import pytest
import torch
from pipeline.toy_corpus import write_tiny_corpus
from transformers import LlamaConfig, LlamaForCausalLM

from discodvt.baselines.aristotle import PlotDrawer, join, open_drawer
from discodvt.baselines.cvae_model import BartCVAE
from discodvt.baselines.plot_corpus import make_plots
from discodvt.baselines.plots import TAGS
from discodvt.checkpoints import Checkpoint
from discodvt.data.subwords import train_tokenizer
from discodvt.evaluation.rescoring import measure
from discodvt.model.backbones import load_language_model
from discodvt.training.recipes import Recipe, read_recipe
from discodvt.training.run import train
from discodvt.training.stages.seq2seq import TextObjective
from discodvt.writing import Request, StoryWriter

KINDS = ("relevance", "event-inter", "event-intraV", "entity")
SHORT = (
    "run.steps=6", "validation.every_steps=6", "run.save_every_steps=6", "run.tensorboard=false",
    "run.precision=float32", "batch.stories_per_step=8", "batch.stories_per_micro_batch=8", "data.max_valid_stories=16",
    "data.prompt_tokens=16", "data.story_tokens=64", "optimizer.learning_rate=1e-2", "optimizer.warmup_steps=0",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A toy corpus, its plots, a tiny Llama with a SEP of its own, and every baseline of `recipes/nano` around it."""
    folder = tmp_path_factory.mktemp("causal-baselines")
    rows = write_tiny_corpus(folder / "corpus")
    make_plots(folder / "corpus", folder / "plots")
    tokenizer = train_tokenizer((row["story"] for row in rows), 400)
    tokenizer.add_special_tokens({"sep_token": "<sep>"})
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=192, tie_word_embeddings=True, initializer_range=0.15, **ids,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder / "llama")
    tokenizer.save_pretrained(folder / "llama")
    _train("language-model", folder, "language-model", "corpus")
    _train("seq2seq", folder, "bart-lm", "corpus", f"model.init={folder / 'language-model'}")
    _train("cvae", folder, "cvae", "corpus", "model.latent_dimensions=4")
    _train("plot-writer", folder, "plot-writer", "plots/plots")
    _train("story-writer", folder, "story-writer", "plots/stories", "data.prompt_tokens=96")
    for kind in KINDS:
        _train("scorer", folder, kind, f"plots/pairs/{kind}", "data.story_tokens=96")
    parts = {"plots": folder / "plots", "plot_writer": folder / "plot-writer", "story_writer": folder / "story-writer"}
    scorers = {kind: folder / kind for kind in KINDS}
    join(folder / "joined", **parts, scorers=scorers, min_tokens=8, max_tokens=40, candidates=3, max_pairs=2)
    return folder


def _train(recipe: str, folder: Path, name: str, corpus: str, *more: str) -> None:
    list(train(_recipe(recipe, folder, corpus, *more), folder / name))


def _recipe(recipe: str, folder: Path, corpus: str, *more: str) -> Recipe:
    given = [*SHORT, f"data.corpus={folder / corpus}", f"model.init={folder / 'llama'}", *more]
    return read_recipe(f"nano/{recipe}", given)


def figures(folder: Path, name: str) -> list[dict]:
    lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == "valid"]


def symbols_of(folder: Path) -> tuple[int, int]:
    tokenizer = Checkpoint.open(folder / "llama").tokenizer()
    return tokenizer.sep_token_id, tokenizer.eos_token_id


@pytest.mark.parametrize("name", ["language-model", "bart-lm", "cvae", "plot-writer", "story-writer", *KINDS])
def test_a_stage_learns_and_every_weight_takes_part(folder, name):
    first, *_, last = (line for line in figures(folder, name))
    if name in KINDS:  # too short a training to be right; but it is another scorer than at first
        assert 0 < last["cross_entropy"] != first["cross_entropy"]
    else:
        assert last["reconstruction"] < first["reconstruction"] - 0.3
    facts = json.loads((folder / name / "manifest.json").read_text())["facts"]
    assert facts["without_gradient"] == []
    assert facts["frozen"] == []


@pytest.mark.parametrize(
    ("recipe", "name", "corpus"),
    [("cvae", "cvae", "corpus"), ("seq2seq", "bart-lm", "corpus"), ("scorer", "relevance", "plots/pairs/relevance")],
)
def test_a_run_goes_on_with_the_separator_it_began_with(folder, recipe, name, corpus):
    stage = _recipe(recipe, folder, corpus)
    assert stage.text(None).settings == stage.text(folder / name).settings


@pytest.mark.parametrize("name", ["language-model", "bart-lm", "cvae", "plot-writer", "story-writer"])
def test_a_writer_finds_the_separator_stories_were_trained_with(folder, name):
    separator, end = symbols_of(folder)
    assert separator != end
    assert json.loads((folder / name / "config.json").read_text())["separator_token_id"] == separator


@torch.no_grad()
def test_a_cvae_with_a_zero_projection_is_its_causal_backbone(folder):
    model: BartCVAE = Checkpoint.open(folder / "cvae").load(BartCVAE)
    torch.nn.init.zeros_(model.latent.projection.weight)
    separator, end = symbols_of(folder)
    story = torch.tensor([[separator, 20, 30, 40, end], [separator, 50, 60, 70, 80]])
    labels = torch.tensor([[20, 30, 40, end, -100], [50, 60, 70, 80, end]])
    prompt = torch.tensor([[5, 6], [7, 8]])
    mask = torch.tensor([[1, 1], [1, 0]])
    ours = model.summed_nll(prompt, mask, story, labels, torch.randn(2, 4))
    batch = {"prompt_ids": prompt, "prompt_mask": mask, "story_ids": story, "labels": labels}
    assert ours.item() == TextObjective(model.generator)(batch).sums["reconstruction"].item()


def test_a_causal_cvae_writes_as_its_latent_says(folder):
    writer = StoryWriter.from_pretrained(folder / "cvae")
    requests = [Request(f"A day with {name}", index=number) for number, name in enumerate(("Ann", "Ben", "Cat"))]
    together = {story.index: story.text for story in writer.write_many(requests, batch_size=3)}
    alone = {story.index: story.text for request in requests for story in writer.write_many([request], batch_size=1)}
    assert together == alone
    torch.nn.init.normal_(writer._cvae.latent.projection.weight, std=3.0)  # what is heard of another latent
    assert {story.index: story.text for story in writer.write_many(requests, batch_size=3)} != together


@torch.no_grad()
def test_plots_are_drawn_and_scored_behind_the_separator(folder):
    """ln p of a plot is that of the writer's own training, prompt, SEP and plot in one sequence."""
    drawer = open_drawer(folder / "joined")
    separator, _ = symbols_of(folder)
    assert drawer.backbone.symbols.story_start == separator
    plot = drawer.encode("<A0> Ann <V> saw <A1> a hat")
    (scored,) = drawer.score("Ann and the hat", [plot])
    model = load_language_model(Checkpoint.open(folder / "plot-writer"))
    ids = torch.tensor([[model.config.bos_token_id, *drawer.prompt_ids("Ann and the hat"), separator, *plot.tolist()]])
    logits = model(ids).logits[0, -len(plot) - 1 : -1].log_softmax(-1)
    expected = logits.gather(1, plot[:, None]).mean().item()
    assert scored.mean_log_p == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("mode", ["plain", "plot", "token"])
def test_rescored_plots_become_stories_without_tags(folder, mode):
    writer = StoryWriter.from_pretrained(folder / "joined")
    writer._drawer.mode = mode
    requests = [Request(f"Ann and the {thing}", index=number, id=thing) for number, thing in enumerate(("kite", "hat"))]
    stories = {story.id: story for story in writer.write_many(requests, batch_size=2)}
    assert not any(tag in story.text for story in stories.values() for tag in TAGS)
    (alone,) = writer.write_many(requests[1:], batch_size=1)
    assert alone.text == stories["hat"].text


def test_a_joined_writer_is_measured_with_intervals(folder, tmp_path, monkeypatch):
    """With any scorer for a judge: here it is the parts that count."""
    told, drawn, draw = [], [], PlotDrawer.draw
    monkeypatch.setattr(
        PlotDrawer, "draw", lambda self, *given, **named: drawn.append(given) or draw(self, *given, **named)
    )
    found = measure(
        folder / "joined", folder / "plots", tmp_path, judge=folder / "relevance", prompts=3, max_pairs=20,
        progress=lambda *given: told.append(given),
    )  # fmt: skip
    assert told == [(number, 6) for number in range(1, 7)]
    assert len(drawn) == 9  # of each prompt one rescored, one plain, and the one its story is written from
    kinds = {f"{name}-{kind}" for name in ("accuracy", "words", "above-words") for kind in KINDS}
    assert found.keys() == kinds | {"judge", "own-plot"}
    assert all(figure["low"] <= figure["value"] <= figure["high"] for figure in found.values())
    assert json.loads((tmp_path / "measured.json").read_text()) == found
    assert found["accuracy-relevance"]["n"] == 20
