"""Silver trees: prose tokenised as the student will, split, tagged and parsed by the teacher.

Reads  the teacher's checkpoint and books, tales and tiny under the data directory.
Writes a spaCy DocBin; one doc is a stretch of about 120 words of one story.
"""

import argparse
import random
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import spacy
import torch
from base import add_rules
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from teacher import Teacher
from texts import stories

STRETCH = 120  # words in a doc
STRAIGHT = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "—": "--", "…": "..."})
QUOTES = {'"', "'", "“", "”", "‘", "’", "``", "''"}
CLOSING = QUOTES | {")", "]"}
FINAL = re.compile(r"(?<=[a-z]{4}[.!?])(\s+)(?=[A-Z])")


def paragraphs(story: str) -> Iterator[str]:
    """Paragraphs with their line breaks; long ones are cut between plain sentences."""
    for paragraph in re.findall(r"[^\n]+\n*", story):
        piece = ""
        for part in FINAL.split(paragraph):
            if part.isspace() and len(piece.split()) > 0.7 * STRETCH:
                yield piece + part
                piece = ""
            else:
                piece += part
        yield piece


def stretches(story: str, rng: random.Random) -> Iterator[list[str]]:
    """Neighbouring paragraphs of about `STRETCH` words, with some variety in quotes, dashes and line breaks."""
    current: list[str] = []
    for paragraph in (*paragraphs(story), None):
        size = sum(len(p.split()) for p in current)
        if paragraph is None or (current and size + len(paragraph.split()) > STRETCH):
            if 8 < size < 2 * STRETCH:
                if rng.random() < 0.5:
                    current = [p.translate(STRAIGHT) for p in current]
                if rng.random() < 0.5:
                    current = [re.sub(r"\s+", " ", p) for p in current]
                yield [*current[:-1], current[-1].rstrip()]
            current = []
        if paragraph is not None:
            current.append(paragraph)


def may_start(words: list[str], i: int) -> bool:
    """Whether typography allows word `i` to begin a sentence: not with closing marks, nor just inside speech."""
    word, before = words[i], words[i - 1]
    if word in {"”", ",", ".", "!", "?", ";", ":", ")", "n't", "n’t"}:
        return False
    if before in QUOTES and i > 1 and words[i - 2] in {",", ":"}:
        return False
    return not (word[0].islower() and (before in CLOSING or before[-1] not in ".!?:;-—…"))


def sentence_starts(words: list[str], scores: list[float], forced: set[int]) -> list[int]:
    """Word indices where sentences begin; a capital after a full stop needs less evidence, a lone quote is none."""
    starts: list[int] = []
    for i, word in enumerate(words):
        alone = i > 0 and starts[-1] == i - 1 and words[i - 1] in QUOTES
        easy = i > 0 and words[i - 1] in {".", "!", "?"} and word[0].isupper()
        if i in forced or (not alone and scores[i] > (-2 if easy else 0) and may_start(words, i)):
            starts.append(i)
    return starts


def tokenise(nlp: Language, pieces: list[str]) -> tuple[Doc, set[int]]:
    """The doc of the joined pieces and the indices (among words that are no white space) where pieces begin."""
    docs = [nlp.make_doc(piece) for piece in pieces]
    forced, seen = set(), 0
    for doc in docs:
        forced.add(seen)
        seen += sum(not t.is_space for t in doc)
    return Doc.from_docs(docs, ensure_whitespace=False), forced - {seen}


@torch.inference_mode()
def annotate(model: Teacher, docs: list[tuple[Doc, set[int]]]) -> Iterator[Doc]:
    """Docs with sentence starts, tags, heads and labels; white space is punctuation on the word before it."""
    inner = [[t.i for t in doc if not t.is_space] for doc, _ in docs]
    texts = [[doc[i].text for i in where] for (doc, _), where in zip(docs, inner, strict=True)]
    for (doc, forced), where, words, vectors in zip(docs, inner, texts, model.encode(texts), strict=True):
        starts = sentence_starts(words, model.start(vectors)[:, 0].tolist(), forced | {0})
        sizes = [b - a for a, b in zip(starts, [*starts[1:], len(words)], strict=True)]
        heads = [max(i - 1, 0) for i in range(len(doc))]
        deps, tags = ["punct"] * len(doc), ["NFP"] * len(doc)
        for start, parsed in zip(starts, model.parse(list(vectors.split(sizes))), strict=True):
            for j, (tag, head, rel) in enumerate(zip(*parsed, strict=True), start):
                heads[where[j]] = where[start + head - 1] if head else where[j]
                tags[where[j]], deps[where[j]] = tag, "ROOT" if rel == "root" else rel
        yield Doc(
            doc.vocab, [t.text for t in doc], [bool(t.whitespace_) for t in doc], tags=tags, heads=heads, deps=deps
        )


def batches(items: Iterable[tuple[Doc, set[int]]], size: int) -> Iterator[list[tuple[Doc, set[int]]]]:
    """Batches of docs of similar length, sorted within a large buffer."""
    items = iter(items)
    while buffer := sorted(islice(items, 64 * size), key=lambda item: len(item[0])):
        yield from (buffer[i : i + size] for i in range(0, len(buffer), size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--words", nargs="+", default=["books=100000", "tales=70000", "tiny=30000"])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    nlp = spacy.blank("en")
    add_rules(nlp)
    saved = torch.load(args.teacher)
    model = Teacher(saved["tags"], saved["rels"])
    model.load_state_dict(saved["weights"])
    model.eval()
    rng = random.Random(args.seed)
    wanted = {source: int(n) for source, n in (pair.split("=") for pair in args.words)}
    texts = (story for source, n in wanted.items() for story in stories(args.data, source, n, args.seed))
    docs = (tokenise(nlp, pieces) for story in texts for pieces in stretches(story, rng))
    kept = DocBin(attrs=["TAG", "HEAD", "DEP", "SPACY"])
    for batch in batches(((doc, forced) for doc, forced in docs if not doc[0].is_space), 8):
        for doc in annotate(model, batch):
            kept.add(doc)
    kept.to_disk(args.out)


if __name__ == "__main__":
    main()
