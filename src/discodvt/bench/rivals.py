"""Stories of given lengths by the writer, by Hugging Face `generate` and by CTranslate2, on the same weights."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList

from discodvt.bench.random_writers import PROMPTS
from discodvt.writing import Request, SamplingParams, Story, StoryWriter

STORY_TOKENS = 170


def ours(writer: StoryWriter, lengths: Sequence[int], rows: int) -> list[Story]:
    """Stories of given lengths by the writer."""
    params = SamplingParams(max_tokens=max(lengths))
    batch = writer.batch(rows)
    drafts = [batch.add(request, params) for request in requests(writer, len(lengths))]
    for draft, length in zip(drafts, lengths, strict=True):
        draft.fewest = draft.most = length
    while batch:
        batch.step()
    return [writer.story(draft) for draft in drafts]


def hugging_face(writer: StoryWriter, lengths: Sequence[int], rows: int) -> list[str]:
    """Stories of given lengths, the end included, by Hugging Face, `rows` at a time."""
    model: Any = writer.model
    tokenizer, asked = writer.tokenizer, requests(writer, len(lengths))
    causal = not model.config.is_encoder_decoder
    texts: list[str] = []
    for start in range(0, len(lengths), rows):
        batch, ends = asked[start : start + rows], lengths[start : start + rows]
        prompts = [writer.prompt_ids(request.prompt) for request in batch]
        if causal and writer.latent is None:  # a DiscoDVT puts SEP there itself
            prompts = [[*prompt, writer.generator_engine.start] for prompt in prompts]
        ids, mask = _padded(prompts, tokenizer.pad_token_id or 0, left=causal)
        plans = {} if batch[0].plan is None else {"plan": torch.tensor([request.plan for request in batch])}
        before = (ids.shape[1] + (writer.latent is not None)) if causal else 1
        written = model.generate(
            ids.to(writer.device),
            attention_mask=mask.to(writer.device),
            **plans,
            do_sample=True,
            top_p=0.9,
            top_k=0,
            max_length=None,
            max_new_tokens=max(ends),
            logits_processor=LogitsProcessorList([_EndsAt(ends, writer.generator_engine.end, before)]),
        )
        texts += tokenizer.batch_decode(written, skip_special_tokens=True)
    return texts


def ctranslate2_work(writer: StoryWriter, converted: Path) -> Callable[[Sequence[int]], list[list[int]]]:
    """What makes stories of one length by CTranslate2 in float32, from a plain model, which is converted to there."""
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    if not converted.exists():
        TransformersConverter(str(writer.directory)).convert(str(converted))
    settings: dict[str, Any] = {"compute_type": "float32", "inter_threads": 1, "intra_threads": torch.get_num_threads()}
    drawing: dict[str, Any] = {"sampling_topk": 0, "sampling_topp": 0.9, "return_scores": False}
    tokenizer: Any = writer.tokenizer
    start = tokenizer.convert_ids_to_tokens([writer.generator_engine.start])

    def translate(lengths: Sequence[int]) -> list[list[int]]:
        tokens = lengths[0]
        prompts = [writer.prompt_ids(request.prompt) for request in requests(writer, len(lengths))]
        texts = [tokenizer.convert_ids_to_tokens(prompt) for prompt in prompts]
        if writer.engine == "bart":
            done = model.translate_batch(
                texts, beam_size=1, max_decoding_length=tokens, min_decoding_length=tokens, **drawing
            )  # fmt: skip
            return [tokenizer.convert_tokens_to_ids(each.hypotheses[0]) for each in done]
        done = model.generate_batch(
            [text + start for text in texts], max_length=tokens, min_length=tokens, include_prompt_in_result=False,
            **drawing,
        )  # fmt: skip
        return [each.sequences_ids[0] for each in done]

    model: Any = (ctranslate2.Translator if writer.engine == "bart" else ctranslate2.Generator)(
        str(converted), **settings
    )
    return translate


def requests(writer: StoryWriter, stories: int) -> list[Request]:
    """Prompts with plans, which are given so that both sides follow the same ones."""
    random = np.random.default_rng(0)
    plans: list[tuple[int, ...] | None] = [None] * stories
    if writer.latent is not None:
        size = (stories, -(-STORY_TOKENS // writer.latent.tokens_per_code))
        plans = [tuple(plan) for plan in random.integers(0, writer.latent.num_codes, size).tolist()]
    return [Request(PROMPTS[n % len(PROMPTS)], index=n, plan=plan) for n, plan in enumerate(plans)]


class _EndsAt(LogitsProcessor):
    """Ends story i with its symbol number `lengths[i]`, and not before; `before` symbols stand in front of stories."""

    def __init__(self, lengths: Sequence[int], end: int, before: int) -> None:
        self._lengths, self._end, self._before = torch.tensor(lengths), end, before

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        due = self._lengths.to(scores.device) <= input_ids.shape[1] - self._before + 1
        scores[:, self._end] = float("-inf")
        scores[due] = float("-inf")
        scores[due, self._end] = 0.0
        return scores


def _padded(rows: Sequence[Sequence[int]], pad: int, *, left: bool) -> tuple[Tensor, Tensor]:
    """Ids and mask [B, N] of rows of different lengths."""
    longest = max(map(len, rows))
    fill = [[pad] * (longest - len(row)) for row in rows]
    ids = [[*gap, *row] if left else [*row, *gap] for row, gap in zip(rows, fill, strict=True)]
    mask = [[0] * len(gap) + [1] * len(row) if left else [1] * len(row) + [0] * len(gap)
            for row, gap in zip(rows, fill, strict=True)]  # fmt: skip
    return torch.tensor(ids), torch.tensor(mask)
