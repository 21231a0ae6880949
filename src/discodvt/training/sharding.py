"""Sharded training: FSDP (version 2, through Accelerate) cuts weights, gradients and optimizer states over processes.

Transformer layers are gathered one at a time, all else with the objective itself, in whose `forward` weights are whole.
Elsewhere they are shards: what looks at them there goes through `whole_weights`, what runs parts of the model through
`gathered`. A sharded checkpoint is one of torch.distributed.checkpoint in safetensors: every process writes its shards,
and any number of processes reads them.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import (
    DistributedDataParallelKwargs,
    DistributedType,
    FullyShardedDataParallelPlugin,
    InitProcessGroupKwargs,
)
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, distribute_tensor

from discodvt.config import Run
from discodvt.errors import BadRequest

USE_FSDP = "ACCELERATE_USE_FSDP"  # what `accelerate launch --use_fsdp` sets
_PATIENCE = timedelta(hours=12)  # of processes that wait for the first one, which may be making tokens or plans


def open_accelerator(run: Run) -> Accelerator:
    """Accelerate as a recipe and the launcher ask for it."""
    launched = _flag(USE_FSDP)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    sharded = (run.fsdp or launched) and several
    accelerator = Accelerator(
        cpu=several and not torch.accelerator.is_available(),  # else `torchrun` would start so many runs of one process
        mixed_precision="bf16" if _bf16(run) else "no",
        fsdp_plugin=_plugin(launched=launched) if sharded else None,
        kwargs_handlers=[
            DistributedDataParallelKwargs(gradient_as_bucket_view=True),
            InitProcessGroupKwargs(timeout=_PATIENCE),
        ],
    )
    if not launched:
        os.environ.pop(USE_FSDP, None)  # which Accelerate sets: the next run of this process may not want it
    if sharded and accelerator.distributed_type == DistributedType.MULTI_CPU:
        accelerator.state.distributed_type = DistributedType.FSDP  # Accelerate does so for devices only
        accelerator.state.fsdp_plugin = _plugin(launched=launched)
    return accelerator


def _plugin(*, launched: bool) -> FullyShardedDataParallelPlugin:
    """As `accelerate launch` says, but for what this package sees to itself.

    Weights are gathered as float32, and layers compute in bfloat16 by autocast, as without shards: codes stay float32.
    """
    if launched and os.environ.get("FSDP_VERSION", "1") != "2":
        raise BadRequest("FSDP version 1 is not supported; launch with --fsdp_version 2")
    if _flag("FSDP_ACTIVATION_CHECKPOINTING"):
        raise BadRequest("--fsdp_activation_checkpointing: leave it out, and set run.gradient_checkpointing=true")
    return FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        mixed_precision_policy=MixedPrecisionPolicy(),
        cpu_ram_efficient_loading=False,
    )


def _flag(name: str) -> bool:
    return os.environ.get(name, "false").lower() in ("true", "1")


def _bf16(run: Run) -> bool:
    if run.precision == "auto":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return run.precision == "bf16"


def is_sharded(module: nn.Module) -> bool:
    return isinstance(module, FSDPModule)


def reshard(module: nn.Module) -> None:
    """Back to shards, after a forward pass that no backward pass follows."""
    if isinstance(module, FSDPModule):
        module.reshard()


def whole(tensor: Tensor) -> Tensor:
    """A tensor, put together where it is shards; every process takes part."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gather(tensors: Mapping[str, Tensor], *, keep: bool) -> dict[str, Tensor]:
    """Tensors put together one by one, off the device; those who do not `keep` them take part all the same."""
    kept: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        found = whole(tensor.detach())
        if keep:
            kept[name] = found.cpu() if isinstance(tensor, DTensor) else found
    return kept


@contextmanager
def whole_weights(module: nn.Module) -> Iterator[None]:
    """Weights of a part of the model as whole tensors, to be read or changed; every process does the same to them."""
    shards: dict[tuple[nn.Module, str], Any] = {
        (part, name): weight
        for part in module.modules()
        for name, weight in part._parameters.items()
        if isinstance(weight, DTensor)
    }
    for (part, name), shard in shards.items():
        part._parameters[name] = nn.Parameter(shard.detach().full_tensor(), requires_grad=shard.requires_grad)
    try:
        yield
    finally:
        for (part, name), shard in shards.items():
            changed: Any = part._parameters[name]
            with torch.no_grad():
                shard.copy_(distribute_tensor(changed.detach(), shard.device_mesh, shard.placements))
            part._parameters[name] = shard


@contextmanager
def gathered(module: nn.Module) -> Iterator[None]:
    """All but the transformer layers whole, which gather themselves: parts of the model can be run, not only all."""
    if not isinstance(module, FSDPModule):
        yield
        return
    module.unshard()
    try:
        yield
    finally:
        module.reshard()


def save_shards(directory: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name, each process its shards; what is not sharded is written by one."""
    save(
        {name: _dimensioned(tensor) for name, tensor in tensors.items()},
        storage_writer=HuggingFaceStorageWriter(str(directory), save_distributed=True),
    )


def load_shards(directory: Path, tensors: Mapping[str, Tensor]) -> None:
    """Fill tensors, sharded or not, in place, each process its own."""
    _load(directory, {name: _dimensioned(tensor) for name, tensor in tensors.items()})


def stored_shapes(directory: Path) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """Names, shapes and types of what shards hold together."""
    held = HuggingFaceStorageReader(str(directory)).read_metadata().state_dict_metadata
    tensors = {name: each for name, each in held.items() if isinstance(each, TensorStorageMetadata)}
    return {name: (each.size, each.properties.dtype) for name, each in tensors.items()}


def join_shards(directory: Path) -> dict[str, Tensor]:
    """All tensors of shards, whole, in this process alone."""
    tensors = {name: torch.empty(shape, dtype=kind) for name, (shape, kind) in stored_shapes(directory).items()}
    _load(directory, tensors, alone=True)
    return tensors


def _load(directory: Path, tensors: dict[str, Any], *, alone: bool = False) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)  # which is what is meant
        load(tensors, storage_reader=HuggingFaceStorageReader(str(directory)), no_dist=alone)


def _dimensioned(tensor: Tensor) -> Tensor:
    """A number as a tensor of one: shards have a dimension."""
    return tensor.reshape(1) if tensor.ndim == 0 else tensor
