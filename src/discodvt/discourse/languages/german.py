"""German: connectives for the ten relations, with the tags of STTS (Stanza's German models, UD German GSD and HDT).

Word order does not matter to the rules, which read the tree; what differs is here: `denn` gives a reason but
coordinates, quotes open low („so“), and `da` is a connective only where it subordinates.
"""

from typing import TYPE_CHECKING

from discodvt.discourse.language import Language, Marker, words

if TYPE_CHECKING:
    from discodvt.discourse.trees import Scheme, Tree

MARKERS = {
    **dict.fromkeys(("obwohl", "obgleich", "obschon"), Marker("although", "subordinator")),
    **dict.fromkeys(("weil", "da"), Marker("because", "subordinator")),
    "denn": Marker("because", "coordinator"),
    "sodass": Marker("so", "subordinator"),
    **dict.fromkeys(("deshalb", "deswegen", "daher", "darum", "also"), Marker("so", "adverb")),
    **dict.fromkeys(("bevor", "ehe"), Marker("before", "subordinator")),
    "nachdem": Marker("after", "subordinator"),
    **dict.fromkeys(("als", "während"), Marker("as", "subordinator")),
    **dict.fromkeys(("dann", "danach", "daraufhin"), Marker("then", "adverb")),
    "und": Marker("and", "coordinator"),
    **dict.fromkeys(("auch", "außerdem", "ebenfalls"), Marker("also", "adverb")),
    **dict.fromkeys(("dennoch", "trotzdem"), Marker("still", "adverb")),
}


def in_longer_connective(tree: "Tree", scheme: "Scheme", token: int) -> bool:
    """als ob, auch wenn, und zwar, nicht nur ... sondern auch, wenn ... dann."""
    words, marker = tree.words, tree.words[token]
    following = words[token + 1] if token + 1 < len(tree) else ""
    if marker == "als":
        return following in ("ob", "wenn")
    if marker == "auch":
        return following == "wenn" or "sondern" in words[max(token - 2, 0) : token]
    if marker == "und":
        return following == "zwar"
    if marker == "dann":
        conditions = (child for child in tree.dependents(tree.heads[token], ("advcl",)) if child < token)
        return any(words[node] in ("wenn", "falls") for child in conditions for node in tree.children[child])
    return False


GERMAN = Language(
    name="german",
    code="de",
    markers=MARKERS,
    finite_tags=words("VVFIN VAFIN VMFIN VVIMP VAIMP"),
    tensed_tags=words("VVFIN VAFIN VMFIN"),
    nonfinite_tags=words("VVINF VVIZU VAINF VMINF"),
    participle_tags=words("VVPP VAPP VMPP"),
    question_tags=words("PWS PWAT PWAV"),
    punctuation_tags=words("$, $. $("),
    opening=frozenset("\"'„‚»›([{—–-`"),
    closing=frozenset("\"'“‘«‹)]}"),
    in_longer_connective=in_longer_connective,
    probe="Das Brot wurde in der Mühle von dem Mann gebacken, der ihr einen Laib gab.",
)
