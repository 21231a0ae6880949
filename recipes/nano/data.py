"""The storyteller's corpus: stories with the prompts people type, from `tiny/`, `tales/` and sampled stories.

usage: python recipes/nano/data.py DATA OUT [--more FILE.jsonl ...]

Reads DATA/tiny/{train,valid,test,real_test}.jsonl.gz, DATA/tales/tales.jsonl.gz and files of more stories (those of
`more_stories.py` bring their titles). Writes OUT/{train,valid,test}.jsonl with `prompt` and `story`, for
`discodvt prepare jsonl OUT/corpus --train OUT/train.jsonl --valid ... --test ...`, and prints what came from where.

- A story of `tiny/` gets its first sentence as the prompt, or (half of them) a title made of its own words.
- A sampled story gets its title, a sentence about it, or its opening. A title stays with the whole story; an opening is
  taken off it. Titles are typed in several ways: capitals or none, "A story about ...".
- Every other story whose hero stands in the prompt gets a new hero, in prompt and story: a name nobody has, or another
  animal or person. What the hero is called can then not be told by the story's plan or the model's habits: it must be
  read off the prompt. A sampled story comes twice, with another kind of prompt and another hero.
- A tale is cut into pieces for 512 positions: the first has its title if the piece is about it, a later one the
  sentence before. A piece that does not end its tale is longer than the model's limit: it is cut without an end.
- Sampled stories that share text with held-out ones (`valid`, `test`, `real_test`) are left out, and whatever prompt
  stands in `titles.tsv`.
"""

import gzip
import json
import random
import re
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from judge import read_titles, says
from seeds import HEROES, RARE_HEROES, invented_name

from discodvt.corpus import first_sentence, split_sentences
from discodvt.corpus.titles import make_title, wants_title

PIECE_WORDS, PAST_LIMIT_WORDS, PIECES_PER_TALE = 330, 560, 2
SHINGLE_WORDS, SHARED = 10, 0.3
SHARES = {"title": 0.5, "about": 0.2, "opening": 0.3}
NEW_HEROES = 0.5
ABOUT = ("a story about {}", "A story about {}", "tell me about {}", "Tell me a story about {}", "Write about {}")
_FUNCTION_WORDS = frozenset("a an the of and or in on at to from with by for who that which his her its their".split())
_ANY_HERO = frozenset(HEROES)

Example = dict[str, str]


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a .jsonl or .jsonl.gz file."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def of_plain(row: dict[str, Any]) -> Example:
    """A story without a title: its first sentence, or a title of its own words."""
    story = row["story"].strip()
    title = make_title(story) if wants_title(story) else None
    if title:
        return {"prompt": title, "story": story}
    opening, rest = first_sentence(story)
    return {"prompt": opening, "story": rest.strip()}


def of_titled(row: dict[str, Any]) -> Iterator[Example]:
    """Two examples of a sampled story that has a title, a sentence about it and an opening."""
    rng = random.Random(row["story"])
    kinds = rng.choices(list(SHARES), list(SHARES.values()), k=2)
    for kind in kinds if kinds[0] != kinds[1] else kinds[:1]:
        if kind == "opening":
            example = {"prompt": row["opening"], "story": row["story"].removeprefix(row["opening"]).strip()}
        else:
            example = {"prompt": as_typed(row[kind], rng), "story": row["story"]}
        yield with_new_hero(example, row["hero"], rng)


def with_new_hero(example: Example, hero: str | None, rng: random.Random) -> Example:
    """Half of the time another hero, named alike in prompt and story."""
    if hero is None or rng.random() > NEW_HEROES or not says(example["prompt"], hero):
        return example
    if hero[0].isupper():
        new = invented_name(rng)
    else:
        new = rng.choice(RARE_HEROES if rng.random() < 0.5 else [word for word in HEROES if "_" not in word])
    return {field: _renamed(text, hero, new) for field, text in example.items()}


def _renamed(text: str, old: str, new: str) -> str:
    """A word and its plural exchanged, with its article and capitals."""

    def exchanged(found: re.Match[str]) -> str:
        article, gap, word, plural = found[1] or "", found[2] or "", found[3], found[4] or ""
        if article.lower() in ("a", "an"):
            article = article[0] + ("n" if new[0].lower() in "aeiou" else "")
        return article + gap + (new[0].upper() + new[1:] if word[0].isupper() else new) + ("s" if plural else "")

    return re.sub(rf"(?:\b([Aa]n?)(\s+))?\b({re.escape(old)})(e?s)?\b", exchanged, text, flags=re.IGNORECASE)


def hero_of(example: Example) -> str | None:
    """A name of the prompt that the story says again inside sentences, or an animal or person of both."""
    names = Counter(re.findall(r"(?<=[a-z,;] )[A-Z][a-z]+\b", example["story"])).most_common()
    words = Counter(word for word in re.findall(r"[a-z]+", example["story"]) if word in _ANY_HERO).most_common()
    return next((word for word, count in names + words if count > 1 and says(example["prompt"], word)), None)


def as_typed(title: str, rng: random.Random) -> str:
    """A title in one of the ways people type it."""
    way = rng.random()
    if way < 0.15 and title.startswith(("The ", "A ", "An ")):
        about = re.sub(r"^The ([aeiou]?)", lambda found: f"a{'n' if found[1] else ''} {found[1]}", title)
        return rng.choice(ABOUT).format(about[0].lower() + about[1:])
    if way < 0.35:
        return " ".join(word if word in _FUNCTION_WORDS else word[0].upper() + word[1:] for word in title.split())
    if way < 0.45:
        return title[0].lower() + title[1:]
    return f"{title}." if way < 0.55 else title


def of_tale(row: dict[str, Any]) -> Iterator[Example]:
    """The first pieces of a tale, each with a prompt."""
    text = row["story"].strip()
    spans, counts = split_sentences(text), [len(text[start:end].split()) for start, end in split_sentences(text)]
    start = 0
    for number in range(PIECES_PER_TALE):
        if start >= len(spans):
            return
        past = _after(counts, start, PAST_LIMIT_WORDS)
        piece = text[spans[start][0] : spans[past - 1][1]].strip()
        title = row["title"].strip()
        content = [word for word in re.findall(r"[\w']+", title.lower()) if word not in _FUNCTION_WORDS]
        if number:
            yield {"prompt": text[slice(*spans[start - 1])].strip(), "story": piece}
        elif content and sum(says(piece, word) for word in content) >= len(content) / 2:
            yield {"prompt": title, "story": piece}
        elif start + 1 < past:
            opening, rest = first_sentence(piece)
            yield {"prompt": opening, "story": rest.strip()}
        start = _after(counts, start, PIECE_WORDS)


def _after(counts: Sequence[int], start: int, words: int) -> int:
    """The sentence after those that have at least so many words, from `start` on."""
    total = 0
    for place in range(start, len(counts)):
        total += counts[place]
        if total >= words:
            return place + 1
    return len(counts)


class HeldOut:
    """Runs of words of the held-out stories, to tell new stories from old ones."""

    def __init__(self, stories: Iterable[str]) -> None:
        self._shingles = {shingle for story in stories for shingle in self._of(story)}

    def holds(self, story: str) -> bool:
        """Whether a good part of a story's runs of ten words stand in held-out stories."""
        shingles = list(self._of(story))
        return sum(shingle in self._shingles for shingle in shingles) > SHARED * len(shingles)

    @staticmethod
    def _of(story: str) -> Iterator[int]:
        words = re.findall(r"\w+", story.lower())
        return (hash(tuple(words[n : n + SHINGLE_WORDS])) for n in range(max(1, len(words) - SHINGLE_WORDS + 1)))


def prepare(data: Path, out: Path, more: Sequence[Path], titles: Path) -> Counter[str]:
    """Write the three files; returns how many examples came from where, and were left out."""
    tiny = {
        name: list(read_rows(data / "tiny" / f"{name}.jsonl.gz")) for name in ("train", "valid", "test", "real_test")
    }
    held_out = HeldOut(row["story"] for name in ("valid", "test", "real_test") for row in tiny[name])
    kept_out = {prompt.lower().rstrip(".") for prompt in read_titles(titles)}
    counts: Counter[str] = Counter()

    def is_kept_out(prompt: str) -> bool:
        return prompt.lower().rstrip(".") in kept_out

    def train() -> Iterator[tuple[str, Example]]:
        for row in tiny["train"]:
            example = of_plain(row)
            yield "tiny", with_new_hero(example, hero_of(example), random.Random(row["story"]))
        for path in more:
            for row in read_rows(path):
                if held_out.holds(row["story"]):
                    counts["left out: held-out text"] += 1
                elif any(is_kept_out(row.get(kind, "")) for kind in SHARES):
                    counts["left out: prompt of titles.tsv"] += 1
                elif "title" in row:
                    yield from (("sampled for titles", example) for example in of_titled(row))
                else:
                    yield "sampled", of_plain(row)
        for row in read_rows(data / "tales" / "tales.jsonl.gz"):
            yield from (("tales", example) for example in of_tale(row))

    out.mkdir(parents=True, exist_ok=True)
    splits = {"train": train(), **{name: (("tiny", of_plain(row)) for row in tiny[name]) for name in ("valid", "test")}}
    for name, examples in splits.items():
        with (out / f"{name}.jsonl").open("w", encoding="utf-8") as lines:
            for source, example in examples:
                if name == "train" and is_kept_out(example["prompt"]):
                    counts["left out: prompt of titles.tsv"] += 1
                elif example["prompt"] and example["story"]:
                    counts[f"{name}: {source}"] += 1
                    lines.write(json.dumps(example | {"source": source}, ensure_ascii=False) + "\n")
    return counts


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="files of sampled stories")
    parser.add_argument("--titles", type=Path, default=Path(__file__).with_name("titles.tsv"))
    given = parser.parse_args()
    for what, count in prepare(given.data, given.out, given.more, given.titles).items():
        print(f"{what}: {count:,}")
