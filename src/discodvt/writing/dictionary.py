"""The code dictionary of a model: what stands where a code does. `discodvt codes` writes it, as `codes.json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discodvt.errors import BadRequest

NAME = "codes.json"
PHRASES = 3


@dataclass(frozen=True, slots=True)
class CodeDictionary:
    """Entries by code; empty where the model has none."""

    entries: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, directory: Path) -> "CodeDictionary":
        """That of a model's directory."""
        path = directory / NAME
        if not path.is_file():
            return cls()
        try:
            found = {int(each["code"]): each for each in json.loads(path.read_text(encoding="utf-8"))["codes"]}
            for each in found.values():
                _ = [gram["text"] for gram in each["grams"]], float(each.get("share", 0))
                _ = [(marker["marker"], float(marker["count"]), float(marker["share"])) for marker in each["markers"]]
            return cls(found)
        except (ValueError, KeyError, TypeError) as error:
            raise BadRequest(f"{path}: no code dictionary ({error!r}); write it again with `discodvt codes`") from None

    def phrases(self, code: int) -> list[str]:
        """The commonest phrases of a code."""
        return [str(gram["text"]) for gram in self.entries.get(code, {}).get("grams", ())[:PHRASES]]

    def markers(self, code: int) -> dict[str, float]:
        """The markers in its phrases, with their shares among them."""
        return {str(each["marker"]): float(each["share"]) for each in self.entries.get(code, {}).get("markers", ())}

    def frequency(self, code: int, marker: str) -> float:
        """How often a marker stands in phrases of a code, for each time the code is used; the scale is arbitrary."""
        entry = self.entries.get(code, {})
        count = sum(float(each["count"]) for each in entry.get("markers", ()) if each["marker"] == marker)
        return count / max(float(entry.get("share", 0)), 1e-4)
