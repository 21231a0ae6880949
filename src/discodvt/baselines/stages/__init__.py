"""Training stages of the baselines; `discodvt.training.recipes` knows this folder by name, as it does its own."""
