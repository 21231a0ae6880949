"""Stanza's English pipeline as parser (UD v2). An optional extra: `pip install 'discodvt[stanza]'`."""

from collections.abc import Iterator, Sequence
from typing import Any

from discodvt.discourse.annotation import Sentence
from discodvt.discourse.schemes import UD2
from discodvt.discourse.trees import Tree
from discodvt.errors import BadRequest


class StanzaParser:
    """A Stanza pipeline, or anything called like one: `pipeline(text).sentences`."""

    name = "stanza"
    scheme = UD2

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline

    @classmethod
    def open(cls) -> "StanzaParser":
        try:
            import stanza
        except ImportError:
            raise BadRequest("the stanza parser is not installed; pip install 'discodvt[stanza]'") from None
        try:
            options = {"processors": "tokenize,mwt,pos,lemma,depparse", "download_method": None, "verbose": False}
            return cls(stanza.Pipeline("en", **options))
        except Exception as error:  # stanza raises its own and requests' errors here, none of them exported
            first = str(error).splitlines()[0]
            raise BadRequest(f"stanza's English models: {first}; run `stanza.download('en')` once") from None

    def parse(self, pieces: Sequence[str]) -> Iterator[list[Sentence]]:
        for piece in pieces:
            yield [_sentence(sentence) for sentence in self.pipeline(piece).sentences] if piece.strip() else []


def _sentence(sentence: Any) -> Sentence:
    spans = [(token.start_char, token.end_char) for token in sentence.tokens for _ in token.words]
    words = sentence.words
    tree = Tree(
        words=[word.text.lower() for word in words],
        tags=[word.xpos for word in words],
        deps=[word.deprel for word in words],
        heads=[word.head - 1 for word in words],
        starts=[start for start, _ in spans],
        ends=[end for _, end in spans],
    )
    return Sentence(tree.starts[0], tree.ends[-1], tree)
