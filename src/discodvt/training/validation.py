"""Validation: the losses of held-out stories at argmax codes, code usage, and what another story's plan costs."""

import warnings
from collections.abc import Sequence

import torch
from accelerate import Accelerator
from nltk.tokenize import NLTKWordTokenizer
from nltk.translate.bleu_score import sentence_bleu
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from discodvt.data.batches import Batch, Rows, in_order
from discodvt.model import DiscoDVT
from discodvt.training.feeds import Feed
from discodvt.training.stages import Plan, Stage
from discodvt.training.watchdog import Figures, usage


@torch.no_grad()
def validate(
    stage: Stage, feed: Feed, *, accelerator: Accelerator, stories_per_batch: int
) -> tuple[Figures, Tensor | None]:
    """Means of every term over the split, and how often each code was used [K]; the work is shared by all processes."""
    bare = accelerator.unwrap_model(stage)
    plans = isinstance(bare, Plan)
    stage.eval()
    device = accelerator.device
    codes = torch.zeros(bare.model.config.num_codes, dtype=torch.long, device=device) if plans else None
    sums = {name: torch.zeros((), device=device, dtype=torch.float64) for name in bare.terms}
    swapped = torch.zeros(3, device=device, dtype=torch.float64)  # loss with another plan, with its own, tokens
    hits = torch.zeros(2, device=device, dtype=torch.float64)
    for rows, counted in _share(in_order(feed.sort_keys, stories_per_batch), accelerator):
        batch = on_device(feed.batch(rows, step=None, noisy=False), device)
        output = stage(batch)
        other = stage(batch, swap=True) if plans else None  # every process calls as often as every other
        if not counted:
            continue
        for name, value in output.sums.items():
            sums[name] += value.double()
        if codes is not None:
            codes += output.code_counts
        if output.hits is not None:
            hits += output.hits
        if other is not None and len(rows) > 1:
            own = output.sums["reconstruction"].double()
            tokens = torch.tensor(float(feed.counts(rows)["tokens"]), device=device, dtype=torch.float64)
            swapped += torch.stack([other.sums["reconstruction"].double(), own, tokens])
    everything = feed.counts(in_order(feed.sort_keys, len(feed))[0])
    figures = {
        name: float(accelerator.reduce(sums[name])) / max(1, everything[term.per]) for name, term in bare.terms.items()
    }
    if codes is not None:
        codes = accelerator.reduce(codes)
        other_plan, own_plan, tokens = accelerator.reduce(swapped).tolist()
        right, labelled = accelerator.reduce(hits).tolist()
        figures |= usage(codes) | {"swap_gap": (other_plan - own_plan) / max(1.0, tokens)}
        if labelled:
            figures["relation_accuracy"] = right / labelled
    stage.train()
    return figures, codes


@torch.no_grad()
def bleu_1(
    model: DiscoDVT,
    feed: Feed,
    tokenizer: PreTrainedTokenizerBase,
    *,
    stories: int,
    stories_per_batch: int,
    device: torch.device,
    seed: int,
) -> float:
    """Mean BLEU-1 of stories written under the plans of the real ones (the paper's choice of the best model)."""
    model.eval()
    words = NLTKWordTokenizer().tokenize
    scores = []
    torch.manual_seed(seed)
    for rows in in_order(feed.sort_keys, stories_per_batch, stories=stories):
        batch = on_device(feed.batch(rows, step=None, noisy=False), device)
        written = model.generate(
            batch["prompt_ids"],
            attention_mask=batch["prompt_mask"],
            plan=model.plan(batch["story_ids"], batch["story_mask"]),
            min_new_tokens=0,
            max_new_tokens=batch["story_ids"].shape[1],
        )
        texts = tokenizer.batch_decode(written, skip_special_tokens=True)
        references = tokenizer.batch_decode(batch["story_ids"], skip_special_tokens=True)
        for text, reference in zip(texts, references, strict=True):
            with warnings.catch_warnings():  # NLTK warns of texts without a common word; their score is 0
                warnings.simplefilter("ignore", UserWarning)
                scores.append(float(sentence_bleu([words(reference)], words(text), weights=(1.0,))))
    model.train()
    return sum(scores) / max(1, len(scores))


def on_device(batch: Batch, device: torch.device) -> Batch:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


def _share(batches: Sequence[Rows], accelerator: Accelerator) -> list[tuple[Rows, bool]]:
    """This process's batches; where it has fewer than others it repeats one, which does not count."""
    mine = [(rows, True) for rows in batches[accelerator.process_index :: accelerator.num_processes]]
    most = -(-len(batches) // accelerator.num_processes)
    return mine + [(batches[0], False)] * (most - len(mine))
