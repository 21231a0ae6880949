"""The HTTP server of a writer: continuous batching in a thread, jobs with resumable events, an OpenAI-compatible door.

| file | what |
|---|---|
| `scribe.py` | the thread that owns the model: steps the shared batch, runs all other work between steps |
| `jobs.py` | a job: an append-only list of events; readers are cursors, so that a slow one holds nobody up |
| `native.py` | routes under `/api`: model, codes, plans, alternatives, stories, jobs |
| `openai.py` | `/v1/models` and `/v1/completions` |
| `server.py` | both in one application inside the shell of `web/` |
"""
