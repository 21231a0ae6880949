"""Discourse-level evaluation: marker pairs, the relation classifier, and what it says of stories (section 4.6)."""

from discodvt.evaluation.discourse.marker_pairs import Pair, pairs_in

__all__ = ["Pair", "pairs_in"]
