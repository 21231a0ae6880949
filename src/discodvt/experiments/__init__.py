"""Many runs at once: a search for settings, and the grid of systems, seeds and corpora behind the paper's tables."""
