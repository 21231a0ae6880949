"""Bench of writing: the writer against other engines on the same weights, int8, start-up, determinism.

Hugging Face `generate` for the writer, a random BART-base and two random Llamas (7.5M parameters, and the shape of
SmolLM2-135M); CTranslate2, where it is installed, for plain models (`bench.rivals`). Both sides take prompts and plans,
give texts, draw from the nucleus of 0.9, and have the same number of threads. Their draws differ, so lengths are forced
on both: one length, but at batch 32 against Hugging Face a list of lengths, those at which the model's own stories end
(for a random model, a spread like that of short stories).
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory

import numpy as np
import torch

from discodvt.bench.random_writers import BASE, LLAMA, NANO, PROMPTS, SMOL, random_writer
from discodvt.bench.rivals import STORY_TOKENS, ctranslate2_work, hugging_face, ours
from discodvt.bench.rows import BenchRow, interleave, ratio_row
from discodvt.checkpoints import STORYTELLER
from discodvt.data.subwords import as_input
from discodvt.errors import WorkFailed
from discodvt.writing import Request, SamplingParams, Story, StoryWriter

BASE_TOKENS, STORIES = 16, 200
Works = list[Callable[[], object]]


def bench_generate(model: str | None = None, *, rounds: int = 3, scale: float = 1.0) -> list[BenchRow]:
    """The rows, for a writer's directory, else the storyteller that ships, else a random model of its shape."""
    with TemporaryDirectory() as scratch:
        directory = Path(model) if model else STORYTELLER
        if not model and not directory.exists():
            directory = random_writer(Path(scratch) / "random-nano", NANO, planned=True)
        writer = StoryWriter.from_pretrained(directory)
        tokens = max(8, round(STORY_TOKENS * scale))
        rows: list[BenchRow | None] = [
            _one_length(writer, 1, tokens, rounds, at_least=2.5),
            _own_lengths(writer, rounds, scale),
            _int8(writer, 1, tokens, rounds),
            _start_up(directory, rounds),
            _determinism(writer, scale),
        ]
        llama = StoryWriter.from_pretrained(random_writer(Path(scratch) / "random-llama-7.5m", LLAMA, planned=False))
        rows += [_one_length(llama, 1, tokens, rounds, at_least=3), _own_lengths(llama, rounds, scale)]
        nano = StoryWriter.from_pretrained(random_writer(Path(scratch) / "random-bart-nano", NANO, planned=False))
        for plain in (nano, llama):
            rows += [_ctranslate2(plain, 1, tokens, rounds, at_most=1.0)]
            rows += [_ctranslate2(plain, max(2, round(32 * scale)), tokens, rounds, at_most=0.5)]
        tokens = max(4, round(BASE_TOKENS * scale))
        base = StoryWriter.from_pretrained(random_writer(Path(scratch) / "random-bart-base", BASE, planned=False))
        rows += [_one_length(base, 8, tokens, rounds, at_least=1.5), _int8(base, 8, tokens, rounds)]
        del base
        smol = StoryWriter.from_pretrained(random_writer(Path(scratch) / "random-llama-135m", SMOL, planned=False))
        rows += [_one_length(smol, 8, tokens, rounds, at_least=1.2)]
    return [row for row in rows if row is not None]


def _one_length(writer: StoryWriter, stories: int, tokens: int, rounds: int, *, at_least: float) -> BenchRow:
    """A batch of stories of one length."""
    lengths = [tokens] * stories
    works: Works = [partial(hugging_face, writer, lengths, stories), partial(ours, writer, lengths, stories)]
    interleave(works, 1)  # warm up
    theirs, mine = interleave(works, rounds)
    name = f"Hugging Face / writer, {writer.name}, batch {stories}"
    return ratio_row(name, theirs, mine, at_least=at_least, note=_speed(lengths, mine))


def _own_lengths(writer: StoryWriter, rounds: int, scale: float) -> BenchRow:
    """32 stories that end where they end: theirs wait for the longest, ours go on with fewer."""
    stories = max(2, round(32 * scale))
    longest = writer.lengths.max_tokens
    if writer.name.startswith("random"):
        lengths = np.clip(np.random.default_rng(0).lognormal(5.1, 0.35, stories), 20, longest).astype(int).tolist()
    else:
        requests = [Request(PROMPTS[n % len(PROMPTS)], index=n) for n in range(stories)]
        written = sorted(writer.write_many(requests), key=lambda story: story.index)
        lengths = [min(longest, len(writer.tokenizer(as_input(story.text)).input_ids) - 1) for story in written]
    works: Works = [partial(hugging_face, writer, lengths, 32), partial(ours, writer, lengths, 32)]
    theirs, mine = interleave(works, rounds)
    note = f"{_speed(lengths, mine)}, {min(lengths)} to {max(lengths)} subwords"
    return ratio_row(f"Hugging Face / writer, {writer.name}, batch 32", theirs, mine, at_least=3, note=note)


def _ctranslate2(writer: StoryWriter, stories: int, tokens: int, rounds: int, *, at_most: float) -> BenchRow | None:
    """Stories of one length against CTranslate2 in float32; no row where it is not installed."""
    with TemporaryDirectory() as converted:
        theirs = ctranslate2_work(writer, stories, tokens, Path(converted))
        if theirs is None:
            return None
        works: Works = [partial(ours, writer, [tokens] * stories, stories), theirs]
        interleave(works, 1)
        mine, other = interleave(works, rounds)
    name = f"writer / CTranslate2, {writer.name}, batch {stories}"
    return ratio_row(name, mine, other, at_most=at_most, note=_speed([tokens] * stories, mine))


def _int8(writer: StoryWriter, stories: int, tokens: int, rounds: int) -> BenchRow:
    quantised = StoryWriter.from_pretrained(writer.directory, int8=True, device="cpu")
    lengths = [tokens] * stories
    works = [partial(ours, each, lengths, stories) for each in (writer, quantised)]
    interleave(works, 1)
    exact, small = interleave(works, rounds)
    return ratio_row(f"float32 / int8, {writer.name}, batch {stories}", exact, small, note=_speed(lengths, small))


def _start_up(directory: Path, rounds: int) -> BenchRow:
    """`discodvt generate` from its start to the end of a story, against importing torch and transformers."""
    program = [sys.executable, "-m", "discodvt", "generate", PROMPTS[0], "--model", str(directory), "--json"]
    works = [partial(_succeed, program), partial(_succeed, [sys.executable, "-c", "import torch, transformers"])]
    interleave(works, 1)
    whole, imports = interleave(works, rounds)
    return ratio_row(
        "discodvt generate / imports", whole, imports, at_most=2, note="a whole story, not its first words"
    )


def _determinism(writer: StoryWriter, scale: float) -> BenchRow:
    """The share of stories that differ over batch sizes, one and two threads, streamed or not."""
    stories = max(4, round(STORIES * scale))
    params = SamplingParams(max_tokens=max(8, min(writer.lengths.max_tokens, round(writer.lengths.max_tokens * scale))))
    requests = [Request(PROMPTS[n % len(PROMPTS)], index=n) for n in range(stories)]
    written: list[list[Story]] = []
    for threads in (1, 2):
        with _threads(threads):
            written += [_in_order(writer, requests, params, size) for size in (1, 7, 32)]
            written += [[_streamed(writer, request, params) for request in requests]]
    expected, *others = written
    different, compared = sum(_differing(each, expected) for each in others), len(others) * stories
    note = f"{different} of {compared:,} differ from batch 1, 1 thread: batch 1, 7, 32 and streamed, 1 and 2 threads"
    return ratio_row("stories that differ / stories", [different], [compared], at_most=0.001, note=note)


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


def _speed(lengths: Sequence[int], seconds: Sequence[float]) -> str:
    return f"{sum(lengths) / min(seconds):,.0f} subwords/s, {torch.get_num_threads()} threads"


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
