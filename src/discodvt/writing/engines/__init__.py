"""Engines: runtimes that load the weights of a model and extend rows of a KV cache by one symbol at a time."""
