"""The metrics, one family per file; each returns a `Metric` (`discodvt.evaluation.metric`) from arrays of tokens."""
