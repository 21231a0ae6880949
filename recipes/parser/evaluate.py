"""Scores on raw treebank text by spaCy's scorer, and speed on prose next to a reference pipeline.

Reads  a pipeline, a reference pipeline, treebank DocBins (dev, test) and a gzipped JSON-lines file of stories.
Writes one JSON file: scores by split, words a second (one thread, median of interleaved rounds), the ratio.
"""

import argparse
import gzip
import json
import statistics
import time
from itertools import islice
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.training import Corpus

SCORES = ["dep_las", "dep_uas", "tag_acc", "sents_p", "sents_r", "sents_f", "token_acc", "token_f"]


def accuracy(nlp: Language, gold: Path) -> dict[str, float]:
    """Per cent, the text tokenised and split by the pipeline itself."""
    scores = nlp.evaluate(list(Corpus(gold)(nlp)))
    return {name: round(100 * scores[name], 2) for name in SCORES}


def speeds(pipelines: list[Language], texts: list[str], rounds: int = 7) -> list[float]:
    """Median words a second of processor time for each pipeline, the rounds interleaved."""
    words = sum(len(text.split()) for text in texts)
    times: list[list[float]] = [[] for _ in pipelines]
    for _ in range(rounds):
        for nlp, taken in zip(pipelines, times, strict=True):
            began = time.process_time()
            for _doc in nlp.pipe(texts):
                pass
            taken.append(time.process_time() - began)
    return [words / statistics.median(taken) for taken in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("prose", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    nlp = spacy.load(args.pipeline)
    with gzip.open(args.prose, "rt", encoding="utf8") as lines:
        texts = [json.loads(line)["story"] for line in islice(lines, 60)]
    ours, theirs = speeds([nlp, spacy.load(args.reference)], texts)
    result = {
        "dev": accuracy(nlp, args.dev),
        "test": accuracy(nlp, args.test),
        "speed": {"words_per_second": round(ours), "reference": round(theirs), "ratio": round(ours / theirs, 2)},
    }
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
