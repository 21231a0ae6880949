"""Benches: each speed or memory promise of the project is a row here, a ratio measured interleaved in one run."""
