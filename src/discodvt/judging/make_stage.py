"""The make stage: a study file and the stories of its systems in, a study directory out.

`items.jsonl` {id, prompt, first, second}: what judges see, under ids that say nothing. `key.json`: which system wrote
which text, which items are checks and what they should be answered; never served. `study.json`: the study file, its
rules. `manifest.json` comes last with a hash over all of them, which every answer carries: nothing can be changed after
the first answer without being noticed.
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from discodvt.artefacts import StageFacts, open_stage, read_manifest
from discodvt.corpus.sentences import split_sentences
from discodvt.errors import BadRequest
from discodvt.evaluation.matching import StoryLine, read_story_lines
from discodvt.judging.study import Study, read_study, study_of
from discodvt.resumable import read_json
from discodvt.writing.story import cut_to_sentence

STAGE = "judge make"
ITEMS, KEY, RULES = "items.jsonl", "key.json", "study.json"
FEWEST_SENTENCES = 4  # of a story whose order is worth shuffling
Place = Literal["first", "second"]
PLACES: tuple[Place, Place] = ("first", "second")
Kind = Literal["pair", "shuffled", "same"]


@dataclass(frozen=True, slots=True)
class Item:
    """Two texts to one prompt, as judges see them."""

    id: str
    prompt: str
    first: str
    second: str

    @property
    def words(self) -> int:
        return len(self.first.split()) + len(self.second.split())


@dataclass(frozen=True, slots=True)
class ItemKey:
    """What judges do not know of an item: its systems, or what a check should be answered on the first question."""

    kind: Kind
    rival: str = ""
    ours: Place = "first"
    expected: Literal["first", "second", "tie", ""] = ""


@dataclass(frozen=True, slots=True)
class StudyDirectory:
    """A finished study directory, read back."""

    path: Path
    study: Study
    hash: str
    items: dict[str, Item]
    key: dict[str, ItemKey]

    @property
    def pairs(self) -> list[str]:
        return [id for id, each in self.key.items() if each.kind == "pair"]

    @property
    def checks(self) -> list[str]:
        return [id for id, each in self.key.items() if each.kind != "pair"]


def make_study(file: Path, out: Path) -> StageFacts:
    """Write the study directory; the same study again finds it complete, any other is refused."""
    study = read_study(file)
    paths = {name: file.parent / path for name, path in study.systems.items()}
    people = file.parent / study.checks.stories if study.checks.stories is not None else None
    inputs = [file, *paths.values(), *([people] if people else [])]
    missing = next((path for path in inputs if not path.is_file()), None)
    if missing is not None:
        raise BadRequest(f"{missing}: no such file; {file} names it")
    with open_stage(out, STAGE, config=study.model_dump(mode="json"), inputs=list(dict.fromkeys(inputs))) as stage:
        if stage.complete:
            return StageFacts(stage.facts, already_complete=True)
        with stage.abandoned_if_wrong():
            chance = random.Random(f"{study.seed} items")
            stories = {name: _by_key(read_story_lines(path), study) for name, path in paths.items()}
            chosen = _shared_prompts(stories, study, file, chance)
            pairs = _pairs(study, stories, chosen, chance)
            made = [*pairs, *_checks(study, len(pairs), people, stories[study.ours], chosen, chance)]
        chance.shuffle(made)
        lines = "".join(json.dumps(asdict(item), ensure_ascii=False) + "\n" for item, _ in made)
        content = {
            ITEMS: lines,
            KEY: _dumped({item.id: asdict(key) for item, key in made}),
            RULES: _dumped(study.model_dump(mode="json")),
        }
        for name, text in content.items():
            with stage.writing(name) as path:
                path.write_text(text, encoding="utf-8")
                path.chmod(0o600)
        kinds = [key.kind for _, key in made]
        stage.finish(study=_hash(content.values()), items=kinds.count("pair"), checks=len(kinds) - kinds.count("pair"))
        return StageFacts(stage.facts)


def open_study(directory: Path) -> StudyDirectory:
    """Read a study directory; one whose files were changed since it was made is refused."""
    facts = read_manifest(directory, STAGE)["facts"]
    try:
        content = {name: (directory / name).read_text(encoding="utf-8") for name in (ITEMS, KEY, RULES)}
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{directory}: cannot be read ({error}); make the study again elsewhere") from None
    if _hash(content.values()) != facts["study"]:
        raise BadRequest(f"{directory}: its files were changed after `judge make`; make the study again elsewhere")
    items = [Item(**json.loads(line)) for line in content[ITEMS].split("\n")[:-1]]  # U+2028 in a text ends no line
    return StudyDirectory(
        path=directory,
        study=study_of(read_json(directory / RULES), str(directory / RULES)),
        hash=facts["study"],
        items={item.id: item for item in items},
        key={id: ItemKey(**each) for id, each in json.loads(content[KEY]).items()},
    )


def shown(text: str, max_words: int) -> str:
    """A story as judges see it, by one rule for all systems: white space made even, cut to whole sentences."""
    lines = (re.sub(r"\s+", " ", line).strip() for line in re.split(r"\n\s*", text.strip()))
    even = "\n".join(line for line in lines if line)
    words = list(re.finditer(r"\S+", even))
    return cut_to_sentence(even[: words[max_words - 1].end()], 0) if 0 < max_words < len(words) else even


def _by_key(stories: Sequence[StoryLine], study: Study) -> dict[str, StoryLine]:
    """The first story of each id or prompt."""
    found: dict[str, StoryLine] = {}
    for story in stories:
        name = story.id if study.match == "id" else story.prompt
        if name is None:
            raise BadRequest(f"{story.where}: no {study.match} to match by; add it, or set match in the study file")
        found.setdefault(name, story)
    return found


def _shared_prompts(
    stories: dict[str, dict[str, StoryLine]], study: Study, file: Path, chance: random.Random
) -> list[str]:
    first, *others = stories.values()
    shared = [name for name in first if all(name in other for other in others)]
    if not shared:
        raise BadRequest(f"{file}: the systems share no {study.match}; give stories to the same prompts")
    if len(shared) < study.items:
        raise BadRequest(
            f"{file}: items = {study.items}, but the systems share {len(shared)} {study.match}s; ask for fewer items"
        )
    return chance.sample(shared, study.items)


def _pairs(
    study: Study, stories: dict[str, dict[str, StoryLine]], chosen: Sequence[str], chance: random.Random
) -> list[tuple[Item, ItemKey]]:
    """An item for each prompt and rival; ours comes first in half of each rival's items."""
    made = []
    for rival in study.rivals:
        half = len(chosen) // 2 + (len(chosen) % 2 and chance.randrange(2))
        places = [PLACES[0]] * half + [PLACES[1]] * (len(chosen) - half)
        chance.shuffle(places)
        for name, ours in zip(chosen, places, strict=True):
            texts = [shown(stories[system][name].story, study.max_words) for system in (study.ours, rival)]
            first, second = texts if ours == "first" else texts[::-1]
            prompt = stories[study.ours][name].prompt or ""
            made.append((Item(_id(chance), prompt, first, second), ItemKey("pair", rival=rival, ours=ours)))
    return made


def _checks(
    study: Study,
    pairs: int,
    people: Path | None,
    ours: dict[str, StoryLine],
    chosen: Sequence[str],
    chance: random.Random,
) -> Iterator[tuple[Item, ItemKey]]:
    """As many checks as one judge of all items needs: people's stories shuffled, and in turn one text twice."""
    if study.checks.every == 0:
        return
    if study.checks.every == 1:
        raise BadRequest("checks.every = 1: all would be checks; give 2 or more, or 0 for none")
    wanted = -(-min(study.items_per_judge or pairs, pairs) // (study.checks.every - 1))
    tie = study.questions[0].tie
    if people is None and not tie:
        raise BadRequest("checks: without checks.stories the first question needs tie = true; or set checks.every = 0")
    source = read_story_lines(people) if people else [ours[name] for name in chosen]
    chance.shuffle(source)
    for number in range(wanted):
        story = source[number % len(source)]
        text = shown(story.story, study.max_words)
        sentences = mixed = [text[start:end].strip() for start, end in split_sentences(text)]
        told_apart = len(sentences) >= FEWEST_SENTENCES and len(set(sentences)) > 1
        if people is not None and told_apart and (number % 2 == 0 or not tie):
            while mixed == sentences:
                mixed = chance.sample(sentences, len(sentences))
            texts = [" ".join(sentences), " ".join(mixed)]
            place = PLACES[chance.randrange(2)]
            first, second = texts if place == "first" else texts[::-1]
            yield Item(_id(chance), story.prompt or "", first, second), ItemKey("shuffled", expected=place)
        elif tie:
            yield Item(_id(chance), story.prompt or "", text, text), ItemKey("same", expected="tie")
        else:
            raise BadRequest(
                f"{story.where}: fewer than {FEWEST_SENTENCES} sentences, or one again and again; "
                "give longer stories for checks, or allow ties"
            )


def _id(chance: random.Random) -> str:
    return f"{chance.getrandbits(64):016x}"


def _dumped(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _hash(texts: Any) -> str:
    return sha256("\0".join(texts).encode()).hexdigest()
