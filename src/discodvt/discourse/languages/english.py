"""English: the ten markers of the paper (appendix A.3.2), with the tags of the Penn Treebank."""

from typing import TYPE_CHECKING

from discodvt.discourse.language import Language, Marker, words

if TYPE_CHECKING:
    from discodvt.discourse.trees import Scheme, Tree

MARKERS = {
    "although": Marker("although", "subordinator"),
    "because": Marker("because", "subordinator"),
    "before": Marker("before", "subordinator"),
    "after": Marker("after", "subordinator"),
    "as": Marker("as", "subordinator"),
    "so": Marker("so", "adverb", opens_clause=True, also_conjunction=True),
    "then": Marker("then", "adverb"),
    "also": Marker("also", "adverb"),
    "still": Marker("still", "adverb", opens_clause=True, before_fragments=True),
    "and": Marker("and", "coordinator"),
}


def in_longer_connective(tree: "Tree", scheme: "Scheme", token: int) -> bool:
    """so that, as if, as though, as long/soon/fast as, if ... then, not only ... but also."""
    words, marker = tree.words, tree.words[token]
    following = words[token + 1] if token + 1 < len(tree) else ""
    before = words[max(token - 2, 0) : token]
    if marker == "so":
        return following in ("that", "as") and tree.deps[token + 1] in scheme.marks | {"fixed", "mwe"}
    if marker == "as":
        return following in ("if", "though") or (before[:1] == ["as"] and tree.tags[token - 1][:2] in ("JJ", "RB"))
    if marker == "also":
        return "but" in before and "only" in words[:token]
    if marker == "then":
        conditions = (child for child in tree.dependents(tree.heads[token], ("advcl",)) if child < token)
        return any("if" in (words[node] for node in tree.children[child]) for child in conditions)
    return False


ENGLISH = Language(
    name="english",
    code="en",
    markers=MARKERS,
    finite_tags=words("VB VBD VBP VBZ MD"),  # VB: imperatives
    tensed_tags=words("VBZ VBD"),
    nonfinite_tags=words("VBG VB"),
    participle_tags=words("VBN"),
    question_tags=words("WRB WP WDT WP$"),
    punctuation_tags=words(", . : `` '' -LRB- -RRB- HYPH NFP $, SYM _SP"),
    opening=frozenset("\"'“‘«([{—–-`"),
    closing=frozenset("\"'”’»)]}"),
    in_longer_connective=in_longer_connective,
    probe="The bread was baked at the mill by the man who gave her a loaf.",
)
