"""JSON from strangers: UTF-8, no NaN or infinity, nothing nested deeply, no endless numbers, no half surrogates."""

import json
import math
import re
from typing import Any, NoReturn

MOST_DEPTH = 32
MOST_DIGITS = 18  # whole numbers that fit 64 bits
# One that does not end is matched too, and nothing is tried twice: a body of quotes would take minutes else.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def parse_json(body: bytes) -> Any:
    """The value of a JSON text; a `ValueError` says what is wrong with it."""
    depth = 0
    for sign in re.findall(rb"[\[\]{}]", _STRING.sub(b"", body)):
        depth += 1 if sign in b"[{" else -1
        if depth > MOST_DEPTH:
            raise ValueError(f"nested deeper than {MOST_DEPTH}")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    value = json.loads(
        text, parse_constant=_no_constant, parse_int=_integer, parse_float=_number, object_pairs_hook=_object
    )
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair") from None
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MOST_DIGITS:
        raise ValueError(f"a number of more than {MOST_DIGITS} digits")
    return int(digits)


def _number(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError("a number that is too large")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key that is there twice")
    return found
