"""Phrases of stories as they are shown."""

import re


def one_line(phrase: str) -> str:
    """A phrase on one line; where a line of the story ends, a pilcrow."""
    return re.sub(r"\s*\n\s*", " ¶ ", phrase).strip()
