"""The storyteller's backbone: a Llama and a tokenizer made of the story model's weights file."""

import gzip
import importlib.util
import json
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

from discodvt.corpus import first_sentence

ROOT = Path(__file__).resolve().parents[3]


def load_script(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


recipe = load_script(ROOT / "recipes" / "nano" / "backbone.py", "nano_backbone")


@pytest.fixture(scope="module")
def weights(shared: Path) -> Any:
    return np.load(shared / "tools" / "tiny_sampler" / "weights.npz", allow_pickle=False)


@pytest.fixture(scope="module")
def directory(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("backbone")
    recipe.save_backbone(
        shared / "tools" / "tiny_sampler" / "weights.npz",
        out,
        texts=["Prince Prince Prince"],
        at_least=3,
        rope_theta=10_000.0,
    )
    return out


@pytest.fixture(scope="module")
def tokenizer(directory: Path) -> Any:
    return AutoTokenizer.from_pretrained(str(directory))


@pytest.fixture(scope="module")
def model(directory: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(str(directory)).eval()


def stories(shared: Path, name: str) -> list[str]:
    with gzip.open(shared / "data" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line)["story"] for line in lines]


@pytest.mark.parametrize("name", ["tiny/train", "tiny/valid", "tiny/test", "tiny/real_test", "tales/tales"])
def test_every_text_comes_back_as_it_was(shared: Path, tokenizer: Any, name: str) -> None:
    texts = stories(shared, name)
    words = {word: None for text in texts for word in text.split(" ")}  # words are encoded one by one: each word once,
    texts = [" ".join(words).lstrip(" "), *texts[:: max(1, len(texts) // 200)]]  # and some whole texts
    encoded = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    assert all(tokenizer.unk_token_id not in each.ids for each in encoded)
    for text, each in zip(texts, encoded, strict=True):
        assert tokenizer.decode(each.ids) == text.removeprefix(" ")


def test_unknown_words_are_spelled(tokenizer: Any) -> None:
    for text in ("Zorblax the Quizzical ate 47% of Käse — 🦊!", "ünïcödé\ttab ▁ mark\r\n", "Ljubljana"):
        ids = tokenizer(text, add_special_tokens=False).input_ids
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == text.replace("▁", " ")


def test_a_space_before_the_text_changes_nothing(tokenizer: Any) -> None:
    plain, spaced = (tokenizer(text, add_special_tokens=False).input_ids for text in ("The fox ran.", " The fox ran."))
    assert plain == spaced
    assert tokenizer.convert_ids_to_tokens(plain) == ["▁The", "▁fo", "x", "▁ran", "."]
    assert tokenizer.decode(plain) == "The fox ran."


def test_characters_of_byte_tokens_have_offsets(tokenizer: Any) -> None:
    text = " Käse 🦊 end."
    offsets = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).offsets
    ends = [end for _, end in offsets]
    assert ends == sorted(ends)
    assert ends[-1] == len(text)


def test_prompt_and_story_are_joined_by_the_separator(tokenizer: Any) -> None:
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("A cat", "One day").input_ids)
    assert tokens == ["<s>", "▁A", "▁cat", "<sep>", "▁One", "▁day", "</s>"]
    assert tokenizer.decode(tokenizer("A cat", "One day").input_ids, skip_special_tokens=True) == "A cat One day"


def test_words_asked_for_are_single_tokens(tokenizer: Any) -> None:
    assert tokenizer.tokenize("the Prince") == ["▁the", "▁Prince"]


def test_tokens_are_those_the_model_was_trained_with(shared: Path, tokenizer: Any) -> None:
    sampler = load_script(shared / "tools" / "tiny_sampler" / "sample.py", "tiny_sampler")
    weights = np.load(shared / "tools" / "tiny_sampler" / "weights.npz", allow_pickle=False)
    offsets, blob = weights["piece_offsets"], weights["pieces"].tobytes()
    pieces = [blob[start:end] for start, end in pairwise(offsets)]
    vocabulary, known, same = sampler.Vocabulary(pieces, weights["scores"].tolist()), tokenizer.get_vocab(), 0
    for story in stories(shared, "tiny/valid")[:40]:
        text = " ".join(story.split()[:70])
        expected = [pieces[id].decode().replace(" ", "▁") for id in vocabulary.encode(text)]
        if all(piece in known for piece in expected):
            assert tokenizer.tokenize(text) == expected
            same += 1
    assert same >= 36


@torch.no_grad()
def reference_logits(weights: Any, ids: torch.Tensor) -> torch.Tensor:
    """The sampler's arithmetic over a whole text: ids of the file [T] -> logits over its 32,000 pieces [T, V]."""
    t = {
        name: torch.from_numpy(weights[name].astype(np.float32))
        for name in weights.files
        if weights[name].dtype == np.float16
    }
    heads, width, length = 6, t["emb"].shape[1], len(ids)
    size = width // heads
    angle = torch.outer(torch.arange(length).float(), 1.0 / (10000 ** (torch.arange(0, size, 2).float() / size)))
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]  # [T, 1, size / 2]

    def rope(z: torch.Tensor) -> torch.Tensor:
        p, q = z.view(length, heads, size // 2, 2).unbind(-1)
        return torch.stack([p * cos - q * sin, p * sin + q * cos], -1).flatten(-2).transpose(0, 1)

    x = t["emb"][ids]
    for layer in range(len(t["ra"])):
        query, key, value = (
            (F.rms_norm(x, (width,), t["ra"][layer], 1e-5) @ t["wqkv"][layer].T).view(length, 3, heads, size).unbind(1)
        )
        attended = F.scaled_dot_product_attention(rope(query), rope(key), value.transpose(0, 1), is_causal=True)
        x = x + attended.transpose(0, 1).reshape(length, width) @ t["wo"][layer].T
        gate, up = (F.rms_norm(x, (width,), t["rf"][layer], 1e-5) @ t["w13"][layer].T).chunk(2, -1)
        x = x + (F.silu(gate) * up) @ t["w2"][layer].T
    return F.rms_norm(x, (width,), t["rn"], 1e-5) @ t["emb"].T


def test_logits_are_those_of_the_sampler(shared: Path, weights: Any, tokenizer: Any, model: Any) -> None:
    pieces = recipe.Pieces.of(weights)
    old = {id: id for id in range(recipe.FIRST_PIECE)} | {
        id: pieces.ids[token] for token, id in tokenizer.get_vocab().items() if token in pieces.ids
    }
    new = sorted(set(old) - {recipe.END})
    for story in stories(shared, "tiny/valid")[:5]:
        ids = tokenizer(story, return_tensors="pt").input_ids[:, :256]
        expected = reference_logits(weights, torch.tensor([old[id] for id in ids[0].tolist()]))[
            :, [old[id] for id in new]
        ]
        with torch.no_grad():
            given = model(ids).logits[0][:, new]
        assert torch.allclose(given, expected, atol=1e-4)


def nll(model: Any, ids: list[int], start: int) -> torch.Tensor:
    """NLL in nats of every token from `start` on."""
    row = torch.tensor([ids])
    with torch.no_grad():
        return F.cross_entropy(model(row[:, :-1]).logits[0, start - 1 :], row[0, start:], reduction="none")


def test_nll_of_held_out_stories_after_their_first_sentence(shared: Path, tokenizer: Any, model: Any) -> None:
    losses = []
    for story in stories(shared, "tiny/valid")[:40]:
        opening, rest = first_sentence(story)
        prompt = tokenizer(opening).input_ids
        ids = prompt + tokenizer(rest, add_special_tokens=False).input_ids + [tokenizer.eos_token_id]
        losses.append(nll(model, ids, len(prompt)))
    assert torch.cat(losses).mean().item() == pytest.approx(1.16, abs=0.06)  # 1.15 over the first 120


def test_a_larger_rotary_base_reads_twice_the_positions(shared: Path, tokenizer: Any, directory: Path) -> None:
    rope = {"rope_type": "default", "rope_theta": 30_000.0}
    longer = AutoModelForCausalLM.from_pretrained(str(directory), rope_parameters=rope).eval()
    texts = [story for story in stories(shared, "tiny/real_test") if len(story) > 2400][:3]
    losses = torch.stack([nll(longer, tokenizer(text).input_ids[:480], 1) for text in texts])
    assert losses[:, 256:].mean() < losses[:, 64:256].mean() + 0.3


def test_card_has_origin_and_notice(directory: Path) -> None:
    card = (directory / "README.md").read_text(encoding="utf-8")
    assert "stories15M" in card
    assert "Copyright (c) 2023 Andrej" in card
    assert "WITHOUT WARRANTY" in card
