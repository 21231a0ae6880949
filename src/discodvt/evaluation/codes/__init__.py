"""What a trained model's codes are, and what they are worth (section 4.6, appendix A.1).

`study` reads a split into plans and describes every code; `measure` puts figures with intervals beside each other:
reconstruction, the plan's worth, relations, the prior; `compare` sets measured runs side by side.
Only `checkpoints` and `reading` know models; everything else counts.
"""
