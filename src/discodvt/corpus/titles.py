"""Titles for stories that have none, made of a story's own main characters and things by rule.

    a story of a fox and its hat -> "The Fox Who Lost His Hat", "The fox and the hat", "The Clever Fox", ...

A noun is the last word of a short run of plain words after an article or possessive; a name is a capitalised word
inside a sentence. Which pattern is used, and its capitals, are drawn from the story itself: the same story always gets
the same title.
"""

import re
from collections import Counter
from random import Random
from zlib import crc32

_FUNCTION_WORDS = frozenset(
    """a an the this that these those his her its their my your our some any no every each all both
    i you he she it we they him them me us himself herself itself themselves who which what where when why how
    and or but so because if then than as while until before after although though still also too very just only even
    of in on at to from with without by for about into onto over under up down out off near around through across behind
    inside outside away back again there here now soon never always not is are was were be been being am has have had
    do does did can could will would shall should may might must went came saw said got ran made took gave found felt
    knew thought told heard kept held stood sat fell flew grew began became brought bought caught ate drank met lost
    left let put sang slept spoke swam threw wore won broke fed hid led rode rose shone shook smelt spent stuck swung
    woke asks says goes comes like one two three four five ten many much more most other another such own same own
    something someone anything everything nothing everyone yes no oh once upon""".split()
)
_NOT_MAIN = frozenset(
    """day days morning night evening afternoon time times way thing things lot bit end place side top middle moment
    while rest part kind next first last idea name minute minutes hour hours week year years moral lesson ground
    mom mommy mum dad daddy friend friends adventure chance group""".split()
)
_SMALL = ("and", "the", "a", "an", "of")  # also in a title in capitals
_NOT_NAMES = frozenset("I I'm I'll I'd I've Mr Mrs Miss Dr".split())
_PHRASE = re.compile(r"\b(?:[Aa]n?|[Tt]he|[Hh]is|[Hh]er|[Ii]ts|[Tt]heir) ((?:[a-z]+ ){0,3}[a-z]+)")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+\b")
_DEEDS = (
    "lost|found|saw|made|wanted|loved|had|ate|took|broke|met|caught|heard|built|bought|hid|shared|helped|gave|forgot"
)


def make_title(story: str) -> str | None:
    """A title of this story's own words, or None where no character or thing stands out."""
    draw = Random(f"title {story}".encode(errors="replace"))  # half a character has no bytes
    nouns, adjectives = _things(story)
    names = Counter(name for name in _NAME.findall(story) if name not in _NOT_NAMES)
    name = next((name for name, count in names.most_common(1) if count > 1), None)
    patterns = list(_patterns(name, nouns, adjectives))
    deed = _deed(story, nouns)
    if deed and draw.random() < 0.8:
        patterns = [deed]
    if not patterns:
        return None
    title = draw.choice(patterns)
    if draw.random() < 0.5:
        words = [word if word in _SMALL else word[0].upper() + word[1:] for word in title.split()]
        title = " ".join(words)
    return title[0].upper() + title[1:]


def wants_title(story: str) -> bool:
    """Whether this story is of the half that gets a title; drawn from the story itself."""
    return crc32(story.encode(errors="replace")) % 2 == 0


def _things(story: str) -> tuple[list[str], dict[str, str]]:
    """The nouns met at least twice, the most frequent first, and an adjective for some."""
    counts: Counter[str] = Counter()
    adjectives: dict[str, Counter[str]] = {}
    for phrase in _PHRASE.findall(story):
        run: list[str] = []
        for word in phrase.split():
            if word in _FUNCTION_WORDS or (run and word.endswith(("ed", "ly", "ing"))):
                break
            run.append(word)
        if run and len(run) < 4 and run[-1] not in _NOT_MAIN:
            counts[run[-1]] += 1
            if len(run) == 2:
                adjectives.setdefault(run[-1], Counter())[run[0]] += 1
    nouns = [noun for noun, count in counts.most_common(4) if count > 1]
    return nouns, {noun: adjectives[noun].most_common(1)[0][0] for noun in nouns if noun in adjectives}


def _patterns(name: str | None, nouns: list[str], adjectives: dict[str, str]) -> list[str]:
    described = [f"{adjectives[noun]} {noun}" for noun in nouns[:2] if noun in adjectives]
    titles = [f"the {phrase}" for phrase in described]
    if name:
        titles += [f"{name} and the {thing}" for thing in nouns[:3] + described]
        titles += [f"{name}'s {thing}" for thing in nouns[:2]]
    if len(nouns) > 1:
        titles += [f"the {nouns[0]} and the {other}" for other in nouns[1:3]]
    elif nouns and not name:
        titles.append(f"the {nouns[0]}")
    return titles


def _deed(story: str, nouns: list[str]) -> str | None:
    """ "the fox who lost his hat": the first such sentence about a main character."""
    for hero in nouns[:2]:
        found = re.search(
            rf"\b[Tt]he (?:[a-z]+ )?{hero} ({_DEEDS}) (an?|the|his|her|its|some) ((?:[a-z]+ )?)([a-z]+)\b(?! [A-Z])",
            story,
        )
        if found:
            verb, article, first, second = found.groups()
            thing = first.strip() if first and second in _FUNCTION_WORDS else first + second
            if thing.split()[-1] not in _FUNCTION_WORDS | _NOT_MAIN:
                return f"the {hero} who {verb} {article} {thing}"
    return None
