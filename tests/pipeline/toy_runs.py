"""Runs for a report: real scores of toy stories; discourse and code results in the right shape, numbers made up."""

import json
import random
from pathlib import Path
from typing import Any

from discodvt.artefacts import open_stage
from discodvt.discourse import CATEGORIES, MARKERS
from discodvt.evaluation.evaluate_files import evaluate_files

WORDS = "the old fox ran home because it rained and then slept near a quiet river while owls sang".split()
SYSTEMS = {"human": 1, "plain": 2, "disco": 3, "disco w/o relations": 4}
COUNT = 12


def stories(path: Path, seed: int, *, count: int = COUNT) -> Path:
    """A JSONL of toy stories to the same prompts."""
    chance = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            told = ". ".join(" ".join(chance.choices(WORDS, k=7)).capitalize() for _ in range(4)) + "."
            file.write(json.dumps({"id": f"s{number}", "prompt": f"prompt <{number}>", "story": told}) + "\n")
    return path


def write_runs(folder: Path) -> list[str]:
    """Everything a report can show, as the RUN arguments of the command."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {name: stories(folder / f"{seed}.jsonl", seed) for name, seed in SYSTEMS.items()}
    runs = []
    for number, (name, path) in enumerate(told.items()):
        for mode in ("paper", "modern"):
            against = told["plain"] if name.startswith("disco") and mode == "paper" else None
            out = folder / f"{mode}-{number}"
            evaluate_files(path, told["human"], out=out, against=against, mode=mode, resamples=30)
            runs.append(f"{name}={out}")
        if name != "human":
            runs.append(f"{name}={discourse_run(folder / f'discourse-{number}', shift=0.02 * number)}")
    runs += [f"disco={study_run(folder / 'study')}", f"disco={measure_run(folder / 'measure')}"]
    return runs


def score(name: str, value: float, unit: str = "fraction", direction: str = "none") -> dict[str, Any]:
    ends = {"low": 0.9 * value, "high": min(1.1 * value, 1.0) if unit == "fraction" else 1.1 * value}
    return {"name": name, "value": value, "n": 12, "unit": unit, "direction": direction, "signature": "toy"} | ends


def discourse_scores(shift: float) -> dict[str, Any]:
    names = ["accuracy", *(f"accuracy-{name}" for name in (*CATEGORIES, *MARKERS) if name != "still")]
    found = {name: score(name, 0.4 + shift, direction="higher") | {"signature": "toy|pairs:40"} for name in names}
    shares = {"concession": 0.1, "causal": 0.2 + shift, "temporal": 0.3 - shift, "conjunction": 0.4}
    shares |= {marker: shares[category] / len(held) for category, held in CATEGORIES.items() for marker in held}
    found |= {f"share-{name}": score(f"share-{name}", share) for name, share in shares.items()}
    found["entropy"] = score("entropy", 1.8 - shift, "bits", "higher")
    found["KL"] = score("KL", shift, "bits", "lower")
    return found


def discourse_run(out: Path, *, shift: float, references: str = "r", classifier: str = "c") -> Path:
    scores, human = discourse_scores(shift), discourse_scores(0.0)
    content = {
        "stories": 12, "n_pairs": 90, "names": list(scores), "scores": scores, "comparison": None,
        "human": {"stories": 12, "n_pairs": 80, "scores": human},
        "baseline": {"marker": "and", "scores": {"accuracy": 0.1, "accuracy-conjunction": 0.33}},
    }  # fmt: skip
    files = {"stories": out.name, "references": references, "classifier": classifier}
    with open_stage(out, "discourse-score", config={"files": files, "swap_arg2": "none"}) as stage:
        stage.write_json("discourse.json", content)
        stage.finish()
    return out


MODEL = {"name": "toy", "conv_layers": 3, "tokens_per_code": 8}
USAGE = {
    "vocabulary": 4, "used": 3, "perplexity": 2.5,
    "utilisation": {"mean": 0.62, "quartiles": [0.5, 0.6, 0.7], "bins": [0.0] * 10 + [0.25, 0.5, 0.25] + [0.0] * 7},
}  # fmt: skip


def study_run(out: Path) -> Path:
    place = {"beginning": 0.7, "middle": 0.2, "end": 0.1, "mean": 0.3}
    codes = [
        {
            "code": code, "share": 0.5 - 0.1 * code, "place": place,
            "grams": [{"text": "once upon a time", "count": 5}],
            "markers": [{"marker": "then", "count": 3, "share": 0.6}],
        }
        for code in range(3)
    ]  # fmt: skip
    told = [{"id": "s1", "prompt": "a <fox>", "segments": [[0, "Once upon a time"], [2, " there was a <fox>."]]}]
    content = {"model": MODEL, "stories": 12, "usage": USAGE, "codes": codes, "told": told}
    with open_stage(out, "codes study", config={}) as stage:
        stage.write_json("codes.json", content)
        stage.finish()
    return out


def measure_run(out: Path) -> Path:
    figures = {
        "nll": score("nll", 2.8, "nats per token", "lower"),
        "relation_accuracy": score("relation_accuracy", 0.7, direction="higher"),
    }
    with open_stage(out, "codes measure", config={}) as stage:
        stage.write_json("figures.json", {"model": MODEL, "stories": 12, "usage": USAGE, "figures": figures})
        stage.finish()
    return out
