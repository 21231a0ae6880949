"""A CoreNLP server as parser, over its HTTP interface. CoreNLP 4 prints UD v2, 3.x UD v1; a probe tells which."""

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from discodvt.discourse.annotation import Sentence
from discodvt.discourse.schemes import scheme_of
from discodvt.discourse.trees import Tree
from discodvt.errors import BadRequest, WorkFailed

_PROPERTIES = {
    "annotators": "tokenize,ssplit,pos,depparse",
    "outputFormat": "json",
    "ssplit.newlineIsSentenceBreak": "two",
}
_PROBE = "The bread was baked at the mill by the man who gave her a loaf."


class CoreNlpParser:
    """A client of one server."""

    def __init__(self, url: str, *, seconds: float = 300.0) -> None:
        self.name = f"corenlp:{url}"
        self.url = url if "://" in url else f"http://{url}"
        if not self.url.startswith(("http://", "https://")):
            raise BadRequest(f"{url}: not an http address; give corenlp:http://HOST:PORT")
        self.seconds = seconds
        probe = self._ask(_PROBE)["sentences"][0]["basicDependencies"]
        self.scheme = scheme_of({edge["dep"] for edge in probe}, source=self.name)

    def parse(self, pieces: Sequence[str]) -> Iterator[list[Sentence]]:
        for piece in pieces:
            yield list(_sentences(piece, self._ask(piece))) if piece.strip() else []

    def _ask(self, text: str) -> dict[str, Any]:
        address = f"{self.url}/?{urlencode({'properties': json.dumps(_PROPERTIES)})}"
        request = Request(address, data=text.encode("utf-8"), headers={"Content-Type": "text/plain; charset=utf-8"})
        try:
            with urlopen(request, timeout=self.seconds) as answer:
                result: dict[str, Any] = json.load(answer)
        except (URLError, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", error)
            raise WorkFailed(f"{self.url}: no answer from the CoreNLP server ({reason}); is it running?") from None
        except ValueError:
            raise WorkFailed(f"{self.url}: the answer is not JSON; is this a CoreNLP server?") from None
        return result


def _sentences(piece: str, answer: dict[str, Any]) -> Iterator[Sentence]:
    place = _code_points(piece)
    for sentence in answer["sentences"]:
        tokens = sentence["tokens"]
        labels, heads = [""] * len(tokens), [-1] * len(tokens)
        for edge in sentence["basicDependencies"]:
            labels[edge["dependent"] - 1] = edge["dep"].lower() if edge["governor"] == 0 else edge["dep"]
            heads[edge["dependent"] - 1] = edge["governor"] - 1
        tree = Tree(
            words=[token["originalText"].lower() for token in tokens],
            tags=[token["pos"] for token in tokens],
            deps=labels,
            heads=heads,
            starts=[place[token["characterOffsetBegin"]] for token in tokens],
            ends=[place[token["characterOffsetEnd"]] for token in tokens],
        )
        yield Sentence(tree.starts[0], tree.ends[-1], tree)


def _code_points(text: str) -> Sequence[int]:
    """Java counts UTF-16 units: for each unit offset, the offset in characters."""
    if text.isascii():
        return range(len(text) + 1)
    offsets = []
    for position, character in enumerate(text):
        offsets.extend([position] * (2 if ord(character) > 0xFFFF else 1))
    return [*offsets, len(text)]
