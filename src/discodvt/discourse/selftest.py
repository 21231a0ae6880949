"""`discodvt annotate --selftest`: the annotator against gold connectives, on gold trees and on raw text."""

from pathlib import Path
from typing import Any

from discodvt.discourse.annotation import annotate_sentences
from discodvt.discourse.annotator import Annotator
from discodvt.discourse.gold import read_conllu
from discodvt.discourse.schemes import scheme_of
from discodvt.discourse.score import Score
from discodvt.errors import BadRequest


def selftest(path: Path, *, parser: str = "bundled") -> dict[str, Any]:
    """Scores under `gold_trees` (the rules alone) and `raw_text` (rules and parser together)."""
    documents = read_conllu(path)
    if not any(document.connectives for document in documents):
        raise BadRequest(
            f"{path}: no explicit connectives (PDTB=Explicit:... in the last column); nothing to score against"
        )
    trees = [sentence.tree for document in documents for sentence in document.sentences if sentence.tree is not None]
    scheme = scheme_of({label for tree in trees for label in tree.deps}, source=str(path))
    on_trees, on_text = Score(), Score()
    annotations = Annotator(parser).annotate_many(document.text for document in documents)
    for document, annotation in zip(documents, annotations, strict=True):
        on_trees.add(annotate_sentences(document.text, document.sentences, scheme), document)
        on_text.add(annotation, document)
    return {"gold_trees": on_trees.as_dict(), "raw_text": on_text.as_dict()}
