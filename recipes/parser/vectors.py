"""Static word vectors over token norms, trained by skip-gram with a narrow (syntactic) window.

Reads  books, tales and tiny under the data directory, and the training treebank in spaCy's format.
Writes OUT/norms.txt (the tokenised text) and OUT/vectors.txt (word2vec text format, most frequent norms first).
"""

import argparse
from collections import Counter
from pathlib import Path

import floret
import spacy
from spacy.tokens import DocBin
from texts import stories

WORDS = {"books": 8_000_000, "tales": 1_400_000, "tiny": 1_500_000}
ROWS, DIM = 22_000, 64


def write_norms(data: Path, treebank: Path, out: Path) -> Counter[str]:
    """One paragraph a line, token norms separated by spaces; returns their counts."""
    nlp = spacy.blank("en")
    counts: Counter[str] = Counter()
    paragraphs = (p for source, n in WORDS.items() for story in stories(data, source, n) for p in story.split("\n"))
    gold = list(DocBin().from_disk(treebank).get_docs(nlp.vocab))
    with out.open("w", encoding="utf8") as file:
        for doc in (*gold, *nlp.pipe(p for p in paragraphs if p.strip())):
            norms = [t.norm_ for t in doc if not t.is_space]
            counts.update(norms)
            file.write(" ".join(norms) + "\n")
    for doc in gold:
        counts.update({t.norm_: 10 for t in doc})
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("treebank", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    counts = write_norms(args.data, args.treebank, args.out / "norms.txt")
    model = floret.train_unsupervised(
        str(args.out / "norms.txt"),
        model="skipgram",
        dim=DIM,
        ws=2,
        epoch=3,
        minCount=4,
        minn=3,
        maxn=5,
        bucket=200_000,
        thread=1,
    )
    kept = [norm for norm, _ in counts.most_common(ROWS) if not any(c.isspace() for c in norm)]
    with (args.out / "vectors.txt").open("w", encoding="utf8") as file:
        file.write(f"{len(kept)} {DIM}\n")
        for norm in kept:
            file.write(norm + " " + " ".join(f"{x:.4f}" for x in model.get_word_vector(norm)) + "\n")


if __name__ == "__main__":
    main()
