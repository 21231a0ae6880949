"""What of Accelerate's own options for FSDP is refused, and shards that are joined again."""

import pytest
import torch

from discodvt.config import Run
from discodvt.errors import BadRequest
from discodvt.training.sharding import join_shards, load_shards, open_accelerator, save_shards, stored_shapes


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FSDP_VERSION", "1", "--fsdp_version 2"),
        ("FSDP_ACTIVATION_CHECKPOINTING", "true", "run.gradient_checkpointing"),
    ],
)
def test_options_of_the_launcher_that_cannot_be_are_refused(monkeypatch, name, value, said):
    for key, given in {"ACCELERATE_USE_FSDP": "true", "WORLD_SIZE": "2", "FSDP_VERSION": "2", name: value}.items():
        monkeypatch.setenv(key, given)
    with pytest.raises(BadRequest, match=said):
        open_accelerator(Run(steps=1))


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_shards_of_one_process_are_read_again(tmp_path):
    held = {"a": torch.arange(6.0).reshape(3, 2), "step": torch.tensor(7.0), "empty": torch.zeros(1)}
    save_shards(tmp_path, held)
    assert stored_shapes(tmp_path)["a"] == (torch.Size([3, 2]), torch.float32)
    into = {name: torch.full_like(tensor, -1) for name, tensor in held.items()}
    load_shards(tmp_path, into)
    assert all(torch.equal(into[name], held[name]) for name in held)
    assert torch.equal(join_shards(tmp_path)["a"], held["a"])
