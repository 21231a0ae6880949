"""Bench of training: a stage-1 step against a plain Hugging Face step of the same model and shapes, padding, memory."""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from subprocess import run
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import BartConfig, LlamaConfig, PreTrainedConfig, PreTrainedModel

from discodvt.bench.rows import BenchRow, interleave, ratio_row
from discodvt.corpus import read_examples, split_files
from discodvt.data.batches import Batch, Order, Rows, length_keys
from discodvt.data.tokens import Ints, Ragged, Tokens
from discodvt.discourse.labels import LABELS
from discodvt.errors import WorkFailed
from discodvt.model import DiscoDVT
from discodvt.model.backbones import new_backbone
from discodvt.model.bottlenecks import BOTTLENECKS
from discodvt.training.feeds import Noise, StoryFeed
from discodvt.training.stages import Counts, Objective
from discodvt.training.stages.reconstruct import LatentObjective, RelationLoss, TemperatureSchedule

EDU_TOKENS = 12


@dataclass(frozen=True, slots=True)
class Workload:
    """The shape of a model and of one micro-batch."""

    config: PreTrainedConfig
    sizes: dict[str, Any]
    stories: int
    story_tokens: int
    prompt_tokens: int
    at_most: float


def _bart(width: int, layers: tuple[int, int], heads: int, vocabulary: int) -> PreTrainedConfig:
    sides: dict[str, Any] = {
        f"{side}_{name}": value
        for side, depth in zip(("encoder", "decoder"), layers, strict=True)
        for name, value in {"layers": depth, "attention_heads": heads, "ffn_dim": 4 * width}.items()
    }
    return BartConfig(d_model=width, vocab_size=vocabulary, max_position_embeddings=1024, **sides)


def _llama(width: int, layers: int, heads: int, vocabulary: int, *, posterior_layers: int, **sizes: Any) -> Workload:
    """A causal model costs as much again as its posterior has of its layers, and a fifth for all that is new."""
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=8 * width // 3,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        vocab_size=vocabulary,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
    )
    sizes["posterior_layers"] = posterior_layers
    return Workload(config, sizes, 8, 256, 16, 1.2 * (1 + posterior_layers / layers))


NANO_SIZES = {"relation_width": 64, "conv_channels": 192, "code_width": 192}
WORKLOADS = {
    "nano": Workload(_bart(192, (2, 4), 6, 8192), NANO_SIZES, 16, 184, 12, 1.8),
    "bart-base": Workload(_bart(768, (6, 6), 12, 50265), {}, 4, 512, 16, 1.6),
    "causal": _llama(288, 6, 6, 5252, posterior_layers=3, **NANO_SIZES),
}


def bench_train(corpus: Path | None = None, *, rounds: int = 5, scale: float = 1.0) -> Iterator[BenchRow]:
    """The rows; `corpus` gives the lengths for the padding (else a spread like that of short stories)."""
    for name, load in WORKLOADS.items():
        plain, ours = make_step(name, planned=False, scale=scale), make_step(name, planned=True, scale=scale)
        interleave([plain, ours], 1)  # warm up
        alone, whole = interleave([plain, ours], rounds)
        speed = max(1, round(load.stories * scale)) * load.story_tokens / min(whole)
        note = f"{speed:,.0f} tokens/s, {torch.get_num_threads()} threads"
        yield ratio_row(f"stage-1 step / plain step, {name}", whole, alone, at_most=load.at_most, note=note)
        del plain, ours
        memory = [_peak_memory(name, planned=planned, scale=scale) for planned in (True, False)]
        peaks = " and ".join(f"{peak / 2**20:,.0f}" for peak in memory)
        yield ratio_row(f"peak memory, {name}", memory[:1], memory[1:], note=f"{peaks} MiB")
    yield from _bottlenecks(rounds, scale)
    yield _padding(corpus)
    if "causal" in WORKLOADS:
        from discodvt.bench.prefetch import prefetch_row  # which takes its steps from here

        yield prefetch_row(rounds=8 * rounds, scale=scale)


def _bottlenecks(rounds: int, scale: float) -> Iterator[BenchRow]:
    """A step of the causal model with each of the bottlenecks, against the first, in CPU time."""
    first, *others = BOTTLENECKS
    for name in others if "causal" in WORKLOADS else ():
        steps = [make_step("causal", planned=True, scale=scale, bottleneck=each) for each in (name, first)]
        interleave(steps, 1)
        taken = interleave(steps, rounds, clock=time.process_time)
        yield ratio_row(f"step with {name} / with {first}, causal", *taken)


def make_step(name: str, *, planned: bool, scale: float, bottleneck: str = "gumbel") -> Callable[[], None]:
    """A training step: collation, forward, backward, clip and AdamW; of DiscoDVT, or of its language model alone."""
    feed, rows, update = make_update(name, planned=planned, scale=scale, bottleneck=bottleneck)
    return lambda: update(feed.batch(rows, step=0))


def make_update(
    name: str, *, planned: bool, scale: float, bottleneck: str = "gumbel"
) -> tuple[StoryFeed, Rows, Callable[[Batch], None]]:
    """A feed, its rows, and what a step does with a batch of them."""
    load = WORKLOADS[name]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    tokens = _tokens(load, max(1, round(load.stories * scale)))
    feed = StoryFeed(tokens, pad=1, mask=3, seed=0)
    rows = np.arange(len(tokens))
    if planned:
        model = DiscoDVT.from_backbone(load.config, bottleneck=bottleneck, **load.sizes)
        feed = replace(feed, noise=Noise(model.config.tokens_per_code, model.bottleneck.noise_width))
        stage = LatentObjective(model, RelationLoss(), temperature=TemperatureSchedule(0.9, 0.1, 0.0))
        stage.to(device).train()
        parameters, loss_of = list(stage.parameters()), partial(_stage_1_loss, stage, feed.counts(rows))
        after: Callable[[], None] = partial(stage.after_step, lambda rows: rows)  # one process has nothing to gather
    else:
        plain = new_backbone(load.config).new_generator()
        torch.nn.Module.to(plain, device).train()
        parameters, loss_of, after = list(plain.parameters()), partial(_plain_loss, plain), lambda: None
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, weight_decay=0.0, fused=True)

    def update(batch: Batch) -> None:
        loss_of({key: value.to(device) for key, value in batch.items()}).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        after()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return feed, rows, update


def _stage_1_loss(stage: Objective, counts: Counts, batch: Batch) -> Tensor:
    sums = stage(batch, 0).sums
    terms = [term.weight * sums[name] / counts[term.per] for name, term in stage.terms.items()]
    return torch.stack(terms).sum()


def _plain_loss(plain: PreTrainedModel, batch: Batch) -> Tensor:
    """As Hugging Face computes it; a causal model reads prompt and story as one, and its library shifts the labels."""
    if not plain.config.is_encoder_decoder:
        ids = torch.cat([batch["prompt_ids"], batch["story_ids"]], dim=1)
        labels = torch.cat([torch.full_like(batch["prompt_ids"], -100), batch["story_ids"]], dim=1)
        causal: Tensor = plain(input_ids=ids, labels=labels, use_cache=False).loss
        return causal
    loss: Tensor = plain(
        input_ids=batch["prompt_ids"],
        attention_mask=batch["prompt_mask"],
        decoder_input_ids=batch["story_ids"],
        labels=batch["labels"],
    ).loss
    return loss


def _tokens(load: Workload, stories: int) -> Tokens:
    """Stories of one length in EDUs of a dozen tokens, of random words."""
    random = np.random.default_rng(0)

    def words(count: int) -> Ints:
        return random.integers(4, load.config.vocab_size, count).astype(np.int32)

    edges = np.append(np.arange(0, load.story_tokens, EDU_TOKENS), load.story_tokens).astype(np.int32)
    return Tokens(
        prompts=Ragged.of(words(load.prompt_tokens) for _ in range(stories)),
        stories=Ragged.of(words(load.story_tokens + 1) for _ in range(stories)),
        edus=Ragged.of(edges for _ in range(stories)),
        relations=Ragged.of(random.integers(0, len(LABELS), len(edges) - 2).astype(np.int32) for _ in range(stories)),
    )


def _padding(corpus: Path | None) -> BenchRow:
    """Padding among all tokens of an epoch's micro-batches, prompts and stories together."""
    if corpus is None:
        random = np.random.default_rng(0)
        stories = np.clip(random.lognormal(5.1, 0.35, 20_000), 20, 320).astype(np.int64)
        prompts = np.clip(random.poisson(12, 20_000), 3, 50).astype(np.int64)
    else:
        texts = [
            (len(row.prompt.split()) + 2, len(row.story.split()) + 1)
            for row in read_examples(split_files(corpus)["train"])
        ]
        prompts, stories = np.array(texts, dtype=np.int64).T
    shares: list[tuple[float, float]] = []
    for size in (4, 16, 32):
        order = Order(length_keys(stories, prompts), 32, size, seed=0)
        batches = np.concatenate([order.step(number) for number in range(order.steps_per_epoch)])  # [M, size]
        room = (stories[batches].max(1) + prompts[batches].max(1)) * size
        real = (stories[batches] + prompts[batches]).sum(1)
        shares.append((float((room - real).sum()), float(room.sum())))
    return ratio_row(
        "padding / all tokens", [a for a, _ in shares], [b for _, b in shares], at_most=0.05, note="4, 16, 32 stories"
    )


def _peak_memory(name: str, *, planned: bool, scale: float) -> float:
    """Peak memory in bytes of a process that makes two steps."""
    code = f"from discodvt.bench.train import *; print(memory_of_steps({name!r}, planned={planned}, scale={scale}))"
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise WorkFailed(f"the benched process failed with exit code {done.returncode}: {code}")
    return float(done.stdout)


def memory_of_steps(name: str, *, planned: bool, scale: float) -> int:
    """Make two steps and say what this process took at most (a parent's `ru_maxrss` would count the parent too)."""
    step = make_step(name, planned=planned, scale=scale)
    step()
    step()
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
