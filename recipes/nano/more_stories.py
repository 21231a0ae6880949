"""More stories of the kind in `tiny/`, each for a title people would type: the backbone continues drawn openings.

usage: python recipes/nano/more_stories.py BACKBONE OUT.jsonl --seed S [--minutes 60] [--batch 96] [--titles FILE]

Appends one object a line: `story` (opening and what follows), `opening`, `title`, `about`, `hero`, `words`. A story is
kept if it ended by itself, is not short, and names its hero again after the opening. Prompts of `--titles` are never
drawn. BACKBONE comes from `backbone.py`. Its trained rotary base is used up to the 256 positions it was trained on;
stories that are longer wait until a batch of them is together and go on with the base for 512.
"""

import json
import random
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from seeds import Seed, draw_seed
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

TRAINED, LONGEST = 256, 512
TEMPERATURES = (0.7, 0.8, 0.9)
TRAINED_BASE = {"rope_type": "default", "rope_theta": 10_000.0}


@torch.no_grad()
def continue_rows(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rows: Sequence[list[int]],
    *,
    length: int,
    temperature: float,
) -> Iterator[list[int]]:
    """Each row of ids with what follows, to its end (`</s>` is put last) or to the length."""
    longest = max(map(len, rows))
    pad, ends = tokenizer.pad_token_id, (tokenizer.bos_token_id, tokenizer.eos_token_id)
    ids = torch.tensor([[pad] * (longest - len(row)) + row for row in rows])  # [B, T], padded on the left
    specials = [tokenizer.unk_token_id, pad, tokenizer.sep_token_id, tokenizer.mask_token_id]
    written = model.generate(
        input_ids=ids, attention_mask=(ids != pad).long(), do_sample=True, temperature=temperature, top_p=0.95, top_k=0,
        max_new_tokens=length - longest, eos_token_id=list(ends), pad_token_id=pad, suppress_tokens=specials,
    )  # fmt: skip
    for row, new in zip(rows, written[:, longest:].tolist(), strict=True):
        end = next((place for place, id in enumerate(new) if id in ends), None)
        yield [*row, *new] if end is None else [*row, *new[:end], tokenizer.eos_token_id]


def is_good(seed: Seed, rest: str) -> bool:
    """Long enough, and the hero is named again."""
    return len(rest) > 250 and seed.hero.lower() in rest.lower()


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backbone", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--titles", type=Path, default=Path(__file__).with_name("titles.tsv"))
    given = parser.parse_args()
    avoid = frozenset(line.rstrip("\n").split("\t")[-1].lower() for line in given.titles.open(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(str(given.backbone))
    short = AutoModelForCausalLM.from_pretrained(str(given.backbone), rope_parameters=TRAINED_BASE).eval()
    long = AutoModelForCausalLM.from_pretrained(str(given.backbone)).eval()
    rng = random.Random(given.seed)
    torch.manual_seed(given.seed)
    until, kept, drawn = time.monotonic() + 60 * given.minutes, 0, 0
    unfinished: list[tuple[Seed, list[int]]] = []
    with given.out.open("a", encoding="utf-8") as out:
        while time.monotonic() < until:
            if len(unfinished) >= given.batch:
                model, length, batch, unfinished = long, LONGEST, unfinished, []
            else:
                seeds = [draw_seed(rng, avoid=avoid) for _ in range(given.batch)]
                model, length, batch = short, TRAINED, [(seed, tokenizer(seed.opening).input_ids) for seed in seeds]
                drawn += len(batch)
            rows = [row for _, row in batch]
            heat = rng.choice(TEMPERATURES)
            for (seed, _), row in zip(
                batch, continue_rows(model, tokenizer, rows, length=length, temperature=heat), strict=True
            ):
                story = tokenizer.decode(row, skip_special_tokens=True).strip()
                if row[-1] != tokenizer.eos_token_id:
                    unfinished += [(seed, row)] if model is short else []
                elif is_good(seed, story.removeprefix(seed.opening)):
                    kept += 1
                    out.write(json.dumps({"story": story, **asdict(seed)}, ensure_ascii=False) + "\n")
            out.flush()
            print(f"{kept} stories kept of {drawn}", flush=True)


if __name__ == "__main__":
    main()
