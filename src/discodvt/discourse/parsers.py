"""Parsers behind one interface: texts in, sentences with trees out. `load_parser` opens the one a user names.

bundled        the spaCy pipeline that ships with the package (English, UD v2)
spacy:NAME     any installed spaCy pipeline with a dependency parser and the tags of the language, or a directory of one
stanza         Stanza's pipeline for the language (UD v2; its models must be installed)
corenlp:URL    a running CoreNLP server: version 4 prints UD v2, 3.x UD v1; a probe shows which

Each library is imported when its parser is opened.
"""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from discodvt.discourse.language import Language
from discodvt.discourse.languages import ENGLISH
from discodvt.discourse.trees import UD2, Scheme, Sentence, Tree, scheme_of
from discodvt.errors import BadRequest, WorkFailed, first_line

if TYPE_CHECKING:
    from spacy.language import Language as Pipeline
    from spacy.tokens import Doc

_SPACY_COLUMNS: list[int | str] = ["LOWER", "TAG", "DEP", "HEAD", "IDX", "LENGTH", "SENT_START", "IS_SPACE"]
_SPACY_UNUSED = ["ner", "lemmatizer", "attribute_ruler", "textcat", "entity_linker"]
_CORENLP_PROPERTIES = {
    "annotators": "tokenize,ssplit,pos,depparse",
    "outputFormat": "json",
    "ssplit.newlineIsSentenceBreak": "two",
}

only_bundled = False  # set by processes that do nothing but annotate with it: then spaCy need not load PyTorch


class Parser(Protocol):
    """What the annotator needs of a parser."""

    name: str
    scheme: Scheme
    language: Language

    def parse(self, pieces: Sequence[str]) -> Iterable[list[Sentence]]:
        """The sentences of each piece; a sentence without any marker may come without its tree."""
        ...


def load_parser(name: str = "bundled", language: Language = ENGLISH, *, all_trees: bool = False) -> Parser:
    """Open the parser a user named; without `all_trees` a sentence without any marker may come without its tree."""
    kind, _, rest = name.partition(":")
    if kind in ("bundled", "spacy") and (kind == "spacy") == bool(rest):
        source = str(bundled_path()) if kind == "bundled" else rest
        return SpacyParser(name, source, language=language, all_trees=all_trees)
    if name == "stanza":
        return StanzaParser.open(language)
    if kind == "corenlp" and rest:
        return CoreNlpParser(rest, language)
    raise BadRequest(f"unknown parser {name!r}; use bundled, spacy:NAME, stanza or corenlp:URL")


def bundled_path() -> Path:
    """Where the parser that ships with the package lies."""
    return Path(str(files("discodvt") / "assets" / "parser"))


class SpacyParser:
    """A loaded spaCy pipeline."""

    def __init__(self, name: str, source: str, *, language: Language = ENGLISH, all_trees: bool = False) -> None:
        self.name = name
        self.language = language
        self.all_trees = all_trees
        self.nlp = _load_spacy(source)
        if "parser" not in self.nlp.pipe_names:
            raise BadRequest(f"{name}: this spaCy pipeline has no `parser`; it has {', '.join(self.nlp.pipe_names)}")
        self.scheme = scheme_of(self.nlp.pipe_labels["parser"], source=name)
        if self.nlp.lang not in (language.code, "xx"):  # xx: trained on many languages
            raise BadRequest(
                f"parser {name}: a pipeline for `{self.nlp.lang}`, not for {language.name}; give a parser that was "
                f"trained on {language.name} (spacy:NAME or stanza), or another `language`",
                parameter="language",
            )
        for _, component in self.nlp.pipeline:  # known for good, or a memory zone would forget them with its words
            for label in getattr(component, "labels", ()):
                self.nlp.vocab.strings.add(label)
        self._markers = np.array([self.nlp.vocab.strings.add(marker) for marker in language.markers], dtype=np.uint64)

    def parse(self, pieces: Sequence[str]) -> list[list[Sentence]]:
        with self.nlp.memory_zone():  # the vocabulary forgets the words of these pieces again: memory stays flat
            docs = self.nlp.pipe(pieces, batch_size=max(len(pieces), 1))
            return [list(self._sentences(doc)) for doc in docs]

    def _sentences(self, doc: "Doc") -> Iterator[Sentence]:
        table = doc.to_array(_SPACY_COLUMNS)
        table = table[table[:, 7] == 0] if len(doc) else table  # spaces are no words
        if not len(table):
            return
        positions = np.flatnonzero(doc.to_array("IS_SPACE") == 0)
        firsts = np.flatnonzero(table[:, 6].astype(np.int64) == 1)
        bounds = [0, *(int(first) for first in firsts if first > 0), len(table)]
        holds_marker = np.isin(table[:, 0], self._markers)
        begins, lengths = table[:, 4].astype(np.int64), table[:, 5].astype(np.int64)
        ends = begins + lengths
        heads = np.searchsorted(positions, positions + table[:, 3].astype(np.int64))
        for low, high in pairwise(bounds):
            tree = None
            if self.all_trees or holds_marker[low:high].any():
                tree = self._tree(table[low:high], heads[low:high] - low, begins[low:high], ends[low:high])
            yield Sentence(int(begins[low]), int(ends[high - 1]), tree)

    def _tree(self, rows: np.ndarray, heads: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> Tree:
        strings = self.nlp.vocab.strings
        links = heads.tolist()
        count = len(links)
        return Tree(
            words=[strings[key] for key in rows[:, 0].tolist()],
            tags=[strings[key] for key in rows[:, 1].tolist()],
            deps=[strings[key] for key in rows[:, 2].tolist()],
            heads=[link if 0 <= link < count and link != token else -1 for token, link in enumerate(links)],
            starts=begins.tolist(),
            ends=ends.tolist(),
            language=self.language,
        )


def _load_spacy(source: str) -> "Pipeline":
    if only_bundled:
        _import_spacy_alone()
    import spacy

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\[W095\]")  # trained with a nearby spaCy version
            return spacy.load(source, exclude=_SPACY_UNUSED)
    except OSError as error:
        raise BadRequest(
            f"spaCy pipeline {source!r} cannot be opened: {first_line(error)} Install it or give its directory"
        ) from None


def _import_spacy_alone() -> None:
    """Without PyTorch, which spaCy loads where it is installed: two thirds of the time to start, and 180 MB."""
    if "spacy" not in sys.modules and "torch" not in sys.modules:
        sys.modules["torch"] = None  # type: ignore[assignment]  # to import it is an ImportError, as spaCy expects
        try:
            import spacy  # noqa: F401
        finally:
            del sys.modules["torch"]


class StanzaParser:
    """A Stanza pipeline, or anything called like one: `pipeline(text).sentences`."""

    name = "stanza"
    scheme = UD2

    def __init__(self, pipeline: Any, language: Language = ENGLISH) -> None:
        self.pipeline = pipeline
        self.language = language

    @classmethod
    def open(cls, language: Language = ENGLISH) -> "StanzaParser":
        try:
            import stanza
        except ImportError:
            raise BadRequest("the stanza parser is not installed; pip install 'discodvt[stanza]'") from None
        try:
            options = {"processors": "tokenize,mwt,pos,lemma,depparse", "download_method": None, "verbose": False}
            return cls(stanza.Pipeline(language.code, **options), language)
        except Exception as error:  # stanza raises its own and requests' errors here, none of them exported
            raise BadRequest(
                f"stanza's models for {language.name}: {first_line(error)}; "
                f"run `stanza.download('{language.code}')` once"
            ) from None

    def parse(self, pieces: Sequence[str]) -> Iterator[list[Sentence]]:
        for piece in pieces:
            found = self.pipeline(piece).sentences if piece.strip() else ()
            yield [_stanza_sentence(sentence, self.language) for sentence in found]


def _stanza_sentence(sentence: Any, language: Language) -> Sentence:
    spans = [(token.start_char, token.end_char) for token in sentence.tokens for _ in token.words]
    words = sentence.words
    tree = Tree(
        words=[word.text.lower() for word in words],
        tags=[word.xpos for word in words],
        deps=[word.deprel for word in words],
        heads=[word.head - 1 for word in words],
        starts=[start for start, _ in spans],
        ends=[end for _, end in spans],
        language=language,
    )
    return Sentence(tree.starts[0], tree.ends[-1], tree)


class CoreNlpParser:
    """A client of one server."""

    def __init__(self, url: str, language: Language = ENGLISH, *, seconds: float = 300.0) -> None:
        self.language = language
        self.name = f"corenlp:{url}"
        self.url = url if "://" in url else f"http://{url}"
        if not self.url.startswith(("http://", "https://")):
            raise BadRequest(f"{url}: not an http address; give corenlp:http://HOST:PORT")
        self.seconds = seconds
        probe = self._ask(language.probe)["sentences"]
        labels = {edge["dep"] for sentence in probe for edge in sentence["basicDependencies"]}
        self.scheme = scheme_of(labels, source=self.name)

    def parse(self, pieces: Sequence[str]) -> Iterator[list[Sentence]]:
        for piece in pieces:
            yield list(_corenlp_sentences(piece, self._ask(piece), self.language)) if piece.strip() else []

    def _ask(self, text: str) -> dict[str, Any]:
        from http.client import HTTPException
        from urllib.error import URLError
        from urllib.parse import urlencode
        from urllib.request import Request, urlopen

        address = f"{self.url}/?{urlencode({'properties': json.dumps(_CORENLP_PROPERTIES)})}"
        request = Request(address, data=text.encode("utf-8"), headers={"Content-Type": "text/plain; charset=utf-8"})
        try:
            with urlopen(request, timeout=self.seconds) as answer:
                result: Any = json.load(answer)
        except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", error)
            raise WorkFailed(f"{self.url}: no answer from the CoreNLP server ({reason}); is it running?") from None
        except ValueError:
            result = None
        if not isinstance(result, dict) or "sentences" not in result:
            raise WorkFailed(f"{self.url}: the answer is not one of CoreNLP's; is this a CoreNLP server?")
        return result


def _corenlp_sentences(piece: str, answer: dict[str, Any], language: Language) -> Iterator[Sentence]:
    place = _code_points(piece)
    for sentence in answer["sentences"]:
        tokens = sentence["tokens"]
        labels, heads = [""] * len(tokens), [-1] * len(tokens)
        for edge in sentence["basicDependencies"]:
            labels[edge["dependent"] - 1] = edge["dep"].lower() if edge["governor"] == 0 else edge["dep"]
            heads[edge["dependent"] - 1] = edge["governor"] - 1
        tree = Tree(
            words=[token["originalText"].lower() for token in tokens],
            tags=[token["pos"] for token in tokens],
            deps=labels,
            heads=heads,
            starts=[place[token["characterOffsetBegin"]] for token in tokens],
            ends=[place[token["characterOffsetEnd"]] for token in tokens],
            language=language,
        )
        yield Sentence(tree.starts[0], tree.ends[-1], tree)


def _code_points(text: str) -> Sequence[int]:
    """Java counts UTF-16 units: for each unit offset, the offset in characters."""
    if text.isascii():
        return range(len(text) + 1)
    offsets = []
    for position, character in enumerate(text):
        offsets.extend([position] * (2 if ord(character) > 0xFFFF else 1))
    return [*offsets, len(text)]
