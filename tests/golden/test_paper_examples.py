"""The paper's ten sentences give the paper's markers, directions and arguments."""

import pytest
from golden.paper_examples import EXAMPLES, Example

from discodvt.discourse import Annotation, Annotator
from discodvt.discourse.annotation import annotate_sentences
from discodvt.discourse.language import Language
from discodvt.discourse.languages import ENGLISH
from discodvt.discourse.trees import CLEARNLP, UD1, UD2, Scheme, Sentence, Tree

OLD_LABELS = {"obj": "dobj", "nsubj:pass": "nsubjpass", "aux:pass": "auxpass"}


def read_trees(example: Example, *, scheme: Scheme, language: Language = ENGLISH) -> list[Sentence]:
    """The hand-written trees at their offsets; for the older schemes with their labels and place of `and`."""
    sentences, at = [], 0
    for line in example.sentences:
        rows = [token.rsplit("/", 3) for token in line.split()]
        starts = []
        for word, *_ in rows:
            at = example.text.index(word, at)
            starts.append(at)
            at += len(word)
        heads = [int(head) - 1 for _, _, head, _ in rows]
        deps = [label for *_, label in rows]
        if scheme is not UD2:
            for token, label in enumerate(deps):
                if label == "cc" and deps[heads[token]] == "conj":
                    heads[token] = heads[heads[token]]
            nominal = "pobj" if scheme is CLEARNLP else "nmod"
            deps = [nominal if label == "obl" else OLD_LABELS.get(label, label) for label in deps]
        tree = Tree(
            words=[word.lower() for word, *_ in rows],
            tags=[tag for _, tag, _, _ in rows],
            deps=deps,
            heads=heads,
            starts=starts,
            ends=[start + len(row[0]) for start, row in zip(starts, rows, strict=True)],
            language=language,
        )
        sentences.append(Sentence(starts[0], at, tree))
    return sentences


def agrees(example: Example, annotation: Annotation) -> bool:
    """Marker, relation between the two EDUs, and both arguments, edge punctuation aside."""
    trim = ' .,;:"“”'
    text = example.text
    return annotation.relations == [example.relation] and any(
        mention.marker == example.marker
        and text[slice(*mention.arg1)].strip(trim) == example.arg1
        and text[slice(*mention.arg2)].strip(trim) == example.arg2
        for mention in annotation.mentions
    )


@pytest.mark.parametrize("scheme", [UD2, CLEARNLP, UD1], ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.marker)
def test_correct_trees_give_the_papers_annotation(example: Example, scheme: Scheme) -> None:
    annotation = annotate_sentences(example.text, read_trees(example, scheme=scheme), scheme)
    assert agrees(example, annotation), annotation


def test_shipped_parser_gives_at_least_nine_of_ten() -> None:
    annotator = Annotator()
    failed = [example.marker for example in EXAMPLES if not agrees(example, annotator.annotate(example.text))]
    assert len(failed) <= 1, failed
