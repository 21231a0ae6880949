"""How fast this machine is: updates of a language model of some shape, and a fixed piece of work in Python."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from discodvt.checkpoints import Checkpoint
from discodvt.config import BackboneShape
from discodvt.errors import BadRequest


class Shape(NamedTuple):
    """A language model, its vocabulary included."""

    width: int
    layers: int
    heads: int
    ffn_width: int
    vocabulary: int
    positions: int
    causal: bool = False


def shape_of(shape: BackboneShape, vocabulary: int) -> Shape:
    layers = (shape.encoder_layers + shape.decoder_layers) // 2
    return Shape(shape.width, max(1, layers), shape.heads, shape.ffn_width, vocabulary, shape.positions)


def checkpoint_shape(source: str) -> Shape:
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


def parameters(shape: Shape) -> int:
    import torch

    with torch.device("meta"):
        return sum(parameter.numel() for parameter in _model(shape).parameters())


def time_updates(shape: Shape) -> tuple[float, float]:
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


def calibrate() -> float:
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
