"""Bench of writing: the writer against other engines on the same weights, int8, start-up, determinism.

Hugging Face `generate` for the writer, a random BART-base and two random Llamas (7.5M parameters, and the shape of
SmolLM2-135M); CTranslate2, where it is installed, for plain models (`bench.rivals`). Both sides take prompts and plans,
give texts, draw from the nucleus of 0.9, and have one thread, whose CPU time is measured. Their draws differ, so
lengths are forced on both: one length, but at batch 32 against Hugging Face a list of lengths, those at which the
model's own stories end (for a random model, a spread like that of short stories). Weights are half-precision numbers,
as those that ship: the writer reads them in 16 bits, the others hold them in float32. Rows named float32 have weights
that are no halves, of which all sides read as many bytes. The writer's steps are compiled where Numba is installed and
the model is small; notes say so. Time is measured and limited as CPU time, so that a busy machine leaves out no row.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch

from discodvt.bench.random_writers import BASE, LLAMA, NANO, PROMPTS, SMOL, random_writer
from discodvt.bench.rivals import STORY_TOKENS, ctranslate2_work, hugging_face, ours
from discodvt.bench.rows import BenchRow, interleave, ratio_row, unmeasured_row
from discodvt.checkpoints import STORYTELLER
from discodvt.data.subwords import as_input
from discodvt.errors import WorkFailed
from discodvt.writing import Request, SamplingParams, Story, StoryWriter

BASE_TOKENS, STORIES, WARM_UP = 16, 24, 4
ROWS = 14  # that take long: each gets such a share of the time
FLOAT32 = "random-llama-7.5m-float32"
Works = list[Callable[[], object]]


class Measured(NamedTuple):
    numerator: Sequence[float]
    denominator: Sequence[float]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A row to be measured."""

    name: str
    measure: Callable[[], Measured]
    at_most: float | None = None
    at_least: float | None = None

    def row(self, why_not: str = "") -> BenchRow:
        if why_not:
            return unmeasured_row(self.name, why_not, at_most=self.at_most, at_least=self.at_least)
        try:
            numerator, denominator, note = self.measure()
        except ModuleNotFoundError as error:
            return self.row(f"{error.name} is not installed (extra dev)")
        return ratio_row(self.name, numerator, denominator, at_most=self.at_most, at_least=self.at_least, note=note)


def bench_generate(
    model: str | None = None, *, rounds: int = 3, scale: float = 1.0, minutes: float = 6.0
) -> Iterator[BenchRow]:
    """The rows as they are measured, for a writer's directory or the storyteller that ships; none is begun too late."""
    ends, why_not = time.process_time() + 60 * minutes, ""
    with TemporaryDirectory() as scratch, _threads(1):
        bench = WritingBench(model, Path(scratch), rounds=rounds, scale=scale, seconds=60 * minutes / ROWS)
        for promise in bench.promises():
            if time.process_time() > ends:
                why_not = f"the {minutes:g} minutes (--minutes) were over"
            yield promise.row(why_not)


class WritingBench:
    """The promises, and the writers they are measured with, of which one is kept at a time."""

    def __init__(self, model: str | None, scratch: Path, *, rounds: int, scale: float, seconds: float) -> None:
        """`seconds` of CPU time, after which a row begins no further round."""
        self._scratch, self._rounds, self._scale, self._seconds = scratch, rounds, scale, seconds
        self._own = Path(model) if model else STORYTELLER
        if not model and not self._own.exists():
            self._own = random_writer(scratch / "random-nano", NANO, planned=True)
        self._writer = lru_cache(maxsize=1)(self._open)

    def promises(self) -> list[Promise]:
        own, llama, nano, smol, base = (
            self._own.name, "random-llama-7.5m", "random-bart-nano", "random-llama-135m", "random-bart-base"
        )  # fmt: skip
        tokens, few = (max(4, round(count * self._scale)) for count in (STORY_TOKENS, BASE_TOKENS))
        return [
            self._hugging_face(llama, 1, tokens, at_least=3),
            self._hugging_face(llama, 32, None, at_least=3),
            self._hugging_face(llama, 32, tokens // 2),
            self._ctranslate2(llama, 1, tokens, at_most=1.0),
            self._ctranslate2(llama, 32, tokens, at_most=0.5),
            self._ctranslate2(FLOAT32, 1, tokens, at_most=1.0),
            self._ctranslate2(FLOAT32, 32, tokens, at_most=0.5),
            self._ctranslate2(nano, 1, tokens, at_most=1.0),
            self._ctranslate2(nano, 32, tokens, at_most=0.5),
            self._hugging_face(smol, 8, few, at_least=1.2),
            self._hugging_face(base, 8, few, at_least=1.5),
            self._int8(base, 8, few),
            self._hugging_face(own, 1, tokens, at_least=2.5),
            self._hugging_face(own, 32, None, at_least=3),
            self._int8(own, 1, tokens),
            Promise(name="stories that differ / stories", measure=self._differing_stories, at_most=0.001),
            Promise(name="discodvt generate / imports", measure=self._start_up, at_most=2),
        ]

    def _hugging_face(self, name: str, batch: int, tokens: int | None, *, at_least: float | None = None) -> Promise:
        """Stories of one length, or of their own lengths: theirs wait for the longest, ours go on with fewer."""

        def measure() -> Measured:
            writer = self._writer(name)
            lengths = self._own_lengths(writer, batch) if tokens is None else [tokens] * batch
            theirs, mine = self._timed([partial(work, writer, rows=batch) for work in (hugging_face, ours)], lengths)
            return Measured(theirs, mine, _speed(lengths, mine, writer))

        lengths = ", own lengths" if tokens is None else ""
        title = f"Hugging Face / writer, {name}, batch {batch}{lengths}"
        return Promise(name=title, measure=measure, at_least=at_least)

    def _ctranslate2(self, name: str, batch: int, tokens: int, *, at_most: float) -> Promise:
        """Stories of one length against CTranslate2 in float32."""

        def measure() -> Measured:
            writer = self._writer(name)
            theirs = ctranslate2_work(writer, self._scratch / f"ctranslate2-{name}")
            mine, other = self._timed([partial(ours, writer, rows=batch), theirs], [tokens] * batch)
            return Measured(mine, other, _speed([tokens] * batch, mine, writer))

        return Promise(name=f"writer / CTranslate2, {name}, batch {batch}", measure=measure, at_most=at_most)

    def _int8(self, name: str, batch: int, tokens: int) -> Promise:
        def measure() -> Measured:
            writer = self._writer(name)
            quantised = StoryWriter.from_pretrained(writer.directory, int8=True, device="cpu")
            exact, small = self._timed(
                [partial(ours, each, rows=batch) for each in (writer, quantised)], [tokens] * batch
            )
            return Measured(exact, small, _speed([tokens] * batch, small, quantised))

        return Promise(name=f"float32 / int8, {name}, batch {batch}", measure=measure)

    def _start_up(self) -> Measured:
        """`discodvt generate` from its start to the end of a story, against importing torch and transformers."""
        program = [sys.executable, "-m", "discodvt", "generate", PROMPTS[0], "--model", str(self._own), "--json"]
        works = [partial(_succeed, program), partial(_succeed, [sys.executable, "-c", "import torch, transformers"])]
        interleave(works, 1)
        whole, imports = interleave(works, self._rounds, seconds=self._seconds)
        return Measured(whole, imports, "a whole story, not its first words")

    def _differing_stories(self) -> Measured:
        """The share of stories that differ over batch sizes, threads, streamed or not, steps compiled or not yet."""
        writer = StoryWriter.from_pretrained(self._own)  # goes over to compiled steps on the way
        stories = max(4, round(STORIES * self._scale))
        longest = writer.lengths.max_tokens
        params = SamplingParams(max_tokens=max(8, min(longest, round(longest * self._scale))))
        requests = [Request(PROMPTS[n % len(PROMPTS)], index=n) for n in range(stories)]
        written = [_in_order(writer, requests, params, size) for size in (1, 7, 32)]
        written += [[_streamed(writer, request, params) for request in requests]]
        with _threads(2):
            written += [_in_order(writer, requests, params, size) for size in (7, 32)]
        expected, *others = written
        different, compared = sum(_differing(each, expected) for each in others), len(others) * stories
        note = f"{different} of {compared:,} differ from batch 1: batch 7, 32 and streamed; 7, 32 with two threads"
        return Measured([different], [compared], note)

    def _open(self, name: str) -> StoryWriter:
        shapes = {
            "random-llama-7.5m": LLAMA,
            FLOAT32: LLAMA,
            "random-bart-nano": NANO,
            "random-llama-135m": SMOL,
            "random-bart-base": BASE,
        }
        directory = self._own
        if name != self._own.name:
            directory = random_writer(self._scratch / name, shapes[name], planned=False, half=name != FLOAT32)
        writer = StoryWriter.from_pretrained(directory)
        writer.compile()
        return writer

    def _own_lengths(self, writer: StoryWriter, stories: int) -> list[int]:
        """The lengths at which its stories end."""
        longest = writer.lengths.max_tokens
        if writer.name.startswith("random"):
            drawn = np.random.default_rng(0).lognormal(5.1, 0.35, stories) * self._scale
            lengths: list[int] = np.clip(drawn, 4, longest).astype(int).tolist()
            return lengths
        requests = [Request(PROMPTS[n % len(PROMPTS)], index=n) for n in range(stories)]
        written = sorted(writer.write_many(requests), key=lambda story: story.index)
        ends = (len(writer.tokenizer(as_input(story.text)).input_ids) - 1 for story in written)
        return [max(4, min(longest, round(end * self._scale))) for end in ends]

    def _timed(self, works: Sequence[Callable[[list[int]], object]], lengths: list[int]) -> list[list[float]]:
        """CPU seconds of each work on stories of these lengths."""
        for work in works:
            work([WARM_UP] * len(lengths))
        whole: Works = [partial(work, lengths) for work in works]
        return interleave(whole, self._rounds, seconds=self._seconds, clock=time.process_time)


def _in_order(writer: StoryWriter, requests: Sequence[Request], params: SamplingParams, size: int) -> list[Story]:
    return sorted(writer.write_many(requests, params, batch_size=size), key=lambda story: story.index)


def _streamed(writer: StoryWriter, request: Request, params: SamplingParams) -> Story:
    stream = writer.stream(request, params)
    text = "".join(stream)
    if text != stream.story.text:
        raise WorkFailed("the pieces of a streamed story do not join to its text")
    return stream.story


def _differing(stories: Sequence[Story], expected: Sequence[Story]) -> int:
    return sum(one != other for one, other in zip(stories, expected, strict=True))


def _speed(lengths: Sequence[int], seconds: Sequence[float], writer: StoryWriter) -> str:
    spread = f"{min(lengths)} to {max(lengths)}" if len(set(lengths)) > 1 else f"{lengths[0]}"
    steps = ", compiled steps" if writer.compile() else ""
    return f"{sum(lengths) / min(seconds):,.0f} subwords/s, stories of {spread}{steps}"


def _succeed(command: Sequence[str]) -> None:
    done = run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WorkFailed(f"{' '.join(command)}: failed: {done.stderr.strip()[-200:]}")


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
