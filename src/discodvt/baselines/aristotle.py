"""Aristotelian Rescoring put together: plots are drawn under the rescorers, then stories are written from them.

A directory of the `rescoring` stage is the story writer's checkpoint, and in it `plot-writer/`, `scorers/KIND/` and
`rescoring.json` (weights, mode). `PlotDrawer` draws the plot of a prompt; whoever writes stories reads prompt and plot
(`plots.source_text`) and takes the tags off again (`plots.strip_tags`).
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import LogitsProcessorList, PreTrainedTokenizerBase

from discodvt.artefacts import open_stage
from discodvt.baselines.plots import VERB, source_text
from discodvt.baselines.rescoring import NewVerbsOnly, ScoredPlot, TokenRescoring, best_plot, learn_weights
from discodvt.baselines.scorers import PlotScorer, ScorerModel, rescore_with
from discodvt.checkpoints import Checkpoint, best_device
from discodvt.corpus import read_examples
from discodvt.data.subwords import Symbols, encode
from discodvt.errors import BadRequest
from discodvt.model.backbones import Backbone, Prompt, load_language_model, new_backbone
from discodvt.stored_files import read_settings
from discodvt.stored_weights import RESCORING

STAGE = "rescoring"
MODEL_FILES = ("*.json", "*.txt", "*.safetensors", "README.md")
SHORTEST, LONGEST = 55, 250  # subwords of a plot, as A has it
Mode = Literal["plot", "token", "plain"]


@dataclass
class PlotDrawer:
    """Draws plots: `token` rescores every token, `plot` takes the best of `candidates`, `plain` asks no rescorer."""

    model: Any
    tokenizer: PreTrainedTokenizerBase
    scorers: Mapping[str, PlotScorer]
    weights: Tensor  # [S], in the order of the scorers
    mode: Mode = "plot"
    candidates: int = 16
    shortest: int = SHORTEST
    longest: int = LONGEST
    scorer_tokens: int = 512
    prompt_tokens: int = 64

    @property
    def device(self) -> torch.device:
        device: torch.device = self.model.device
        return device

    def prompt_ids(self, prompt: str) -> list[int]:
        """A prompt as the plot writer and the rescorers read it, its separator included for the latter."""
        return self._ids(prompt)[: self.prompt_tokens]

    def _ids(self, text: str) -> list[int]:
        (encoded,) = encode(self.tokenizer.backend_tokenizer, [text])
        return list(encoded.ids)

    def draw(self, prompt: str, *, seed: int) -> str:
        """The plot of a prompt; the same seed draws the same."""
        rescore = self.scorers and self.mode != "plain"
        if not rescore:
            (plot,) = self._generate(prompt, seed=seed, count=1, processors=[])
            return self._text(plot)
        if self.mode == "token":
            processor = TokenRescoring(self._rescore(prompt, skip=self._given(prompt)), self.weights.to(self.device))
            processor.prefix = self._given(prompt)
            (plot,) = self._generate(prompt, seed=seed, count=1, processors=[processor], top_p=1.0)
            return self._text(plot)
        plots = self._generate(prompt, seed=seed, count=self.candidates, processors=[])
        scored = self.score(prompt, plots)
        log_p = torch.tensor([each.mean_log_p for each in scored])
        log_real = torch.tensor([each.log_real for each in scored])
        return self._text(plots[best_plot(log_p, log_real, self.weights.cpu())])

    @torch.no_grad()
    def score(self, prompt: str, plots: Sequence[Tensor]) -> list[ScoredPlot]:
        """Plots (token ids, end included or not) under the writer and every rescorer."""
        pad = self._symbols.pad
        rows = torch.nn.utils.rnn.pad_sequence(list(plots), batch_first=True, padding_value=pad)
        log_p = self._mean_log_p(prompt, plots)
        real = torch.zeros(len(plots), 0)
        if self.scorers:
            real = self._rescore(prompt, skip=0)(rows.to(self.device)).float().cpu()
        return [ScoredPlot(float(p), tuple(each.tolist())) for p, each in zip(log_p, real, strict=True)]

    def encode(self, plot: str) -> Tensor:
        """A plot as token ids [T]."""
        return torch.tensor(self._ids(plot)[: self.longest], dtype=torch.long)

    @cached_property
    def backbone(self) -> Backbone:
        config = self.model.config
        return new_backbone(config, separator=getattr(config, "separator_token_id", None))

    @property
    def _symbols(self) -> Symbols:
        return self.backbone.symbols

    def _inputs(self, prompt: str) -> Tensor:
        symbols = self._symbols
        return torch.tensor(
            [[*symbols.prompt_start, *self.prompt_ids(prompt), *symbols.prompt_end]], device=self.device
        )

    def _given(self, prompt: str) -> int:
        ids = self._inputs(prompt)
        return int(self.backbone.begin(ids, torch.ones_like(ids))[2])

    def _rescore(self, prompt: str, *, skip: int) -> Any:
        context = self._ids(source_text(prompt, ""))
        return rescore_with(
            list(self.scorers.values()), [context], longest=self.scorer_tokens, padding=self._symbols.pad, skip=skip
        )

    @torch.no_grad()
    def _generate(
        self, prompt: str, *, seed: int, count: int, processors: list[Any], top_p: float = 0.9
    ) -> list[Tensor]:
        """Plots as token ids, their end cut off."""
        backbone, ids = self.backbone, self._inputs(prompt)
        ids, mask, given, _ = backbone.begin(ids, torch.ones_like(ids))
        verb: Any = self.tokenizer.convert_tokens_to_ids(VERB)
        room = int(self.model.config.max_position_embeddings) - given
        torch.manual_seed(seed)
        start = {"decoder_start_token_id": backbone.symbols.story_start} if self.model.config.is_encoder_decoder else {}
        written = self.model.generate(
            ids,
            attention_mask=mask,
            do_sample=True,
            num_return_sequences=count,
            top_k=0,
            top_p=top_p,
            no_repeat_ngram_size=3,
            min_new_tokens=min(self.shortest, room - 1),
            max_new_tokens=min(self.longest, room),
            max_length=None,
            forced_eos_token_id=None,
            eos_token_id=backbone.symbols.story_end,
            pad_token_id=backbone.symbols.pad,
            logits_processor=LogitsProcessorList([NewVerbsOnly(verb), *processors]),
            **start,
        )
        return [self._cut(row[given:]) for row in written]

    def _cut(self, row: Tensor) -> Tensor:
        ends = torch.nonzero((row == self._symbols.story_end) | (row == self._symbols.pad)).flatten()
        cut = row[: int(ends[0])] if len(ends) else row
        return cut.cpu() if len(cut) else row[:1].cpu()

    def _text(self, plot: Tensor) -> str:
        text = self.tokenizer.decode(plot, skip_special_tokens=True)
        return " ".join(str(text).split())

    @torch.no_grad()
    def _mean_log_p(self, prompt: str, plots: Sequence[Tensor]) -> list[float]:
        """The writer's mean ln p per token of each plot."""
        backbone, ids = self.backbone, self._inputs(prompt)
        found = []
        for plot in plots:
            told = torch.cat([torch.tensor([backbone.symbols.story_start]), plot])[None].to(self.device)
            states = backbone.decode(self.model, Prompt(ids, torch.ones_like(ids)), told, None, use_cache=False)
            labels = torch.cat([told[:, 1:], torch.full((1, 1), -100, device=self.device)], dim=1)
            nll = backbone.summed_loss(self.model, states.last_hidden_state, labels)
            found.append(-float(nll) / max(1, len(plot)))
        return found


def join(
    out: Path,
    *,
    plots: Path,
    plot_writer: Path,
    story_writer: Path,
    scorers: Mapping[str, Path],
    mode: Mode = "plot",
    candidates: int = 16,
    min_tokens: int = SHORTEST,
    max_tokens: int = LONGEST,
    max_pairs: int = 500,
    seed: int = 0,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Learn the weights of the rescorers, and put all parts into one directory."""
    if not scorers:
        raise BadRequest("`scorer`: none given; give NAME=DIR of each run of the `scorer` stage", "scorer")
    if min_tokens > max_tokens:
        raise BadRequest(
            f"`min_tokens` {min_tokens} is above `max_tokens` {max_tokens}; swap them", ("min_tokens", "max_tokens")
        )
    for path in scorers.values():
        Checkpoint.open(path).require("discodvt-scorer")
    for path in (plot_writer, story_writer):
        if (kind := Checkpoint.open(path).kind).startswith("discodvt"):
            raise BadRequest(f"{path}: a {kind} checkpoint; give a run of the stage `plot-writer` or `story-writer`")
    pairs = plots / "weights.parquet"
    if not pairs.is_file():
        raise BadRequest(f"{plots}: no weights.parquet in it; give a directory of `discodvt rescoring plots`")
    config = {"scorers": list(scorers), "mode": mode, "candidates": candidates, "shortest": min_tokens}
    config |= {"longest": max_tokens, "max_pairs": max_pairs, "seed": seed}
    weights_of = [Path(path) / "model.safetensors" for path in (plot_writer, story_writer, *scorers.values())]
    with open_stage(out, STAGE, config=config, inputs=[pairs, *weights_of], overwrite=overwrite) as stage:
        if not stage.complete:
            parts = {"": story_writer, "plot-writer": plot_writer}
            parts |= {f"scorers/{name}": path for name, path in scorers.items()}
            for inside, source in parts.items():
                (out / inside).mkdir(parents=True, exist_ok=True)
                for file in (path for pattern in MODEL_FILES for path in Path(source).glob(pattern)):
                    if file.name not in ("manifest.json", "stage.json"):
                        shutil.copyfile(file, out / inside / file.name)
            settings = {key: config[key] for key in ("scorers", "mode", "candidates", "shortest", "longest")}
            drawer = _drawer(out, settings | {"weights": [1.0] * len(scorers)})
            learned = learn_weights(_pairs(drawer, pairs, max_pairs, seed), rescorers=len(scorers))
            stage.write_json(RESCORING, settings | {"weights": [float(weight) for weight in learned]})
            stage.finish(weights=dict(zip(scorers, map(float, learned), strict=True)), mode=mode)
        return stage.facts


def _pairs(drawer: PlotDrawer, path: Path, most: int, seed: int) -> Iterator[tuple[ScoredPlot, ScoredPlot]]:
    """Real plots beside generated ones of the same prompt."""
    for number, example in enumerate(read_examples(path)):
        if number == most:
            return
        (generated,) = drawer._generate(example.prompt, seed=seed + number, count=1, processors=[])
        real, written = drawer.score(example.prompt, [drawer.encode(example.story), generated])
        yield real, written


def open_drawer(directory: Path) -> PlotDrawer:
    """The plot drawer of a directory of the rescoring stage."""
    settings = read_settings(directory / RESCORING)
    if not settings:
        raise BadRequest(f"{directory}: no {RESCORING} in it; give a directory of `discodvt rescoring join`")
    return _drawer(directory, settings)


def _drawer(directory: Path, settings: Mapping[str, Any]) -> PlotDrawer:
    device = best_device()
    writer = Checkpoint.open(directory / "plot-writer")
    scorers = {
        name: Checkpoint.open(directory / "scorers" / name).load(ScorerModel, device=device).scorer
        for name in settings["scorers"]
    }
    return PlotDrawer(
        load_language_model(writer, device=device),
        writer.tokenizer(),
        scorers,
        torch.tensor(settings["weights"]),
        mode=settings["mode"],
        candidates=settings["candidates"],
        shortest=settings["shortest"],
        longest=min(settings["longest"], writer.lengths.max_tokens),
        scorer_tokens=writer.lengths.positions,
        prompt_tokens=writer.lengths.prompt_tokens,
    )
