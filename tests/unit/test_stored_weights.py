"""Parts over a base: weights by name with LoRA added, bases of the Hub and their revisions."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from discodvt.checkpoints import Checkpoint
from discodvt.errors import BadRequest
from discodvt.stored_weights import Part

LAYER = "model.layers.0.mlp.up_proj"


@pytest.fixture
def base(tmp_path) -> Path:
    torch.manual_seed(0)
    shape = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=20, **shape)).save_pretrained(tmp_path / "snapshots" / "abc123")
    return tmp_path / "snapshots" / "abc123"


def part_of(whole: Path, directory: Path, **changes) -> Path:
    """A plain model with LoRA in one layer."""
    directory.mkdir()
    shutil.copy(whole / "config.json", directory)
    lora = {f"{LAYER}.lora_A.weight": torch.randn(2, 8), f"{LAYER}.lora_B.weight": torch.randn(12, 2)}
    save_file(lora, directory / "trained.safetensors")
    told = {"lora": {"rank": 2, "alpha": 6.0, "fan_in_fan_out": False}} | changes
    part = Checkpoint.open(whole).as_base(inside="")
    (directory / "base.json").write_text(json.dumps({name: getattr(part, name) for name in Part.__slots__} | told))
    return directory


def test_lora_is_added_where_a_weight_is_read(base, tmp_path):
    part = part_of(base, tmp_path / "part")
    stored, lora = load_file(base / "model.safetensors"), load_file(part / "trained.safetensors")
    weights = Checkpoint.open(part).weights()
    change = 3.0 * lora[f"{LAYER}.lora_B.weight"] @ lora[f"{LAYER}.lora_A.weight"]
    expected = stored[f"{LAYER}.weight"] + change
    assert torch.allclose(weights[f"{LAYER}.weight"], expected, atol=1e-6)
    assert torch.allclose(weights.under("model.layers.0.")["mlp.up_proj.weight"], expected, atol=1e-6)
    assert torch.equal(weights["model.norm.weight"], stored["model.norm.weight"])
    assert set(weights) == set(stored)
    assert weights.shape(f"{LAYER}.weight") == (12, 8)
    with pytest.raises(BadRequest, match=r"no weight model\.none"):
        weights["model.none"]
    model = Checkpoint.open(part).load(LlamaForCausalLM)
    assert torch.allclose(model.get_submodule(LAYER).weight, expected, atol=1e-6)


def test_a_base_whose_names_lack_the_first_part(base, tmp_path):
    stored = load_file(base / "model.safetensors")
    save_file(
        {name.removeprefix("model."): weight for name, weight in stored.items()},
        base / "model.safetensors",
        metadata={"format": "pt"},
    )
    weights = Checkpoint.open(part_of(base, tmp_path / "part")).weights()
    assert "model.norm.weight" in weights
    assert not torch.equal(weights[f"{LAYER}.weight"], stored[f"{LAYER}.weight"])


def test_a_base_of_the_hub_is_taken_in_its_revision(base, tmp_path, monkeypatch):
    asked = []

    def download(name, revision=None, **_):
        asked.append((name, revision))
        if revision not in (None, "abc123"):
            raise OSError("no such revision")
        return str(base)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    named = Checkpoint.open("some/llama").as_base(inside="")
    assert (named.base, named.revision) == ("some/llama", "abc123")
    kept = part_of(base, tmp_path / "kept", base="some/llama", revision="abc123")
    assert Checkpoint.open(kept).load(LlamaForCausalLM)
    assert asked[-1] == ("some/llama", "abc123")
    other = part_of(base, tmp_path / "other", base="some/llama", revision="def456")
    with pytest.raises(BadRequest, match=r"other: its base some/llama, revision def456: neither .*no such revision"):
        Checkpoint.open(other).load(LlamaForCausalLM)
