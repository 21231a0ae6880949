"""Who runs the shards of a stage: this process, local processes, or a Ray cluster."""

from discodvt.executors.shards import HERE, Executor, Place, open_executor, run_shards

__all__ = ["HERE", "Executor", "Place", "open_executor", "run_shards"]
