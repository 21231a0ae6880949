"""Entities of a story by rule, in place of a coreference model: names, nouns introduced by `a`, he and she.

- A name is a run of proper nouns; titles do not count, and a name contained in another is the same one.
- `the N` is the last `a N` before it; `a girl named Ann`, `a dog, Rex,` and `his name was Rex` join name and noun.
- he and she are the nearest entity known to be male or female: by its title, its noun, or (names and creatures) by
  the pronouns of the sentences in which it is the subject. Nobody is both `Tom` and `him` of "Tom saw him". Where
  nobody is found they stay as they are until somebody of their gender is named; so do it, they and I.
Only entities with at least two mentions count.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from discodvt.baselines.events import subject_of
from discodvt.baselines.mentions import Mention, find_mentions
from discodvt.discourse.trees import Tree

_CREATURES = frozenset(  # whose gender pronouns may tell; without a list every breeze that lifts her hair is a she
    "person child kid baby teenager student teacher doctor nurse farmer soldier guard officer captain pilot driver "
    "baker artist painter writer poet singer hero villain thief stranger friend neighbor neighbour enemy leader "
    "ghost monster dragon giant fairy elf dwarf robot alien angel demon god goddess animal creature cat kitten dog "
    "puppy bird owl fox wolf bear rabbit bunny mouse rat squirrel lion tiger elephant monkey frog toad turtle "
    "tortoise fish whale dolphin horse pony donkey cow pig sheep goat duck duckling goose swan hen chicken crow "
    "eagle parrot snake lizard spider ant bee butterfly caterpillar worm snail deer hedgehog unicorn dinosaur panda "
    "crab".split()
)
_SENTENCES_BACK = 3  # how far a pronoun looks for its entity


@dataclass(slots=True)
class _Entity:
    names: list[tuple[str, ...]] = field(default_factory=list)
    noun: tuple[str, ...] = ()
    adjectives: frozenset[str] = frozenset()
    gender: str = ""
    votes: Counter[str] = field(default_factory=Counter)  # of pronouns, for a gender


def find_entities(trees: Sequence[Tree | None], text: str) -> list[Mention]:
    """The mentions of all entities with at least two, in the order of the text, each with the number of its entity.

    Numbers only tell entities apart. Offsets of the trees are into the text.
    """
    mentions = find_mentions(trees, text)
    entities = _join(mentions, trees)
    _learn_genders(mentions, entities, trees)
    _join_pronouns(mentions, entities, trees)
    counts = Counter(mention.entity for mention in mentions)
    return [mention for mention in mentions if mention.entity >= 0 and counts[mention.entity] > 1]


def _join(mentions: Sequence[Mention], trees: Sequence[Tree | None]) -> list[_Entity]:
    """Give names and nouns their entities."""
    entities: list[_Entity] = []
    recent: list[int] = []  # the entity last mentioned comes last
    previous: Mention | None = None
    for mention in mentions:
        if mention.kind == "pronoun":
            continue
        number = None
        if mention.kind == "name":
            number = _same_name(mention, entities, recent)
        elif mention.kind == "known":
            number = _same_noun(mention, entities)
            if number is None:
                continue
        tree = trees[mention.sentence]
        if number is None and previous is not None and tree is not None and _is_named(tree, previous, mention):
            number = previous.entity
        if number is None:
            number = len(entities)
            entities.append(_Entity())
        entity = entities[number]
        if mention.kind == "name":
            entity.names.append(mention.words)
        elif mention.kind == "new":
            entity.noun, entity.adjectives = mention.words, mention.adjectives
        entity.gender = entity.gender or mention.gender
        mention.entity = number
        recent = [*(n for n in recent if n != number), number]
        previous = mention
    return entities


def _same_name(mention: Mention, entities: Sequence[_Entity], recent: Sequence[int]) -> int | None:
    """The entity last mentioned whose name holds this one or is held by it, unless one is a man, one a woman."""
    for number in reversed(recent):
        entity = entities[number]
        if {entity.gender, mention.gender} != {"m", "f"} and any(
            _holds(name, mention.words) or _holds(mention.words, name) for name in entity.names
        ):
            return number
    return None


def _holds(long: tuple[str, ...], short: tuple[str, ...]) -> bool:
    return any(long[at : at + len(short)] == short for at in range(len(long) - len(short) + 1))


def _same_noun(mention: Mention, entities: Sequence[_Entity]) -> int | None:
    """The last entity introduced by this noun; before that, one of just this noun ("bird" is no "baby bird") and one
    introduced with the same adjectives."""
    nouns = [entity.noun for entity in entities]
    fitting = [n for n, noun in enumerate(nouns) if noun[-len(mention.words) :] == mention.words]
    return max(
        fitting,
        key=lambda n: (nouns[n] == mention.words, mention.adjectives <= entities[n].adjectives, n),
        default=None,
    )


def _is_named(tree: Tree, noun: Mention, name: Mention) -> bool:
    """`a girl named Ann`, `a dog, Rex,`: whether a name is that of the noun mentioned just before."""
    if noun.kind != "new" or name.kind != "name" or noun.sentence != name.sentence:
        return False
    tokens = range(name.first, name.last + 1)
    naming = {child for child in tree.dependents(noun.head, ("acl",)) if tree.words[child] in ("named", "called")}
    apposed = any(tree.deps[token] == "appos" and tree.heads[token] == noun.head for token in tokens)
    return apposed or not naming.isdisjoint(tree.heads[token] for token in tokens)


def _learn_genders(mentions: Sequence[Mention], entities: Sequence[_Entity], trees: Sequence[Tree | None]) -> None:
    """Pronouns vote for the subject nearest before them, in their sentence or the one before; two thirds decide."""
    subject: Mention | None = None
    for mention in mentions:
        tree = trees[mention.sentence]
        if tree is None:
            continue
        if mention.kind == "pronoun":
            if subject is not None and _excluded(tree, mention, subject):
                subject = None  # another he: what follows may mean him
            elif subject is not None and mention.sentence - subject.sentence < 2:
                entities[subject.entity].votes[mention.gender] += 1
        elif mention.entity >= 0 and _may_be_he_or_she(entities[mention.entity]):
            labels = (tree.deps[token] for token in range(mention.first, mention.last + 1))
            if any(label in ("nsubj", "nsubj:pass") for label in labels):
                subject = mention
    for entity in entities:
        if not entity.gender and entity.votes:
            (gender, votes), *_ = entity.votes.most_common()
            entity.gender = gender if 3 * votes > 2 * entity.votes.total() else ""


def _may_be_he_or_she(entity: _Entity) -> bool:
    return bool(entity.names or entity.gender or _CREATURES.intersection(entity.noun[-1:]))


def _excluded(tree: Tree, pronoun: Mention, other: Mention) -> bool:
    """Whether a pronoun cannot mean another mention because that is the subject of its verb: "Tom saw him"."""
    verb = tree.heads[pronoun.head]
    if other.sentence != pronoun.sentence or verb < 0 or tree.deps[pronoun.head] not in ("obj", "iobj", "obl"):
        return False
    subject = subject_of(tree, verb)
    return (
        subject is not None and other.first <= subject <= other.last and not tree.words[pronoun.head].endswith("self")
    )


def _join_pronouns(mentions: Sequence[Mention], entities: Sequence[_Entity], trees: Sequence[Tree | None]) -> None:
    """Give each pronoun the nearest entity of its gender; a name said to be his or hers is that entity's."""
    nearest: dict[str, list[Mention]] = {"m": [], "f": []}  # the last one comes last
    renamed: dict[int, int] = {}
    before: Mention | None = None
    for mention in mentions:
        tree = trees[mention.sentence]
        if mention.kind == "pronoun" and tree is not None:
            mention.entity = _meant(tree, mention, nearest[mention.gender])
        elif before is not None and before.entity >= 0 and _says_name(tree, before, mention):
            renamed[mention.entity] = before.entity
        mention.entity = renamed.get(mention.entity, mention.entity)
        gender = entities[mention.entity].gender if mention.entity >= 0 else mention.gender
        if gender and (mention.entity >= 0 or mention.kind == "pronoun"):
            nearest[gender].append(mention)
        before = mention


def _meant(tree: Tree, pronoun: Mention, before: Sequence[Mention]) -> int:
    """The entity of the nearest mention a pronoun may mean, or -1; a pronoun that means nobody known hides the rest."""
    recent = list(takewhile(lambda other: pronoun.sentence - other.sentence <= _SENTENCES_BACK, reversed(before)))
    barred = {other.entity for other in recent if _excluded(tree, pronoun, other)}
    return next((other.entity for other in recent if other.entity not in barred), -1)


def _says_name(tree: Tree | None, pronoun: Mention, name: Mention) -> bool:
    """`His name was Rex.`"""
    if tree is None or pronoun.kind != "pronoun" or name.kind != "name" or pronoun.sentence != name.sentence:
        return False
    noun = tree.heads[pronoun.head]
    return tree.words[noun] == "name" and tree.deps[noun] == "nsubj" and tree.heads[noun] == name.head
