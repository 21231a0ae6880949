"""Subwords back to text, one at a time: bytes of a byte-level BPE, joined to characters as soon as they are whole."""

import codecs
from functools import cache

from tokenizers import Tokenizer


class SubwordText:
    """The text of a tokenizer's subwords. Special tokens have none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self._known: dict[int, bytes] = {}

    def bytes_of(self, id: int) -> bytes:
        """The bytes a subword stands for."""
        if id not in self._known:
            token = "" if id in self._special else self._tokenizer.id_to_token(id) or ""
            self._known[id] = bytes(map(_bytes_by_letter().__getitem__, token))
        return self._known[id]

    def growing(self) -> "GrowingText":
        return GrowingText(self)


class GrowingText:
    """A text that grows by subwords; `starts[i]` is the character at which subword i begins."""

    def __init__(self, subwords: SubwordText) -> None:
        self._subwords = subwords
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pieces: list[str] = []
        self._length = 0
        self.starts: list[int] = []

    def add(self, id: int) -> None:
        self.starts.append(self._length)
        self._append(self._decoder.decode(self._subwords.bytes_of(id)))

    def end(self) -> None:
        """No subword follows: half a character becomes a replacement mark."""
        self._append(self._decoder.decode(b"", final=True))

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def stripped(self) -> tuple[str, list[int]]:
        """The text without space around it, and where its subwords begin (before 0 in the space that was taken)."""
        lead = len(self.text) - len(self.text.lstrip())
        return self.text.strip(), [start - lead for start in self.starts]

    def _append(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)


@cache
def _bytes_by_letter() -> dict[str, int]:
    """GPT-2's alphabet of bytes: printable ones stand for themselves, the others for letters from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
