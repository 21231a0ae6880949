"""One reader per kind of source; each turns its files into rows and says where in them it is."""

from discodvt.corpus.readers.books import Books
from discodvt.corpus.readers.hub import HubDataset
from discodvt.corpus.readers.tables import Table
from discodvt.corpus.readers.wikiplots import Wikiplots
from discodvt.corpus.readers.writingprompts import WritingPrompts

__all__ = ["Books", "HubDataset", "Table", "Wikiplots", "WritingPrompts"]
