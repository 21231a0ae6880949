"""What a plan will cost: seconds and bytes of each step, from timed steps of models of the same shape on this machine.

A training is timed as updates of its backbone on random tokens, few and many, and what its stage adds to that as a
factor (`STAGE_FACTORS`); stories to be written as updates of one token. What does not depend on a model
(reading, annotating, scoring) is counted from the texts, at a rate that a short piece of work calibrates. The wall time
is that of the steps put to work in order, as many at a time as asked for. Steps that are done cost nothing.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from discodvt.corpus import read_examples
from discodvt.corpus.records import row_count
from discodvt.experiments.grid_steps import Plan, Step
from discodvt.experiments.grid_timing import Shape, calibrate, checkpoint_shape, parameters, shape_of, time_updates
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
REFERENCE_SECONDS = 0.031  # of `calibrate` on the machine the constants above are from


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
        return max(0.5, calibrate() / REFERENCE_SECONDS)

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
        weights = larger * parameters(shape)
        seconds += (validations + total // recipe.run.save_every_steps) * weights * 16 / 5e8  # of files
        return seconds, 4 * weights

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
            self.timed[shape] = time_updates(shape)
        update, token = self.timed[shape]
        return update + token * batch * length

    def _shape(self, step: Step) -> Shape:
        """The backbone of a chain: of the recipe it begins with, or of the checkpoint that recipe starts from."""
        for each in _chain(step):
            shape = getattr(each.recipe.model, "shape", None) if each.recipe is not None else None
            if each.recipe is not None and shape is not None:
                tokenizer = getattr(each.recipe, "tokenizer", None)
                return shape_of(shape, getattr(tokenizer, "vocab_size", None) or 50265)
            init = each.recipe.model.init if each.recipe is not None else None
            if init is not None and not any(str(before.output) == init for before in each.after):
                return checkpoint_shape(init)
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
        words = _named_words(step) or _source_words(_corpus_of(step) or step, self.plan)
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


def _named_words(step: Step) -> tuple[int, int] | None:
    """Words and stories of a corpus that a command names itself, which need not be the cell's."""
    named = (Path(word) for word in step.command)
    return next((_from_parquet(path) for path in named if (path / "train.parquet").is_file()), None)


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
    files = sorted(directory.glob("*.parquet"))
    if not files:
        return None
    rows = sum(map(row_count, files))
    words = [len(example.story.split()) for example in read_examples(files[0], take=200)]
    return round(sum(words) / max(1, len(words)) * rows), rows


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
