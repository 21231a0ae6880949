"""Bench of writing: the writer against Hugging Face `generate` on the same weights, int8, start-up, determinism.

Both sides take prompts and plans, give texts, draw from the nucleus of 0.9, and have the same number of threads. Their
draws differ, so lengths are forced on both: one length at batch 1 and for BART-base; at batch 32 a list of lengths,
those at which the model's own stories end (for a random model, a spread like that of short stories).
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import sqrt
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import BartConfig, BartForConditionalGeneration, LogitsProcessor, LogitsProcessorList

from discodvt.bench.rows import BenchRow, interleave, ratio_row
from discodvt.checkpoints import STORYTELLER
from discodvt.data.subwords import as_input, train_tokenizer
from discodvt.errors import WorkFailed
from discodvt.model import DiscoDVT, PlanPrior, PlanPriorConfig
from discodvt.writing import Request, SamplingParams, Story, StoryWriter

PROMPTS = (
    "The fox who lost his hat",
    "Once there was a little girl named Lily who loved the rain.",
    "Tom and the big red boat",
    "A small bear wanted to make a cake for his mother.",
    "The day the moon came down",
)
STORY_TOKENS, BASE_TOKENS, STORIES = 170, 16, 200
BASE = {"vocab_size": 50265, "d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
        "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}  # fmt: skip
NANO = {"vocab_size": 8192, "d_model": 192, "encoder_layers": 2, "decoder_layers": 4, "encoder_attention_heads": 6,
        "decoder_attention_heads": 6, "encoder_ffn_dim": 768, "decoder_ffn_dim": 768}  # fmt: skip
Works = list[Callable[[], object]]
SHARPNESS = 4.0  # standard deviation of a random model's logits: nuclei as small as those of a trained one


def bench_generate(model: str | None = None, *, rounds: int = 3, scale: float = 1.0) -> list[BenchRow]:
    """The rows, for a writer's directory, else the storyteller that ships, else a random model of its shape."""
    with TemporaryDirectory() as scratch:
        directory = Path(model) if model else STORYTELLER
        if not model and not directory.exists():
            directory = random_writer(Path(scratch) / "random-nano", NANO, planned=True)
        writer = StoryWriter.from_pretrained(directory)
        tokens = max(8, round(STORY_TOKENS * scale))
        rows = [
            _one_length(writer, 1, tokens, rounds, at_least=2.5),
            _own_lengths(writer, rounds, scale),
            _int8(writer, 1, tokens, rounds),
            _start_up(directory, rounds),
            _determinism(writer, scale),
        ]
        base = StoryWriter.from_pretrained(random_writer(Path(scratch) / "random-bart-base", BASE, planned=False))
        tokens = max(4, round(BASE_TOKENS * scale))
        rows += [_one_length(base, 8, tokens, rounds, at_least=1.5), _int8(base, 8, tokens, rounds)]
    return rows


def random_writer(directory: Path, shape: dict[str, int], *, planned: bool) -> Path:
    """A random model in a directory; its last LayerNorm is scaled so that it is as sure of itself as a trained one."""
    torch.manual_seed(0)
    settings: dict[str, Any] = shape | {"decoder_start_token_id": 0, "forced_eos_token_id": None}
    bart = BartForConditionalGeneration(BartConfig(**settings))
    with torch.no_grad():
        spread = (bart.config.init_std or 0.02) * sqrt(shape["d_model"])
        bart.model.decoder.layers[-1].final_layer_norm.weight.mul_(SHARPNESS / spread)
    if planned:
        model = DiscoDVT.from_bart(bart, conv_channels=256, relation_width=64)
        model.half().save_pretrained(directory)
        prior = PlanPrior(PlanPriorConfig.from_backbone_config(model.config.backbone, max_codes=40))
        prior.half().save_pretrained(directory / "prior")
    else:
        bart.half().save_pretrained(directory)
    train_tokenizer(PROMPTS, 400).save_pretrained(directory)
    return directory


def _one_length(writer: StoryWriter, stories: int, tokens: int, rounds: int, *, at_least: float) -> BenchRow:
    """A batch of stories of one length."""
    lengths = [tokens] * stories
    works: Works = [partial(_theirs, writer, lengths, stories), partial(_ours, writer, lengths, stories)]
    interleave(works, 1)  # warm up
    theirs, ours = interleave(works, rounds)
    name = f"Hugging Face / writer, {writer.name}, batch {stories}"
    return ratio_row(name, theirs, ours, at_least=at_least, note=_speed(lengths, ours))


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
    works: Works = [partial(_theirs, writer, lengths, 32), partial(_ours, writer, lengths, 32)]
    theirs, ours = interleave(works, rounds)
    note = f"{_speed(lengths, ours)}, {min(lengths)} to {max(lengths)} subwords"
    return ratio_row(f"Hugging Face / writer, {writer.name}, batch 32", theirs, ours, at_least=3, note=note)


def _int8(writer: StoryWriter, stories: int, tokens: int, rounds: int) -> BenchRow:
    quantised = StoryWriter.from_pretrained(writer.directory, int8=True, device="cpu")
    lengths = [tokens] * stories
    works = [partial(_ours, each, lengths, stories) for each in (writer, quantised)]
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


def _ours(writer: StoryWriter, lengths: Sequence[int], rows: int) -> list[Story]:
    """Stories of given lengths by the writer."""
    params = SamplingParams(max_tokens=max(lengths))
    batch = writer.batch(rows)
    drafts = [batch.add(request, params) for request in _requests(writer, len(lengths))]
    for draft, length in zip(drafts, lengths, strict=True):
        draft.fewest = draft.most = length
    while batch:
        batch.step()
    return [writer.story(draft) for draft in drafts]


def _theirs(writer: StoryWriter, lengths: Sequence[int], rows: int) -> list[str]:
    """Stories of given lengths, the end included, by Hugging Face, `rows` at a time."""
    model: Any = writer.model
    tokenizer, requests = writer.tokenizer, _requests(writer, len(lengths))
    texts: list[str] = []
    for start in range(0, len(lengths), rows):
        batch, ends = requests[start : start + rows], lengths[start : start + rows]
        prompts = tokenizer([as_input(request.prompt) for request in batch], padding=True, return_tensors="pt")
        plans = {} if batch[0].plan is None else {"plan": torch.tensor([request.plan for request in batch])}
        written = model.generate(
            **prompts.to(writer.device),
            **plans,
            do_sample=True,
            top_p=0.9,
            top_k=0,
            max_length=None,
            max_new_tokens=max(ends),
            logits_processor=LogitsProcessorList([_EndsAt(ends, tokenizer.eos_token_id)]),
        )
        texts += tokenizer.batch_decode(written, skip_special_tokens=True)
    return texts


class _EndsAt(LogitsProcessor):
    """Ends story i with its symbol number `lengths[i]`, and not before."""

    def __init__(self, lengths: Sequence[int], end: int) -> None:
        self._lengths, self._end = torch.tensor(lengths), end

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        due = self._lengths.to(scores.device) <= input_ids.shape[1]
        scores[:, self._end] = float("-inf")
        scores[due] = float("-inf")
        scores[due, self._end] = 0.0
        return scores


def _requests(writer: StoryWriter, stories: int) -> list[Request]:
    """Prompts with plans, which are given so that both sides follow the same ones."""
    random = np.random.default_rng(0)
    plans: list[tuple[int, ...] | None] = [None] * stories
    if writer.latent is not None:
        size = (stories, -(-STORY_TOKENS // writer.latent.tokens_per_code))
        plans = [tuple(plan) for plan in random.integers(0, writer.latent.num_codes, size).tolist()]
    return [Request(PROMPTS[n % len(PROMPTS)], index=n, plan=plan) for n, plan in enumerate(plans)]


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
