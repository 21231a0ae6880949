"""Training: one loop for every stage; objectives as functions, schedules, checkpoints, the watchdog.

`discodvt.training.run.train` is the stage; it takes a recipe and a directory.
"""
