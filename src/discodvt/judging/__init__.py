"""Human evaluation: blind studies in which people compare stories in pairs (the paper's 4.6 and Table 4).

| file | |
|---|---|
| `study.py` | the study file (TOML) |
| `make_stage.py` | study file and stories -> a study directory: items, key, rules; all fixed before the first answer |
| `session.py` | who judges which item, on which side, in which order; leases; checks |
| `answers.py` | the append-only files of judges and answers |
| `pages/`, `study_server.py` | the page and the server for judges |
| `study_statistics.py` | the statistics |
| `score_stage.py` | answers -> scores |
| `simulation.py` | simulated judges: for planning and tests, never mixed with people |
"""
