"""`evaluate`: the scores of a set of stories against references, each with interval, count, signature and direction.

Paper mode gives the ten scores of the paper's table as it defines them. Modern mode gives sacrebleu's corpus BLEU both
ways, MS-Jaccard, length-corrected distinct, repetition, lengths, the finish rate where known, and MAUVE when asked for.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from discodvt import __version__
from discodvt.errors import BadRequest
from discodvt.evaluation.intervals import Resampler, interval, make_resampler, replicate
from discodvt.evaluation.metric import Direction, Floats, MeanOverSeeds, Metric, Unit, over_seeds
from discodvt.evaluation.metrics.bleu import bleu
from discodvt.evaluation.metrics.distinct import distinct, length_corrected_distinct
from discodvt.evaluation.metrics.jaccard import jaccard
from discodvt.evaluation.metrics.ngrams import count_ngrams
from discodvt.evaluation.metrics.repetition import LookBack, finish_rate, lengths, repetition
from discodvt.evaluation.metrics.word_tokens import Text, WordTokens, intern, read_texts
from discodvt.executors import Executor

Mode: TypeAlias = Literal["paper", "modern"]
RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Score:
    """One score; `low` and `high` are None where no interval can be given, `too_few` says what it has too little of."""

    name: str
    value: float
    low: float | None
    high: float | None
    n: int
    signature: str
    direction: Direction
    unit: Unit = "fraction"
    too_few: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `too_few` only where there is something to say."""
        return {name: value for name, value in asdict(self).items() if name != "too_few" or value}


@dataclass(frozen=True, slots=True)
class System:
    """One system's stories as given, as arrays, and what is known of each."""

    texts: Sequence[Text]
    tokens: WordTokens
    finishes: Sequence[str] | None = None


class ScoreSettings(TypedDict, total=False):
    """What `evaluate` and `compare` may be asked for; the defaults are those of `evaluate_seeds`."""

    mode: Mode
    prompts: Sequence[str] | None  # stories of one prompt are resampled together
    look_back: LookBack
    mauve_model: str | None
    resamples: int  # 0: no intervals
    seed: int


def evaluate(
    hypotheses: Sequence[Text],
    references: Sequence[Text],
    *,
    finishes: Sequence[str] | None = None,
    **settings: Unpack[ScoreSettings],
) -> dict[str, Score]:
    """Score stories against their references, one each: texts, or lists of tokens taken as they are."""
    return evaluate_seeds([hypotheses], references, finishes=[finishes], **settings)


def evaluate_seeds(
    trainings: Sequence[Sequence[Text]],
    references: Sequence[Text],
    *,
    mode: Mode = "paper",
    prompts: Sequence[str] | None = None,
    finishes: Sequence[Sequence[str] | None],
    look_back: LookBack = "paper",
    mauve_model: str | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    executor: Executor | None = None,
) -> dict[str, Score]:
    """Score the stories of each training of a system against the same references: means over the trainings, with
    intervals over prompts and trainings."""
    systems, reference = read_systems(trainings, references, finishes=finishes, prompts=prompts, executor=executor)
    resampler = make_resampler(len(references), prompts, resamples=resamples, seed=seed)
    settings: dict[str, Any] = {"mode": mode, "look_back": look_back, "mauve_model": mauve_model, "seed": seed}
    scores: dict[str, Score] = {}
    for metric in metrics_over_seeds(systems, reference, **settings):
        scores |= score(metric, resampler, replicate(metric, resampler))
    return scores


def metrics_over_seeds(
    systems: Sequence[System],
    reference: System,
    *,
    alongside: Sequence[WordTokens] = (),
    stream: int = 0,
    **settings: Any,
) -> list[Metric]:
    """The metric families of a system's trainings; `settings` are those of `metrics_of`."""
    each = [
        metrics_of(
            system, reference, alongside=[*(s.tokens for s in systems if s is not system), *alongside], **settings
        )
        for system in systems
    ]
    return [over_seeds(list(members), stream) for members in zip(*each, strict=True)]


def read_systems(
    systems: Sequence[Sequence[Text]],
    references: Sequence[Text],
    *,
    finishes: Sequence[Sequence[str] | None],
    prompts: Sequence[str] | None,
    executor: Executor | None = None,
) -> tuple[list[System], System]:
    """Check that everything is there once for each story, and intern all tokens together."""
    lists = [("stories", each) for each in systems] + [("references", references), ("prompts", prompts)]
    lists += [("finishes", each) for each in finishes]
    sizes = [(len(each), what) for what, each in lists if each is not None]
    if len({size for size, _ in sizes}) > 1:
        found = ", ".join(f"{size} {what}" for size, what in sizes)
        raise BadRequest(f"found {found}; give one of each for every story")
    groups = [read_texts(texts, called="stories", executor=executor) for texts in systems]
    groups.append(read_texts(references, called="references", executor=executor))
    kinds = {isinstance(texts[0], str) for texts in (*systems, references)}
    if len(kinds) > 1:
        raise BadRequest("stories and references: one is texts, the other token lists; give the same kind")
    *interned, reference = intern(*groups, tokenizer="nltk" if kinds == {True} else "given")
    together = zip(systems, interned, finishes, strict=True)
    return [System(*each) for each in together], System(references, reference)


def metrics_of(
    system: System,
    reference: System,
    *,
    mode: Mode,
    look_back: LookBack = "paper",
    mauve_model: str | None = None,
    alongside: Sequence[WordTokens] = (),
    seed: int = 0,
) -> list[Metric]:
    """The metric families of a mode, their statistics counted; `alongside` are further systems to be compared with."""
    ours, theirs = system.tokens, reference.tokens
    grams = count_ngrams([ours, theirs], (1, 2, 3))
    overlap, repeats = jaccard(grams, ours.tokenizer), repetition(ours, look_back=look_back)
    if mode == "paper":
        return [bleu(ours, theirs, grams), overlap, distinct(ours, theirs), repeats]
    if mode != "modern":
        raise BadRequest(f"mode: found {mode!r}, expected paper or modern")
    from discodvt.evaluation.metrics.bleu import corpus_bleu  # sacrebleu is only for this mode

    found: list[Metric] = [corpus_bleu(system.texts, reference.texts), overlap]
    found += [length_corrected_distinct(ours, alongside=(theirs, *alongside)), repeats, lengths(ours, theirs)]
    if system.finishes is not None:
        found.append(finish_rate(system.finishes))
    if mauve_model is not None:
        from discodvt.evaluation.metrics.mauve import mauve

        found.append(mauve(system.texts, reference.texts, model=mauve_model, seed=seed))
    return found


def score(metric: Metric, resampler: Resampler, replicates: Floats | None) -> dict[str, Score]:
    """A family's scores by name, with intervals where there are replicates."""
    values = metric.values
    low: Sequence[float | None] = [None] * len(values)
    high = low
    if replicates is not None:
        ends = interval(values, replicates, metric.resampling, resampler)
        limits = (0.0, 1.0) if metric.unit == "fraction" else (0.0, None)
        low, high = (end.clip(*limits).tolist() for end in ends)
    n = len(resampler.unit)
    drawn = f"seeds:{len(metric.members)}|" if isinstance(metric, MeanOverSeeds) else ""
    suffix = f"n:{n}|{drawn}{resampler.signature(metric.resampling)}|discodvt:{__version__}"
    rows = zip(metric.names, metric.definitions, values.tolist(), low, high, strict=True)
    few = metric.too_few
    return {
        name: Score(name, value, below, above, n, f"{said}|{suffix}", metric.direction, metric.unit, few.get(name))
        for name, said, value, below, above in rows
    }
