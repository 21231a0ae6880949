"""The studio: a page to write with a plan in hand, and the HTTP server of a writer behind it, also for programs.

| file | what |
|---|---|
| `scribe.py` | the thread that owns the model: steps the shared batch, runs all other work between steps |
| `jobs.py` | a job: an append-only list of events; readers are cursors, so that a slow one holds nobody up |
| `native.py` | routes under `/api`: model, codes, plans, alternatives, stories, jobs |
| `edits.py` | what can be done to a story by its plan: swap, resample, redraw, wish, ...; each becomes requests |
| `errands.py` | a job with something to do after the writing: look for a wish, choose, keep versions |
| `control_routes.py` | `/api/edits`, `/api/heard`, `/api/compare`: control over a story that the client holds |
| `projects.py` | projects: trees of versions that only grow, and drafts of what is being written |
| `database.py` | the SQLite file they are in |
| `project_routes.py` | `/api/projects`: write, edit, lock, read in, undo, redo, export |
| `openai.py` | `/v1/models` and `/v1/completions` |
| `server.py` | all of it in one application inside the shell of `web/` |
"""
