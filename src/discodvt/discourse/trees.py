"""A sentence as a dependency tree: the only form in which the patterns see text, whatever parser made it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

VERB_TAGS = frozenset(("VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD"))
PUNCTUATION_TAGS = frozenset((",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP", "$,", "SYM", "_SP"))


@dataclass(slots=True)
class Tree:
    """Tokens of one sentence with Penn tags, dependency labels and head positions; offsets are into the story.

    `heads[i]` is the position of token i's head in the sentence, or -1 at the root.
    """

    words: Sequence[str]  # lower case
    tags: Sequence[str]
    deps: Sequence[str]
    heads: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    children: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.children = [[] for _ in self.words]
        for token, head in enumerate(self.heads):
            if head >= 0:
                self.children[head].append(token)

    def __len__(self) -> int:
        return len(self.words)

    def dependents(self, token: int, labels: Collection[str]) -> Iterator[int]:
        """The children of a token that hang on it by one of the labels, left to right."""
        return (child for child in self.children[token] if self.deps[child] in labels)

    def subtree(self, token: int, *, without: Collection[int] = ()) -> set[int]:
        """The token and all below it, leaving out the subtrees of the tokens in `without`."""
        found: set[int] = set()
        waiting = [token]
        while waiting:
            node = waiting.pop()
            if node not in without and node not in found:
                found.add(node)
                waiting.extend(self.children[node])
        return found

    def is_punctuation(self, token: int) -> bool:
        return self.deps[token] == "punct" or self.tags[token] in PUNCTUATION_TAGS

    def is_verb(self, token: int) -> bool:
        return self.tags[token] in VERB_TAGS

    def is_final_question(self) -> bool:
        return any(word == "?" for word in self.words[-2:])
