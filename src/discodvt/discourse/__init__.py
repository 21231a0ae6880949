"""Discourse: stories cut into EDUs, with the relation between neighbours (paper, appendix A.3.2)."""

from discodvt.discourse.annotation import Annotation, Mention
from discodvt.discourse.annotator import Annotator
from discodvt.discourse.labels import CATEGORIES, LABELS, MARKERS, UNKNOWN, category_of, marker_of, relation

__all__ = [
    "CATEGORIES",
    "LABELS",
    "MARKERS",
    "UNKNOWN",
    "Annotation",
    "Annotator",
    "Mention",
    "category_of",
    "marker_of",
    "relation",
]
