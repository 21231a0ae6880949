"""The paper's baselines (section 4.3): what Aristotelian Rescoring and BART-CVAE add to a plain writer."""
