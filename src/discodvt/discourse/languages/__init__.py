"""The languages the annotator reads, one file each."""

from discodvt.discourse.language import Language
from discodvt.discourse.languages.english import ENGLISH
from discodvt.discourse.languages.german import GERMAN
from discodvt.errors import BadRequest

__all__ = ["ENGLISH", "GERMAN", "LANGUAGES", "load_language"]

LANGUAGES = {language.name: language for language in (ENGLISH, GERMAN)}


def load_language(name: str) -> Language:
    """The language a user named, by its name or its code (`german`, `de`)."""
    for language in LANGUAGES.values():
        if name in (language.name, language.code):
            return language
    known = ", ".join(LANGUAGES)
    raise BadRequest(f"`language` {name!r}: known are {known}; docs/languages.md adds one", parameter="language")
