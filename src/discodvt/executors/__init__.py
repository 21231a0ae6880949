"""Who runs the shards of a stage: this process, local processes, or a Ray cluster."""

from discodvt.executors.local import ThisProcess
from discodvt.executors.shards import Executor, Place, open_executor, run_shards

__all__ = ["Executor", "Place", "ThisProcess", "open_executor", "run_shards"]
