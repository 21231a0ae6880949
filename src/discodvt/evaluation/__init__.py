"""Scores of stories: the paper's metrics as defined there, modern ones beside them, and which differences are real."""

from discodvt.evaluation.comparison import Comparison, compare
from discodvt.evaluation.scores import Score, evaluate

__all__ = ["Comparison", "Score", "compare", "evaluate"]
