"""What may name somebody or something in a story: names, nouns with an article, he and she (see `entities`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from discodvt.baselines.events import is_time
from discodvt.discourse.trees import Tree

_MALE = frozenset(
    "mr sir lord king prince duke baron count emperor father dad daddy papa pa grandpa grandfather granddad "
    "brother son uncle nephew husband grandson boy gentleman guy lad wizard he him his himself".split()
)
_FEMALE = frozenset(
    "mrs ms miss madam madame lady queen princess duchess baroness countess empress mother mom mommy mum mama ma "
    "grandma grandmother granny sister daughter aunt auntie niece wife granddaughter girl witch she her hers "
    "herself".split()
)
_PRONOUNS = frozenset("he him his himself she her hers herself".split())
_TITLES = frozenset(  # A's list (`general_preprocessing.py`) and what stories have besides
    "mr mrs miss ms sir lady lord dr doctor general captain father count countess baron baroness king queen "
    "prince princess madam earl duke duchess professor colonel major sergeant uncle aunt old little".split()
)
_FAMILY = frozenset("mom mommy mum mama mother dad daddy papa father grandma grandpa granny grandmother".split())
_INSIDE = frozenset(", ; - – — ( [".split())  # punctuation after which a capital is no beginning
_NO_ENTITIES = frozenset("lot bit way kind sort thing something while few couple lots rest end idea".split())


@dataclass(slots=True)
class Mention:
    """Tokens `first` to `last` of a sentence, headed by `head`."""

    sentence: int
    first: int
    last: int
    head: int
    kind: str  # "name", "new" (a N), "known" (the N) or "pronoun"
    words: tuple[str, ...] = ()  # lower case, without titles, articles and adjectives
    adjectives: frozenset[str] = frozenset()
    gender: str = ""  # "m", "f" or not known
    entity: int = -1


def find_mentions(trees: Sequence[Tree | None], text: str) -> list[Mention]:
    """All candidates in the order of the text; offsets of the trees are into it."""
    names = _name_tokens(trees, text)
    found = (_in_sentence(tree, names[number], number) for number, tree in enumerate(trees) if tree is not None)
    return list(chain.from_iterable(sorted(part, key=lambda mention: mention.first) for part in found))


def _in_sentence(tree: Tree, names: set[int], number: int) -> Iterator[Mention]:
    taken = -1
    for token, tag in enumerate(tree.tags):
        if token <= taken:
            continue
        word = tree.words[token]
        if token in names:
            taken = token
            while taken + 1 in names and _are_one_name(tree, token, taken):
                taken += 1
            words = tuple(part.rstrip(".") for part in tree.words[token : taken + 1])
            gender = next(filter(None, map(_gender_of, words)), "")
            while len(words) > 1 and words[0] in _TITLES:
                words = words[1:]
            yield Mention(number, token, taken, taken, "name", words, gender=gender)
        elif word in _PRONOUNS and tag in ("PRP", "PRP$"):
            yield Mention(number, token, token, token, "pronoun", gender=_gender_of(word))
        elif tag == "NN" and tree.deps[token] != "compound" and word not in _NO_ENTITIES and not is_time(tree, token):
            article = next((child for child in tree.dependents(token, ("det",)) if child < token), token)
            if tree.words[article] in ("a", "an", "the") and names.isdisjoint(range(article, token)):
                kind = "known" if tree.words[article] == "the" else "new"
                compounds = [tree.words[child] for child in tree.dependents(token, ("compound",)) if child < token]
                adjectives = frozenset(tree.words[child] for child in tree.dependents(token, ("amod",)))
                words = (*compounds, word)
                yield Mention(number, article, token, token, kind, words, adjectives, _gender_of(word))


def _gender_of(word: str) -> str:
    if word in _FEMALE or word.endswith("woman"):
        return "f"
    return "m" if word in _MALE or (word.endswith("man") and word != "human") else ""


def _name_tokens(trees: Sequence[Tree | None], text: str) -> list[set[int]]:
    """Proper nouns with a capital, and capitals of a word that is a proper noun elsewhere; taggers miss some.

    A capital at the start of a sentence proves nothing: a word that stands in small letters elsewhere is no name there,
    except `Mom` and the like.
    """
    capitals = [_capitals(tree, text) if tree is not None else {} for tree in trees]
    pairs = [(tree, found) for tree, found in zip(trees, capitals, strict=True) if tree is not None]
    names = {tree.words[t] for tree, found in pairs for t, first in found.items() if not first and _is_proper(tree, t)}
    words = {word for tree, found in pairs for token, word in enumerate(tree.words) if token not in found}
    small = words - _FAMILY
    return [
        {
            token
            for token, first in found.items()
            if tree.words[token] in names or (_is_proper(tree, token) and not (first and tree.words[token] in small))
        }
        if tree is not None
        else set()
        for tree, found in zip(trees, capitals, strict=True)
    ]


def _capitals(tree: Tree, text: str) -> dict[int, bool]:
    """The tokens with a capital (I is none), and whether each is the first word of its sentence or of a quotation."""
    return {
        token: token == 0 or (tree.is_punctuation(token - 1) and tree.words[token - 1] not in _INSIDE)
        for token, start in enumerate(tree.starts)
        if text[start].isupper() and tree.words[token] != "i"
    }


def _is_proper(tree: Tree, token: int) -> bool:
    """Tagged as a proper noun; `Mom` and `Dad` are names unless they are somebody's."""
    if tree.tags[token] in ("NNP", "NNPS"):
        return True
    bare = next(tree.dependents(token, ("det", "nmod:poss", "amod", "compound")), None) is None
    return tree.words[token] in _FAMILY and bare


def _are_one_name(tree: Tree, first: int, last: int) -> bool:
    """Whether the token after `last` belongs to the name `first` .. `last`."""
    following = last + 1
    if tree.deps[following] == "flat" and first <= tree.heads[following] <= last:
        return True
    joins = tree.deps[last] in ("compound", "nmod:desc", "flat")
    return joins and (tree.heads[last] >= following or tree.heads[last] == tree.heads[following])
