"""Training: one loop for every stage, one file for each stage (`stages/`).

`read_recipe` of `discodvt.training.recipes` opens a recipe, `train` of `discodvt.training.run` trains it.
"""
