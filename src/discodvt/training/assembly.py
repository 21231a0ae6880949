"""From a recipe to a stage: what every stage has in common. Tokenizer, tokens, lengths.

`Recipe` is the schema of a recipe file as well; each stage (`discodvt.training.stages`) is a subclass that says which
sections it has and builds its model, feeds and objective.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from math import ceil
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from pydantic import Field, model_validator
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_layers import GradientCheckpointingLayer

from discodvt.artefacts import MANIFEST, StageFacts, read_manifest
from discodvt.checkpoints import Checkpoint, open_tokenizer
from discodvt.config import Backbone, Card, Data, Location, LoopSettings, NewBackbone, Run, Tokenizer, Writing
from discodvt.corpus import read_examples, split_files
from discodvt.data.batches import Order
from discodvt.data.subwords import Symbols, adding_a_space, train_tokenizer
from discodvt.data.token_shards import STAGE as TOKENIZE
from discodvt.data.token_shards import TOKENIZER, check_tokens, open_tokens, token_config, tokenize_corpus
from discodvt.data.tokens import Tokens, TokenSettings
from discodvt.errors import BadRequest, DiscoError
from discodvt.storage import RemotePath, local_copy, locate
from discodvt.stored_weights import TRAINED, WHOLE
from discodvt.training.feeds import DropoutSchedule, Noise, StoryFeed, WeakPlans
from discodvt.training.model_card import model_card
from discodvt.training.stages import Feed, Objective, Stage
from discodvt.training.weights import source_checkpoint, story_symbols

Progress = Callable[[str, int, int], None]  # what is being made ready, how much of it, of how much
TOKENS = "tokens"  # in the directory of a run that makes its own, until it is complete


def silent(what: str, done: int, total: int) -> None:
    """The progress of a run that nobody watches."""


@dataclass(frozen=True)
class Site:
    """Where a run is made: its directory, the processes, and the checkpoint it goes on from."""

    directory: Path
    accelerator: Accelerator
    last: Path | None
    progress: Progress = silent

    def on_first(self, work: Callable[[], object]) -> None:
        """Work that the first process does while the others wait; what is wrong with the request, all say."""
        wrong: list[DiscoError | None] = [None]
        if self.accelerator.is_main_process:
            try:
                work()
            except DiscoError as error:
                wrong = [error]
        broadcast_object_list(wrong)
        if wrong[0] is not None:
            raise wrong[0]


class Text(NamedTuple):
    """How the stories of a run become tokens."""

    tokenizer: PreTrainedTokenizerBase
    settings: TokenSettings


@dataclass(frozen=True)
class Corpus:
    """What every stage reads: a tokenizer, and the train and valid splits as its tokens."""

    tokenizer: PreTrainedTokenizerBase
    symbols: Symbols
    train: Tokens
    valid: Tokens

    def story_feeds(
        self, *, seed: int, dropout: DropoutSchedule, noise: Noise | None = None, weak_plans: WeakPlans | None = None
    ) -> tuple[StoryFeed, StoryFeed]:
        """Both splits as prompts and stories."""
        pad = self.symbols.pad
        in_place = (self.tokenizer.mask_token_id, self.tokenizer.unk_token_id, pad)  # of a dropped word: what there is
        mask = next(symbol for symbol in in_place if symbol is not None)
        train, valid = (
            StoryFeed(tokens, pad, mask, seed, dropout, noise, weak_plans) for tokens in (self.train, self.valid)
        )
        return train, valid


class Recipe(LoopSettings):
    """Everything one training stage needs. A subclass is a stage."""

    summary: ClassVar[str]  # for the model card
    reads_prompts: ClassVar[bool] = True

    stage: str
    out: Location | None = Field(default=None, description="Output directory; `--out` comes first")
    data: Data
    model: Backbone
    writing: Writing = Writing()
    card: Card = Card()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        wrong = self.contradictions()
        if wrong:
            raise ValueError("\n".join(wrong))
        return self

    def contradictions(self) -> list[str]:
        """What is wrong between sections; within one, the section says so."""
        wrong = []
        if (self.run.steps is None) == (self.run.epochs is None):
            wrong.append("run: give one of steps and epochs")
        if (self.writing.min_tokens or 0) > self.data.story_tokens:
            wrong.append(f"writing.min_tokens: {self.writing.min_tokens} is above data.story_tokens")
        return wrong

    @property
    def reads_relations(self) -> bool:
        return False

    @property
    def sources(self) -> list[str]:
        """The checkpoints this stage starts from."""
        return [] if self.model.init is None else [self.model.init]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the manifest and the model card; the output directory is no part of the request."""
        values = self.model_dump(mode="json", exclude={"out"})
        if self.data.tokens is None:
            del values["data"]["tokens"]  # a run without is the request it always was
        for key in ("fsdp", "torch_compile", "attn_implementation"):  # a run without is the request it always was
            if getattr(self.run, key) == Run.model_fields[key].default:
                del values["run"][key]
        if self.optimizer.posterior_rate is None:
            del values["optimizer"]["posterior_rate"]
        return values

    def value(self, key: str) -> Any:
        """The value of a dotted key."""
        return reduce(getattr, key.split("."), self)

    def inputs(self) -> list[Path]:
        """The files a run is made of: its stories, and the weights it starts from where they are at hand."""
        if self.data.tokens is None:
            stories = list(self.splits().values())
        else:
            read_manifest(self.data.tokens, TOKENIZE)
            stories = [self.data.tokens / MANIFEST]
        weights = [locate(source) / name for source in self.sources for name in (WHOLE, TRAINED)]
        return stories + [path for path in weights if path.is_file()]

    def assemble(self, site: Site) -> Stage:
        """The stage of a new run, or of one resumed from the checkpoint `site.last`."""
        text = self.text(site.last)
        torch.manual_seed(self.seed)  # new weights are the seed's
        directory = self.data.tokens
        if directory is None:
            directory = site.directory / TOKENS
            progress = partial(site.progress, "tokenizing")
            site.on_first(lambda: self.tokenize(site.directory / TOKENS, text, inputs=False, progress=progress))
        else:
            check_tokens(directory, token_config(text.tokenizer, text.settings, self.limits), self.splits())
            directory = local_copy(directory) if isinstance(directory, RemotePath) else directory  # to be mapped
        train, valid = (
            open_tokens(directory, split, with_relations=self.reads_relations) for split in ("train", "valid")
        )
        stage = self.build(Corpus(text.tokenizer, text.settings.symbols, train, valid), site)
        stage.notes += self._cuts(train)
        self.keep_lengths(stage)
        set_up_layers(stage.objective, self.run)
        return stage

    def splits(self) -> dict[str, Path]:
        """The files of both splits; with tokens of their own, those that are there."""
        try:
            files = split_files(self.data.corpus)
        except BadRequest:
            if self.data.tokens is not None:
                return {}
            raise
        return {split: path for split, path in files.items() if split != "test"}

    @property
    def limits(self) -> dict[str, int | None]:
        return {"train": self.data.max_train_stories, "valid": self.data.max_valid_stories}

    def text(self, last: Path | None) -> "Text":
        """Tokenizer and settings of a new run, or of one that goes on from the checkpoint `last`."""
        files = self.splits()
        missing = [split for split in self.limits if split not in files]
        if missing and self.data.tokens is None:
            raise BadRequest(f"{self.data.corpus}: no {' and no '.join(missing)} split; training needs both")
        for source in self.sources:
            Checkpoint.open(source)
        tokenizer = self.open_tokenizer(last)
        if last is None and self.model.init is not None:  # a new shape fits its recipe
            problem = source_checkpoint(self.model).lengths.problem(self.data.prompt_tokens, self.data.story_tokens)
            if problem:
                raise BadRequest(f"data.story_tokens and data.prompt_tokens {problem}")
        symbols = story_symbols(self.model, tokenizer, last)
        lengths = (self.data.prompt_tokens, self.data.story_tokens)
        return Text(tokenizer, TokenSettings(symbols, *lengths, self.reads_prompts, self.reads_relations))

    def tokenize(self, out: Path, text: "Text", **more: Any) -> StageFacts:
        """Both splits as tokens in `out`; `more` as of `tokenize_corpus`."""
        return tokenize_corpus(self.splits(), out, text.tokenizer, settings=text.settings, limits=self.limits, **more)

    def _cuts(self, tokens: Tokens) -> list[str]:
        """What share of prompts and stories is longer than what is kept of them."""
        cut = [
            f"`data.{key}` {getattr(self.data, key)} cuts {count / len(tokens):.0%} of the {what}"
            for key, what, count in (
                ("prompt_tokens", "prompts", tokens.cut_prompts),
                ("story_tokens", "stories", tokens.cut_stories),
            )
            if count
        ]
        return [f"{' and '.join(cut)} of the train split"] if cut else []

    def build(self, corpus: Corpus, site: Site) -> Stage:
        """Model, feeds and objective of this stage."""
        raise NotImplementedError

    def staged(self, objective: Objective, train: Feed, valid: Feed, corpus: Corpus, **more: Any) -> Stage:
        """A stage of these parts, with what follows from the recipe."""
        trained = set(objective.backbone_parts) - set(objective.not_trained)
        if self.optimizer.posterior_rate is not None and "posterior" not in trained:
            raise BadRequest("optimizer.posterior_rate: no posterior is trained here; leave it out")
        frozen = objective.freeze()
        batch, total = self.batch, self.total(len(train))
        order = Order(train.sort_keys, batch.stories_per_step, batch.stories_per_micro_batch, self.seed)
        parameters = sum(parameter.numel() for parameter in objective.parameters())

        def describe(target: Path, progress: dict[str, Any]) -> None:
            corpus.tokenizer.save_pretrained(target)
            unit = next(iter(objective.terms.values())).per
            card = model_card(
                self, progress, total=total, unit=unit, parameters=parameters, frozen=frozen, part=objective.part
            )
            (target / "README.md").write_text(card, encoding="utf-8")

        lower = f"optimizer.learning_rate={self.optimizer.learning_rate / 10:g}"
        remedy = f"go on with a lower one: `resume` `change` {lower}"
        if self.run.precision != "float32":
            remedy += ", or in float32: `resume` `change` run.precision=float32"
        return Stage(objective, order, train, valid, total, describe, remedy=remedy, facts={"frozen": frozen}, **more)

    def total(self, stories: int) -> int:
        """Length of the run in steps; of an epoch, whole steps only."""
        return self.run.steps or ceil((self.run.epochs or 0) * (stories // self.batch.stories_per_step))

    def open_tokenizer(self, last: Path | None) -> PreTrainedTokenizerBase:
        return adding_a_space(Checkpoint.open(last or self.model.init).tokenizer())

    def keep_lengths(self, stage: Stage) -> None:
        """Put the lengths of training where a writer looks for them: into `generation_config.json`."""
        lengths: dict[str, int | None] = {"max_new_tokens": self.data.story_tokens, "max_length": None}  # not both
        if self.reads_prompts:
            lengths["prompt_tokens"] = self.data.prompt_tokens
        if self.writing.min_tokens is not None:
            lengths["min_new_tokens"] = self.writing.min_tokens
        for name, value in lengths.items():
            setattr((stage.around or stage.objective.model).generation_config, name, value)


def set_up_layers(objective: Objective, run: Run) -> None:
    """Transformer layers of all parts as `run` wants them computed; what they compute stays."""
    if run.gradient_checkpointing:
        objective.model.gradient_checkpointing_enable()
    for module in objective.modules():
        if isinstance(module, PreTrainedModel) and run.attn_implementation != "sdpa":
            module.set_attn_implementation(run.attn_implementation)
    if run.torch_compile:
        try:
            torch.compile(torch.neg)(torch.ones(1))
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise BadRequest(f"run.torch_compile: PyTorch cannot compile on this machine ({reason})") from None
        for module in objective.modules():
            if isinstance(module, GradientCheckpointingLayer):  # what transformers calls a layer
                module.compile(dynamic=True)


class FromScratch(Recipe):
    """A stage that may start from random weights, with a tokenizer of its own."""

    tokenizer: Tokenizer = Tokenizer()
    model: NewBackbone = NewBackbone()

    def contradictions(self) -> list[str]:
        wrong, shape = super().contradictions(), self.model.shape
        if (self.model.init is None) == (shape is None):
            wrong.append("model: give one of init (a checkpoint) and shape (from scratch)")
        if self.model.random_init and self.model.init is None:
            wrong.append("model.random_init: of which shape? Give model.init, or model.shape alone")
        if self.model.init is not None and self.tokenizer.model_fields_set:
            wrong.append("tokenizer: model.init brings its own; leave the section out")
        if shape is not None:
            if (self.tokenizer.source is None) == (self.tokenizer.vocab_size is None):
                wrong.append("tokenizer: a model from scratch needs one of source and vocab_size")
            longest = max(self.data.story_tokens, self.data.prompt_tokens + 2)
            if longest > shape.positions:
                wrong.append(f"model.shape.positions: {shape.positions} is too few for {longest} tokens")
        return wrong

    def open_tokenizer(self, last: Path | None) -> PreTrainedTokenizerBase:
        if last is not None or self.model.init is not None:
            return super().open_tokenizer(last)
        if self.data.tokens is not None:
            return adding_a_space(open_tokenizer(str(self.data.tokens / TOKENIZER)))
        if self.tokenizer.source is not None:
            found = adding_a_space(open_tokenizer(self.tokenizer.source))
            needed = ("bos", "eos", "pad", "mask") if self.stage == "pretrain" else ("bos", "eos", "pad")
            missing = [f"{name} token" for name in needed if getattr(found, f"{name}_token_id") is None]
            if missing:
                raise BadRequest(f"tokenizer.source: {self.tokenizer.source} has no {missing[0]}; give one like BART's")
            return found
        texts = (text for row in read_examples(self.splits()["train"]) for text in (row.prompt, row.story) if text)
        return train_tokenizer(texts, self.tokenizer.vocab_size or 0)
