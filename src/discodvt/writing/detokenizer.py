"""Subwords back to text, one at a time: their bytes, joined to characters as soon as they are whole.

Byte-level BPE (GPT-2, BART, Llama 3, Qwen) and SentencePiece with byte fallback (Llama 2, Gemma) give each subword its
bytes, so that every subword has an exact place in the text. `tokenizers.DecodeStream` has not: it holds back a whole
subword that ends inside a character (31% of random sequences of 40 subwords then have other places), never shows a last
half character, and takes 0.97 microseconds a subword instead of 0.65. It serves every other kind of tokenizer.
"""

import codecs
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from discodvt.corpus.sentences import split_sentences

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class Detokenizer:
    """The text of a tokenizer's subwords. Special tokens have none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._special = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self._token_bytes = _token_bytes(tokenizer)
        self._known: dict[int, bytes] = {}

    def bytes_of(self, id: int) -> bytes:
        """The bytes a subword stands for."""
        if id not in self._known:
            token = "" if id in self._special else self.tokenizer.id_to_token(id) or ""
            self._known[id] = self._token_bytes(token) if self._token_bytes else b""
        return self._known[id]

    def growing(self) -> "GrowingText":
        return GrowingText(self) if self._token_bytes else StreamedText(self)


class GrowingText:
    """A text that grows by subwords; `starts[i]` is the character at which subword i begins."""

    def __init__(self, detokenizer: Detokenizer) -> None:
        self._detokenizer = detokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pieces: list[str] = []
        self._length = self._sentence = 0  # characters, and at which a sentence begins that stays one
        self.starts: list[int] = []

    def add(self, id: int) -> None:
        self.starts.append(self._length)
        self._append(self._decoder.decode(self._detokenizer.bytes_of(id)))

    def end(self) -> None:
        """No subword follows: half a character becomes a replacement mark."""
        self._append(self._decoder.decode(b"", final=True))

    @property
    def text(self) -> str:
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def stripped(self) -> tuple[str, list[int]]:
        """The text without space around it, and where its subwords begin (before 0 in the space that was taken)."""
        text = self.text.lstrip()
        lead = self._length - len(text)
        return text.rstrip(), [start - lead for start in self.starts]

    def whole_sentences(self) -> str:
        """The text without space around it and without its last sentence, which may not be whole yet.

        What follows decides where a sentence ends, so the last but one may go on; those before it are not read again.
        """
        text = self.text.strip()
        starts = [self._sentence + start for start, _ in split_sentences(text[self._sentence :])] or [0]
        self._sentence = starts[-2] if len(starts) > 1 else starts[0]
        return text[: starts[-1]].rstrip()

    def _append(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)


class StreamedText(GrowingText):
    """The same for tokenizers whose subwords have no bytes of their own; places are those of `DecodeStream`."""

    def __init__(self, detokenizer: Detokenizer) -> None:
        super().__init__(detokenizer)
        self._stream: Any = DecodeStream(skip_special_tokens=True)

    def add(self, id: int) -> None:
        self.starts.append(self._length)
        self._append(self._stream.step(self._detokenizer.tokenizer, id) or "")


def _token_bytes(tokenizer: Tokenizer) -> Callable[[str], bytes] | None:
    """How a token is spelled in bytes, by the decoder of the tokenizer; None where it has no bytes of its own."""
    decoder = tokenizer.decoder
    if decoder is None:
        return None
    state = json.loads(decoder.__getstate__())
    kinds = [each["type"] for each in state.get("decoders", [state])]
    if kinds == ["ByteLevel"]:
        return _byte_level_bytes
    if kinds[0] in ("Replace", "Metaspace") and set(kinds) <= {"Replace", "Metaspace", "ByteFallback", "Fuse", "Strip"}:
        return _sentencepiece_bytes
    return None


def _sentencepiece_bytes(token: str) -> bytes:
    byte = _BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()


def _byte_level_bytes(token: str) -> bytes:
    """Tokens that were added as they are (runs of spaces in GPT-NeoX and Phi) are not in GPT-2's alphabet."""
    letters = _bytes_by_letter()
    return bytes(letters[letter] for letter in token) if letters.keys() >= set(token) else token.encode()


@cache
def _bytes_by_letter() -> dict[str, int]:
    """GPT-2's alphabet of bytes: printable ones stand for themselves, the others for letters from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
