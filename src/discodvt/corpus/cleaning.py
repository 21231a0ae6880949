"""What is done to a text before it becomes a prompt or a story; each function takes a text and returns a text."""

import re
import unicodedata

_SURROGATE = re.compile("[\ud800-\udfff]")
_NEWLINE_MARKER = re.compile(r"\s?(?:<newlines?>\s*)+", re.IGNORECASE)
_LEADING_TAGS = re.compile(r"^(?:\s*\[\s*\w{1,12}\s*\])+\s*")


def replace_surrogates(text: str) -> str:
    """Half a character, which no file can hold, becomes U+FFFD (JSON escapes such as `\\ud83d` can bring one in)."""
    return _SURROGATE.sub("\ufffd", text)


def strip_accents(text: str) -> str:
    """Letters without their accents, as the paper's code has WritingPrompts (NFD, combining marks dropped)."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def drop_newline_markers(text: str) -> str:
    """WritingPrompts writes line ends inside a story as `<newline>`; they become one space."""
    return _NEWLINE_MARKER.sub(" ", text).strip()


def strip_tags(prompt: str) -> str:
    """A WritingPrompts prompt without the tags it begins with, such as `[ WP ]`."""
    return _LEADING_TAGS.sub("", prompt)


def normalise(text: str) -> str:
    """The form in which two texts count as the same: whitespace runs as one space, case folded."""
    return " ".join(text.split()).casefold()
