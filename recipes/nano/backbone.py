"""The pretrained story model the storyteller starts from, as a Hugging Face Llama with a tokenizer.

usage: python recipes/nano/backbone.py WEIGHTS.npz OUT [--words-of FILE.jsonl.gz] [--positions 512] [--rope-theta 30000]

Reads the float16 weights of a 15M-parameter TinyStories Llama (width 288, 6 layers, 6 heads, 32,000 SentencePiece
pieces, trained on 256 positions) and writes a directory that `AutoModelForCausalLM` and `AutoTokenizer` open.

The vocabulary is cut to the pieces its own stories use (`keep` in the file), the pieces on the way to them (BPE merges
step by step), the pieces that the texts of `--words-of` use at least so often, all printable ASCII and the 256 bytes.
Whatever has no piece is spelled: by smaller pieces, in the end by bytes. Four tokens are new or changed:

    <pad>   new, a zero row
    <sep>   new: `<s> prompt <sep> story </s>`; starts as half the row of a full stop, after which a sentence begins
    <mask>  new, the mean row: stands for a dropped word
    </s>    ends a story; the model knew `<s>` before a story and after it, so `</s>` starts as a copy of its row

Positions: with the rotary base it was trained with (10,000) NLL in nats per token on long real stories is 1.01 up to
position 256, 1.13 to 320 and above 5 from 384 on. With 30,000 it is 1.04, 1.05 and, up to 512, 1.05 to 1.23, before any
training: that is the base written for more than 256 positions.
"""

import gzip
import json
import re
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HEADS = 6
BEGIN, END, FIRST_BYTE, FIRST_PIECE = 1, 2, 3, 259  # ids in the file: 0 `<unk>`, 1 `<s>`, 2 `</s>`, bytes, pieces
NEW_TOKENS = ("<pad>", "<sep>", "<mask>")
SPACE = "▁"  # how tokenizers of this kind write a space
ORIGIN = """\
# The story model the storyteller starts from

A Llama of width 288, 6 layers and 6 heads, trained by Andrej Karpathy on TinyStories (`stories15M` of llama2.c, MIT
licence), its vocabulary (the SentencePiece pieces of Llama 2) cut to {vocabulary:,} entries, {parameters:,} parameters
in all. Made by `recipes/nano/backbone.py`. It continues `<s> story`; `<sep>`, `</s>`, `<mask>` and `<pad>` are for
fine-tuning on `<s> prompt <sep> story </s>`.

## Licence of the weights

{notice}"""
NOTICE = """\
MIT License

Copyright (c) 2023 Andrej

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


@dataclass(frozen=True)
class Pieces:
    """The SentencePiece vocabulary of the file: pieces as text with `▁` for a space, and their merge scores."""

    ids: dict[str, int]
    scores: Sequence[float]
    keep: frozenset[int]

    @classmethod
    def of(cls, weights: "np.lib.npyio.NpzFile") -> "Pieces":
        offsets, blob = weights["piece_offsets"], weights["pieces"].tobytes()
        texts = [blob[start:end].decode() for start, end in pairwise(offsets[FIRST_PIECE:])]
        ids = {text.replace(" ", SPACE): number for number, text in enumerate(texts, start=FIRST_PIECE)}
        return cls(ids, weights["scores"].tolist(), frozenset(weights["keep"].tolist()))

    def merged(self, word: str) -> list[list[str]]:
        """The word as characters, then after every merge of the neighbours that make the best-scored piece."""
        steps = [list(word)]
        while True:
            parts = steps[-1]
            joined = [self.ids.get(a + b) for a, b in pairwise(parts)]
            found = [(self.scores[id], -at) for at, id in enumerate(joined) if id is not None]
            if not found:
                return steps
            at = -max(found)[1]
            steps.append([*parts[:at], parts[at] + parts[at + 1], *parts[at + 2 :]])


def choose_pieces(pieces: Pieces, texts: Iterable[str] = (), *, at_least: int = 20) -> list[str]:
    """The pieces of the cut vocabulary, in the order of the file: see the top of this module."""
    words = Counter(word for text in texts for word in re.findall(rf"{SPACE}?[^{SPACE}\s]+", _with_marks(text)))
    used: Counter[str] = Counter()
    for word, count in words.items():
        for part in pieces.merged(word)[-1]:
            used[part] += count
    kept = {text for text, id in pieces.ids.items() if id in pieces.keep}
    kept |= {part for part, count in used.items() if count >= at_least and part in pieces.ids}
    kept |= {chr(code) for code in range(ord("!"), ord("~") + 1)}
    kept |= {part for piece in sorted(kept) for step in pieces.merged(piece) for part in step}
    return sorted(kept & pieces.ids.keys(), key=pieces.ids.__getitem__)


def build_tokenizer(pieces: Pieces, kept: Sequence[str]) -> PreTrainedTokenizerFast:
    """BPE with byte fallback. A space is put before a text that has none, and taken off again in decoding."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *kept, *NEW_TOKENS]
    vocab = {name: id for id, name in enumerate(names)}
    merges = []
    for piece in sorted(kept, key=lambda piece: -pieces.scores[pieces.ids[piece]]):  # the best score merges first
        splits = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        merges += [(left, right) for left, right in splits if left in vocab and right in vocab]
    bpe = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first", split=True)
    bpe.normalizer = normalizers.Sequence([])
    marks = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    bpe.decoder = decoders.Sequence(marks)
    bpe.add_special_tokens([AddedToken(name, special=True) for name in ("<unk>", "<s>", "</s>", *NEW_TOKENS)])
    joints = [(name, vocab[name]) for name in ("<s>", "<sep>", "</s>")]
    bpe.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <sep> $B </s>", special_tokens=joints
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        sep_token="<sep>", mask_token="<mask>", clean_up_tokenization_spaces=False, add_prefix_space=True,
    )  # fmt: skip


def build_model(
    weights: "np.lib.npyio.NpzFile", pieces: Pieces, kept: Sequence[str], *, positions: int, rope_theta: float
) -> LlamaForCausalLM:
    """The Llama with the rows of the cut vocabulary, and rows for the new tokens."""
    names = ("emb", "ra", "wqkv", "wo", "rf", "w13", "w2", "rn")
    t = {name: torch.from_numpy(weights[name].astype(np.float32)) for name in names}
    rows = t["emb"][[*range(FIRST_PIECE), *(pieces.ids[piece] for piece in kept)]]  # [V, D]
    rows[END] = rows[BEGIN]
    full_stop = rows[FIRST_PIECE + kept.index(".")]
    rows = torch.cat([rows, torch.stack([torch.zeros_like(full_stop), full_stop / 2, rows[FIRST_PIECE:].mean(0)])])
    pad = len(rows) - len(NEW_TOKENS)
    config = LlamaConfig(
        vocab_size=len(rows), hidden_size=rows.shape[1], intermediate_size=t["w13"].shape[1] // 2,
        num_hidden_layers=len(t["ra"]), num_attention_heads=HEADS, num_key_value_heads=HEADS, rms_norm_eps=1e-5,
        max_position_embeddings=positions, rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        tie_word_embeddings=True, bos_token_id=BEGIN, eos_token_id=END, pad_token_id=pad,
    )  # fmt: skip
    state = {"model.embed_tokens.weight": rows, "lm_head.weight": rows, "model.norm.weight": t["rn"]}
    for number in range(config.num_hidden_layers):
        layer = f"model.layers.{number}"
        query, key, value = t["wqkv"][number].chunk(3)
        gate, up = t["w13"][number].chunk(2)
        state |= {
            f"{layer}.self_attn.q_proj.weight": _rotary_halves(query),
            f"{layer}.self_attn.k_proj.weight": _rotary_halves(key),
            f"{layer}.self_attn.v_proj.weight": value,
            f"{layer}.self_attn.o_proj.weight": t["wo"][number],
            f"{layer}.mlp.gate_proj.weight": gate,
            f"{layer}.mlp.up_proj.weight": up,
            f"{layer}.mlp.down_proj.weight": t["w2"][number],
            f"{layer}.input_layernorm.weight": t["ra"][number],
            f"{layer}.post_attention_layernorm.weight": t["rf"][number],
        }
    model = LlamaForCausalLM(config)
    model.load_state_dict(state)
    model.generation_config.eos_token_id = [END, BEGIN]  # untrained it ends a story with either
    model.generation_config.pad_token_id = pad
    return model.eval()


def save_backbone(
    source: Path,
    out: Path,
    *,
    texts: Iterable[str] = (),
    at_least: int = 20,
    positions: int = 512,
    rope_theta: float = 30_000.0,
) -> None:
    """Read the weights file, write model, tokenizer and a card with origin and licence into `out`."""
    weights = np.load(source, allow_pickle=False)
    pieces = Pieces.of(weights)
    kept = choose_pieces(pieces, texts, at_least=at_least)
    model = build_model(weights, pieces, kept, positions=positions, rope_theta=rope_theta)
    model.save_pretrained(out)
    build_tokenizer(pieces, kept).save_pretrained(out)
    card = ORIGIN.format(vocabulary=model.config.vocab_size, parameters=model.num_parameters(), notice=NOTICE)
    (out / "README.md").write_text(card, encoding="utf-8")


def read_texts(path: Path) -> list[str]:
    """The column `story` of a .jsonl or .jsonl.gz file."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        return [json.loads(line)["story"] for line in lines]


def _with_marks(text: str) -> str:
    return SPACE + text.replace(" ", SPACE)


def _rotary_halves(weight: torch.Tensor) -> torch.Tensor:
    """Rotary pairs side by side -> first halves, then second halves, as Hugging Face has them. [D, D]"""
    out, inner = weight.shape
    return weight.view(HEADS, out // HEADS // 2, 2, inner).transpose(1, 2).reshape(out, inner)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--words-of", type=Path, nargs="*", default=[], help="texts whose pieces are kept too")
    parser.add_argument("--at-least", type=int, default=20, help="times a piece must be used there")
    parser.add_argument("--positions", type=int, default=512)
    parser.add_argument("--rope-theta", type=float, default=30_000.0, help="rotary base; 10000 as it was trained")
    given = parser.parse_args()
    more = [text for path in given.words_of for text in read_texts(path)]
    options = {name: getattr(given, name) for name in ("at_least", "positions", "rope_theta")}
    save_backbone(given.weights, given.out, texts=more, **options)
