"""What the codes of a trained model stand for, and what plans gain (section 4.6, appendix A.1).

`study` describes every code of a split; `measure` measures reconstruction, relations and the prior on held-out stories
(figures in `plan_gain`) and sets measured runs side by side. `inference` runs the models; `occurrences`, `code_bigram`
and `plan_gain` only count; `probe` trains a relation head of its own.
"""
