"""How good stories are to read, judged from outside: fluency, order, faith to the prompt, whole sentences, variety.

usage: python recipes/nano/judge.py OUT.json NAME=STORIES.jsonl ... [--truth NAME] [--titles recipes/nano/titles.tsv]
                                    [--cache FILE] [--no-judge] [--stories N]

Reads files of stories, one object a line: `prompt`, `story` and, if known, `finish` (what `discodvt generate --output`
writes). Prints a table and writes OUT.json: per system and measure the value, its 95% bootstrap interval over stories
and their number. `--truth` names the system with the true stories: variety is then measured at equal tokens with it.

    perplexity     of the stories under SmolLM2-135M (see smollm.py) after their prompt, lower is more fluent
    rise           nats per token it loses when a story's sentences are shuffled: how much their order matters
    halves         perplexity of the second half of a story's tokens over that of the first
    surprising     sentences whose tokens cost the judge more than SURPRISE nats on average (1.9% of real stories')
    unparsed       sentences without exactly one root, by the parser that ships
    first          first sentences with exactly one root and a subject, by the same parser
    ended          stories that ended by themselves
    words, hero    content words of the prompt that come back, stories that name their hero: marked in `--titles`,
                   where a word counts in any regular inflection and in the forms given beside it (`lose|lost`)
    D-4, rep-8, rep-16   as in the paper, at as many tokens as the true stories have
"""

import json
import random
import re
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from csv import DictReader
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from smollm import Judge, TokenLosses

from discodvt.corpus import split_sentences
from discodvt.discourse.parsers import load_parser
from discodvt.evaluation import evaluate
from discodvt.evaluation.metrics.word_tokens import tokenize

Floats: TypeAlias = NDArray[np.float64]
Value: TypeAlias = dict[str, float]

SURPRISE = 4.0
RESAMPLES = 2000
SUBJECTS = frozenset("nsubj nsubj:pass nsubj:outer csubj csubj:pass csubj:outer expl".split())


@dataclass(frozen=True, slots=True)
class Title:
    """A prompt people would type, with its hero and content words; each a word or `form|other form`."""

    prompt: str
    split: str
    kind: str
    hero: str
    words: tuple[str, ...]


def read_titles(path: Path) -> dict[str, Title]:
    """The marked prompts of a tab-separated file, by prompt."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [row | {"words": tuple(row["words"].split())} for row in DictReader(lines, delimiter="\t")]
    return {row["prompt"]: Title(**row) for row in rows}


def read_stories(path: Path, limit: int | None = None) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()][:limit]


def ratio(parts: Sequence[Sequence[float]], of: Callable[[Floats], Any], *, seed: int = 0) -> Value:
    """`of` the column sums of `parts` [N, C], with its bootstrap interval over the N stories."""
    table = np.array(parts, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(len(table), size=(RESAMPLES, len(table)))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.nanquantile(of(table[drawn].sum(1).T), [0.025, 0.975])
        return {"value": float(of(table.sum(0))), "low": float(low), "high": float(high), "n": len(table)}


def share(parts: Sequence[tuple[float, float]]) -> Value:
    """First column over second."""
    return ratio(parts, lambda sums: sums[0] / sums[1])


def sentences(text: str) -> list[str]:
    return [text[start:end].strip() for start, end in split_sentences(text)]


def shuffled(story: str) -> str:
    """The sentences of a story in another order, always the same one for the same story."""
    parts = sentences(story)
    random.Random(story).shuffle(parts)
    return " ".join(parts)


def fluency(judge: Judge, stories: Sequence[Mapping[str, str]]) -> dict[str, Value]:
    """What the outside language model says: perplexity, rise, halves, surprising sentences."""
    pairs = [(row["prompt"].strip() + " ", " ".join(sentences(row["story"]))) for row in stories]
    plain = judge.score(pairs)
    mixed = judge.score([(prompt, shuffled(story)) for prompt, story in pairs])
    rows = [
        (each.nll.sum(), len(each.nll), other.nll.sum(), len(other.nll))
        for each, other in zip(plain, mixed, strict=True)
    ]
    halves = [np.array_split(each.nll, 2) for each in plain]
    surprising = [
        np.array([loss > SURPRISE for loss in sentence_losses(story, each)])
        for (_, story), each in zip(pairs, plain, strict=True)
    ]
    return {
        "perplexity": ratio(rows, lambda s: np.exp(s[0] / s[1])),
        "rise": ratio(rows, lambda s: s[2] / s[3] - s[0] / s[1]),
        "halves": ratio(
            [(b.sum(), len(b), a.sum(), len(a)) for a, b in halves], lambda s: np.exp(s[0] / s[1] - s[2] / s[3])
        ),
        "surprising": share([(each.sum(), len(each)) for each in surprising]),
        "stories with a surprising sentence": share([(each.any(), 1) for each in surprising]),
    }


def sentence_losses(story: str, losses: TokenLosses) -> Iterator[float]:
    """Mean NLL of each sentence with at least four tokens, given all before it."""
    for start, end in split_sentences(story):
        of_sentence = losses.nll[(losses.ends > start) & (losses.ends <= end)]
        if len(of_sentence) > 3:
            yield float(of_sentence.mean())


def grammar(stories: Sequence[Mapping[str, str]]) -> dict[str, Value]:
    """What the shipped parser says of sentences."""
    nlp = load_parser().nlp  # type: ignore[attr-defined]
    first, unparsed = [], []
    for row in stories:
        docs = list(nlp.pipe(sentences(row["story"])))
        roots = [[token for token in doc if token.head.i == token.i and not token.is_space] for doc in docs]
        unparsed.append((sum(len(each) != 1 for each in roots), len(roots)))
        whole = bool(roots) and len(roots[0]) == 1 and any(child.dep_ in SUBJECTS for child in roots[0][0].children)
        first.append((whole, 1))
    return {"first": share(first), "unparsed": share(unparsed)}


def faith(stories: Sequence[Mapping[str, str]], titles: Mapping[str, Title]) -> dict[str, Value]:
    """How much of a marked prompt its story has: content words, the hero; also by kind of prompt."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in stories:
        title = titles.get(row["prompt"])
        if title is None:
            continue
        said = [says(row["story"], word) for word in title.words]
        hero = says(row["story"], title.hero)
        for kind in ("", f" ({title.kind})"):
            found.setdefault(f"words{kind}", []).append((sum(said), len(said)))
            found.setdefault(f"hero{kind}", []).append((hero, 1))
    return {name: share(found[name]) for name in sorted(found, key=lambda name: ("(" in name, name))}


def says(story: str, word: str) -> bool:
    """Whether a story has a word: one of its forms, or a regular inflection of one."""
    forms = [form for each in word.lower().split("|") for form in _inflected(each)]
    return re.search(rf"\b(?:{'|'.join(map(re.escape, forms))})\b", story.lower()) is not None


def _inflected(word: str) -> list[str]:
    stem = word[:-1]
    forms = [word, f"{word}s", f"{word}es", f"{word}ed", f"{word}ing", f"{word}{word[-1]}ed", f"{word}{word[-1]}ing"]
    if word.endswith("e"):
        forms += [f"{word}d", f"{stem}ing"]
    if word.endswith("y"):
        forms += [f"{stem}ies", f"{stem}ied"]
    return forms


def variety(stories: Sequence[str], truth: Sequence[str]) -> dict[str, Value]:
    """D-4, rep-8 and rep-16, cut to equal numbers of stories and tokens with the true stories."""
    count = min(len(stories), len(truth))
    tokens, true = ([tokenize(text) for text in texts[:count]] for texts in (stories, truth))
    least = min(sum(map(len, tokens)), sum(map(len, true)))
    kept = least / sum(map(len, tokens))
    scores = evaluate([each[: max(1, round(kept * len(each)))] for each in tokens], true)
    return {
        name: {key: getattr(scores[name], key) for key in ("value", "low", "high", "n")}
        for name in ("D-4", "rep-8", "rep-16")
    }


def measure(
    stories: Sequence[dict[str, Any]],
    *,
    judge: Judge | None,
    titles: Mapping[str, Title],
    truth: Sequence[str] | None,
) -> dict[str, Value]:
    """All measures of one system's stories."""
    found = fluency(judge, stories) if judge else {}
    found |= grammar(stories) | faith(stories, titles)
    if all("finish" in row for row in stories):
        found["ended"] = share([(row["finish"] == "end", 1) for row in stories])
    if truth is not None:
        found |= variety([row["story"] for row in stories], truth)
    found["words per story"] = share([(len(row["story"].split()), 1) for row in stories])
    return found


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("systems", nargs="+", metavar="NAME=STORIES.jsonl")
    parser.add_argument("--truth", help="name of the system that holds the true stories")
    parser.add_argument("--titles", type=Path, help="marked prompts (titles.tsv)")
    parser.add_argument("--cache", type=Path, default=Path("runs/judge-scores.sqlite"))
    parser.add_argument("--no-judge", action="store_true", help="only what needs no language model")
    parser.add_argument("--stories", type=int, help="only the first of each file")
    given = parser.parse_args()
    files = dict(name.split("=", 1) for name in given.systems)
    systems = {name: read_stories(Path(file), given.stories) for name, file in files.items()}
    truth = [row["story"] for row in systems[given.truth]] if given.truth else None
    titles = read_titles(given.titles) if given.titles else {}
    judge = None if given.no_judge else Judge(given.cache)
    found = {}
    for name, stories in systems.items():
        found[name] = measure(stories, judge=judge, titles=titles, truth=truth)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for measured in dict.fromkeys(measured for each in found.values() for measured in each):
        cells = [each.get(measured) for each in found.values()]
        row = [f"{c['value']:.3f} ({c['low']:.3f}-{c['high']:.3f})" if c else "" for c in cells]
        print(f"{measured:36}" + "".join(f"{cell:>26}" for cell in row))


if __name__ == "__main__":
    main()
