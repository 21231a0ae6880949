"""The pipeline as it ships: training paths removed, string table cut down to the labels, meta data and card filled in.

Reads  a trained pipeline, the JSON written by evaluate.py and the card's template card.md beside this file.
Writes the pipeline directory, put in place by renaming.
"""

import argparse
import json
import shutil
from pathlib import Path
from string import Template

import spacy
from spacy.language import Language

META = {
    "name": "discodvt_ewt",
    "version": "0.1.0",
    "license": "CC BY-SA 4.0",
    "description": "Small English tokenizer, PTB tagger, sentence splitter and UD dependency parser for prose",
    "sources": [
        {"name": "UD English EWT 2.15", "url": "https://universaldependencies.org", "license": "CC BY-SA 4.0"},
        {"name": "public-domain fiction, fairy tales and machine-written children's stories (silver trees, vectors)"},
    ],
}


def strip(directory: Path, nlp: Language) -> None:
    """Keep only the labels in the string table: words are added again when they are met."""
    labels = {"", "ROOT"} | {label for pipe in nlp.pipe_labels.values() for label in pipe}
    (directory / "vocab" / "strings.json").write_text(json.dumps(sorted(labels)), encoding="utf8")


def size(directory: Path) -> float:
    """Megabytes (10^6 bytes) of all files."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline", type=Path)
    parser.add_argument("scores", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    nlp = spacy.load(args.pipeline)
    scores = json.loads(args.scores.read_text(encoding="utf8"))
    nlp.meta.update(META, performance=scores)
    nlp.config["paths"] = dict.fromkeys(nlp.config["paths"])
    nlp.config["initialize"].update(vectors=None, before_init=None)
    fresh = args.out.with_name(f".{args.out.name}.new")
    nlp.to_disk(fresh)
    strip(fresh, nlp)
    values = {f"{split}_{name}": f"{value:g}" for split, part in scores.items() for name, value in part.items()}
    card = Template(Path(__file__).with_name("card.md").read_text(encoding="utf8"))
    (fresh / "README.md").write_text(card.substitute(values, size=f"{size(fresh):.1f}"), encoding="utf8")
    old = args.out.with_name(f".{args.out.name}.old")
    if args.out.exists():
        args.out.rename(old)
    fresh.rename(args.out)
    shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    main()
