"""Corpora: readers for the usual sources, cleaning, splits, and the `Example` records every later stage reads.

prepare(Wikiplots(Path("wikiplots")), Path("corpus"), Options(min_words=50))
"""

from discodvt.corpus.books import Books
from discodvt.corpus.paper_corpora import Wikiplots, WritingPrompts
from discodvt.corpus.preparation import Options, prepare
from discodvt.corpus.records import (
    ANNOTATED_SCHEMA,
    CORPUS_SCHEMA,
    SPLITS,
    Example,
    RowWriter,
    columns_of,
    notes_of,
    read_examples,
    read_rows,
    row_count,
    split_files,
    write_rows,
)
from discodvt.corpus.sentences import cut_to_words, first_sentence, iter_sentences, split_sentences
from discodvt.corpus.sources import Source, SourcePart, SourceRow
from discodvt.corpus.tabular import Columns, HubDataset, TabularFiles

__all__ = [
    "ANNOTATED_SCHEMA", "CORPUS_SCHEMA", "SPLITS", "Books", "Columns", "Example", "HubDataset", "Options",
    "RowWriter", "Source", "SourcePart", "SourceRow", "TabularFiles", "Wikiplots", "WritingPrompts", "columns_of",
    "cut_to_words", "first_sentence", "iter_sentences", "notes_of", "prepare", "read_examples", "read_rows",
    "row_count", "split_files", "split_sentences", "write_rows",
]  # fmt: skip
