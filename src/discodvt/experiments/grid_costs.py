"""What a plan will cost: seconds and bytes of each step, from timed steps of models of the same shape on this machine.

A training is timed as updates of its backbone on random tokens, few and many, and what its stage adds to that as a
factor (`STAGE_FACTORS`); stories to be written as updates of one token. What does not depend on a model
(reading, annotating, scoring) is counted from the texts, at a rate that a short piece of work calibrates. The wall time
is that of the steps put to work in order, as many at a time as asked for. Steps that are done cost nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from discodvt.checkpoints import Checkpoint
from discodvt.config import BackboneShape
from discodvt.errors import BadRequest
from discodvt.experiments.grid_plan import Plan, Step
from discodvt.training.assembly import Recipe

STAGE_FACTORS = {  # time of a step, and size of the model, over those of a plain seq2seq of the same shape
    "pretrain": (1.3, 1.0),
    "seq2seq": (1.0, 1.0),
    "warm-start": (1.9, 1.5),
    "reconstruct": (2.0, 1.5),
    "codes": (0.8, 1.5),
    "prior": (0.8, 2.4),
    "language-model": (0.9, 1.0),
    "cvae": (2.3, 1.5),
    "plot-writer": (1.0, 1.0),
    "scorer": (0.7, 0.6),
}
VALIDATION_SHARE = 0.4  # of a story's training step: no backward pass
STARTUP = 1.0  # seconds: libraries are loaded already, models and tokenizers not
# Seconds of steps that train nothing, from a run of recipes/tiny/grid.toml.
FIXED = {"prepare": 0.4, "prompts": 0.3, "annotate": 1.0, "classifier": 1.0, "evaluate": 0.5, "compare": 0.6,
         "discourse": 1.2, "study": 0.5, "measure": 8.0, "make": 2.0}  # fmt: skip
PER_WORD = {"prepare": 2e-6, "annotate": 5e-5, "classifier": 5e-5, "make": 5e-5}
PER_STORY = {"evaluate": 0.002, "compare": 0.006, "discourse": 0.005, "study": 0.005, "measure": 0.03}
REFERENCE_SECONDS = 0.031  # of `_calibrate` on the machine the constants above are from


class Shape(NamedTuple):
    """A language model, its vocabulary included."""

    width: int
    layers: int
    heads: int
    ffn_width: int
    vocabulary: int
    positions: int
    causal: bool = False


@dataclass(frozen=True)
class Estimate:
    """Seconds and bytes of each step; the wall time of all that is left."""

    jobs: int
    seconds: dict[Step, float]
    bytes: dict[Step, float]
    wall: float

    @property
    def total_bytes(self) -> float:
        return sum(self.bytes.values())

    def as_dict(self, plan: Plan) -> dict[str, Any]:
        steps = [
            {
                "step": step.name,
                "output": str(step.output),
                "command": ["discodvt", *step.command],
                "done": step.done,
                "seconds": round(self.seconds[step], 1),
                "bytes": round(self.bytes[step]),
            }
            for step in plan.steps
        ]
        return {"jobs": self.jobs, "seconds": round(self.wall, 1), "bytes": round(self.total_bytes), "steps": steps}


def estimate(plan: Plan, *, jobs: int) -> Estimate:
    """The cost of what is left of a plan."""
    costs = _Costs(plan)
    left = {step: (0.0, 0.0) if step.done else costs.of(step) for step in plan.steps}
    seconds = {step: cost[0] for step, cost in left.items()}
    return Estimate(jobs, seconds, {step: cost[1] for step, cost in left.items()}, _wall(plan, seconds, jobs))


def _wall(plan: Plan, seconds: dict[Step, float], jobs: int) -> float:
    """When the last step ends, if each begins as soon as its inputs are there and a place is free."""
    ends: dict[Path, float] = {}
    places = [0.0] * jobs
    for step in plan.steps:
        ready = max((ends.get(before.output, 0.0) for before in step.after), default=0.0)
        if seconds[step] == 0:
            ends[step.output] = ready
            continue
        place = min(range(jobs), key=lambda number: places[number])
        places[place] = ends[step.output] = max(ready, places[place]) + seconds[step]
    return max(ends.values(), default=0.0)


@dataclass
class _Costs:
    plan: Plan
    timed: dict[Shape, tuple[float, float]] = field(default_factory=dict)  # seconds of an update, and of a token of it

    def of(self, step: Step) -> tuple[float, float]:
        """Seconds and bytes."""
        if step.kind == "train" and step.recipe is not None:
            return self._training(step, step.recipe)
        if step.kind == "generate":
            return self._writing(step)
        words, stories = self._corpus_words(step), self._prompts(step)
        seconds = FIXED.get(step.kind, STARTUP) + PER_WORD.get(step.kind, 0.0) * words
        seconds += PER_STORY.get(step.kind, 0.0) * stories
        size = 3.0 * words if step.kind in ("prepare", "annotate", "make") else 3e5
        return seconds * self.speed, size

    @cached_property
    def speed(self) -> float:
        """How much longer this machine takes than the one of the constants."""
        return max(0.5, _calibrate() / REFERENCE_SECONDS)

    def _training(self, step: Step, recipe: Recipe) -> tuple[float, float]:
        shape = self._shape(step)
        stories = self._stories(step)
        total = recipe.total(min(stories, recipe.data.max_train_stories or stories))
        batch, length = recipe.batch.stories_per_micro_batch, self._length(step, recipe)
        faster, larger = STAGE_FACTORS.get(recipe.stage, (1.0, 1.0))
        if recipe.stage == "prior":
            length = max(4, length // 8)
        update = faster * self._timed(shape, batch, length)
        micro_batches = recipe.batch.stories_per_step // batch
        valid = min(recipe.data.max_valid_stories or 1000, max(1, stories // 18))
        validations = total // recipe.validation.every_steps + 2
        seconds = STARTUP * self.speed + total * micro_batches * update
        seconds += validations * (valid / batch) * update * VALIDATION_SHARE
        if recipe.validation.select_by == "bleu-1":
            seconds += validations * self._decoding(shape, recipe.validation.bleu_stories, length)
        parameters = larger * _parameters(shape)
        seconds += (validations + total // recipe.run.save_every_steps) * parameters * 16 / 5e8  # of files
        return seconds, 4 * parameters

    def _writing(self, step: Step) -> tuple[float, float]:
        trained = next(before for before in step.after if before.kind in ("train", "make"))
        recipe = next((each.recipe for each in _chain(trained) if each.recipe is not None), None)
        prompts = self._prompts(step)
        if recipe is None:
            return STARTUP * self.speed, 0.0
        length = self._length(trained, recipe)
        seconds = -(-prompts // 32) * self._decoding(self._shape(trained), 32, length)
        return STARTUP * self.speed + seconds, prompts * length * 6.0

    def _decoding(self, shape: Shape, rows: int, length: int) -> float:
        """Stories side by side, a token at a time."""
        return length * self._timed(shape, rows, 1) / 4  # forward only, and without the language model's own overhead

    def _timed(self, shape: Shape, batch: int, length: int) -> float:
        if shape not in self.timed:
            self.timed[shape] = _time_updates(shape)
        update, token = self.timed[shape]
        return update + token * batch * length

    def _shape(self, step: Step) -> Shape:
        """The backbone of a chain: of the recipe it begins with, or of the checkpoint that recipe starts from."""
        for each in _chain(step):
            shape = getattr(each.recipe.model, "shape", None) if each.recipe is not None else None
            if each.recipe is not None and shape is not None:
                tokenizer = getattr(each.recipe, "tokenizer", None)
                return _shape_of(shape, getattr(tokenizer, "vocab_size", None) or 50265)
            init = each.recipe.model.init if each.recipe is not None else None
            if init is not None and not any(str(before.output) == init for before in each.after):
                return _checkpoint_shape(init)
        return Shape(768, 6, 12, 3072, 50265, 1024)

    def _length(self, step: Step, recipe: Recipe) -> int:
        """Tokens of a story as trained: those of the corpus, where it can be read already."""
        corpus = _corpus_of(step)
        words = _source_words(corpus, self.plan)
        mean = recipe.data.story_tokens if words is None else round(1.6 * words[0] / max(1, words[1]))
        return max(8, min(mean, recipe.data.story_tokens))

    def _stories(self, step: Step) -> int:
        words = _source_words(_corpus_of(step), self.plan)
        return 10_000 if words is None else round(0.9 * words[1])

    def _corpus_words(self, step: Step) -> int:
        words = _source_words(_corpus_of(step) or step, self.plan)
        return 1_000_000 if words is None else words[0]

    def _prompts(self, step: Step) -> int:
        corpus = step.output.parent.name
        settings = self.plan.grid.corpora.get(corpus)
        words = _source_words(_corpus_of(step), self.plan)
        return min(settings.prompts if settings else 1000, 10**9 if words is None else max(2, words[1] // 15))


def _chain(step: Step) -> list[Step]:
    """A training and those before it, through what each starts from."""
    found = [step]
    while True:
        recipe = found[-1].recipe
        init = None if recipe is None else recipe.model.init
        trainings = [each for each in found[-1].after if each.kind == "train"]
        before = next((each for each in trainings if init is None or str(each.output) == init), None)
        if before is None:
            return found
        found.append(before)


def _corpus_of(step: Step) -> Step | None:
    """The prepared corpus a step reads, or the given one."""
    if step.kind in ("prepare", "given"):
        return step
    return next((found for before in step.after if (found := _corpus_of(before)) is not None), None)


_counted: dict[Path, tuple[int, int]] = {}


def _source_words(step: Step | None, plan: Plan) -> tuple[int, int] | None:
    """Words and stories of a corpus: from its files, or from the raw file it is made of; None where neither tells."""
    if step is None:
        return None
    if step.output not in _counted:
        found = _from_parquet(step.output) if step.done else _from_lines(step)
        if found is None:
            return None
        _counted[step.output] = found
    return _counted[step.output]


def _from_parquet(directory: Path) -> tuple[int, int] | None:
    import pyarrow.parquet as pq

    files = sorted(directory.glob("*.parquet"))
    if not files:
        return None
    rows = sum(pq.ParquetFile(path).metadata.num_rows for path in files)
    sample = pq.ParquetFile(files[0])
    block = next(sample.iter_batches(batch_size=200, columns=["story"]), None)
    texts = [] if block is None else block.column("story").to_pylist()
    words = sum(len(text.split()) for text in texts) / max(1, len(texts))
    return round(words * rows), rows


def _from_lines(step: Step) -> tuple[int, int] | None:
    """Lines of raw files, a story each, gzipped or not."""
    import gzip

    files = [Path(word) for word in step.command if Path(word).is_file()]
    words = stories = 0
    for path in files:
        with (
            gzip.open(path, "rt", encoding="utf-8", errors="replace")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8", errors="replace") as lines
        ):
            for line in lines:
                words += len(line.split())
                stories += 1
    return (words, stories) if stories else None


def _shape_of(shape: BackboneShape, vocabulary: int) -> Shape:
    layers = (shape.encoder_layers + shape.decoder_layers) // 2
    return Shape(shape.width, max(1, layers), shape.heads, shape.ffn_width, vocabulary, shape.positions)


def _checkpoint_shape(source: str) -> Shape:
    try:
        config = Checkpoint.open(source).backbone
    except BadRequest:
        return Shape(768, 6, 12, 3072, 50265, 1024)
    width = int(config.get("d_model") or config.get("hidden_size") or config.get("n_embd") or 768)
    layers = int(config.get("decoder_layers") or config.get("num_hidden_layers") or config.get("n_layer") or 6)
    heads = int(
        config.get("decoder_attention_heads") or config.get("num_attention_heads") or config.get("n_head") or 12
    )
    ffn = int(config.get("decoder_ffn_dim") or config.get("intermediate_size") or 4 * width)
    causal = "decoder_layers" not in config
    return Shape(width, layers, heads, ffn, int(config.get("vocab_size", 50265)), 1024, causal)


def _model(shape: Shape) -> Any:
    from transformers import BartConfig, BartForConditionalGeneration, LlamaConfig

    from discodvt.model.backbones import new_backbone

    if shape.causal:
        return new_backbone(
            LlamaConfig(
                vocab_size=shape.vocabulary, hidden_size=shape.width, num_hidden_layers=shape.layers,
                num_attention_heads=shape.heads, intermediate_size=shape.ffn_width,
                max_position_embeddings=shape.positions, tie_word_embeddings=True,
            )
        ).new_generator()  # fmt: skip
    return BartForConditionalGeneration(
        BartConfig(
            vocab_size=shape.vocabulary, d_model=shape.width, encoder_layers=shape.layers,
            decoder_layers=shape.layers, encoder_attention_heads=shape.heads, decoder_attention_heads=shape.heads,
            encoder_ffn_dim=shape.ffn_width, decoder_ffn_dim=shape.ffn_width,
            max_position_embeddings=max(16, shape.positions),
        )
    )  # fmt: skip


def _parameters(shape: Shape) -> int:
    import torch

    with torch.device("meta"):
        return sum(parameter.numel() for parameter in _model(shape).parameters())


def _time_updates(shape: Shape) -> tuple[float, float]:
    """Seconds of an update, whatever its size, and of each token in it: from a small one and a larger one."""
    import torch

    model = _model(shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def seconds(ids: torch.Tensor) -> float:
        prompts = {} if shape.causal else {"decoder_input_ids": ids}

        def update() -> None:
            model(input_ids=ids if shape.causal else ids[:, :16], **prompts, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return _fastest(update, times=3)

    length = min(64, shape.positions)
    small, large = (torch.randint(4, shape.vocabulary, size) for size in ((1, 8), (8, length)))
    seconds(small)  # the first is slower
    few, many = seconds(small), seconds(large)
    token = max(0.0, many - few) / (large.numel() - small.numel())
    return max(0.0, few - token * small.numel()), token


def _calibrate() -> float:
    """Seconds of a fixed piece of work in Python."""
    words = " ".join(f"word{number % 977}" for number in range(20_000))

    def work() -> None:
        counts: dict[str, int] = {}
        for word in words.split():
            counts[word.upper()] = counts.get(word.upper(), 0) + 1
        sorted(counts.items(), key=lambda each: (-each[1], each[0]))

    return _fastest(work, times=3) * 10


def _fastest(work: Callable[[], None], *, times: int) -> float:
    best = float("inf")
    for _ in range(times):
        started = time.thread_time()  # as on an idle machine, whatever else is at work
        work()
        best = min(best, time.thread_time() - started)
    return best
