"""Other parsers by option: CoreNLP over HTTP, Stanza's documents, spaCy pipelines; unknown ones are refused clearly."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import spacy

from discodvt.discourse import Annotator
from discodvt.discourse.languages import GERMAN, load_language
from discodvt.discourse.parsers import StanzaParser, load_parser
from discodvt.discourse.trees import CLEARNLP, UD1, UD2, scheme_of
from discodvt.errors import BadRequest, WorkFailed

TEXT = "🦊 ran home because he was late."
ROWS = [  # word, tag, head, label, in the labels of CoreNLP 3.x (UD v1)
    ("🦊", "NN", 2, "nsubj"),
    ("ran", "VBD", 0, "ROOT"),
    ("home", "RB", 2, "advmod"),
    ("because", "IN", 7, "mark"),
    ("he", "PRP", 7, "nsubj"),
    ("was", "VBD", 7, "cop"),
    ("late", "JJ", 2, "advcl"),
    (".", ".", 2, "punct"),
]


def corenlp_answer(text: str) -> dict[str, Any]:
    """What a CoreNLP server says of TEXT; of any other text a sentence with the labels that tell its scheme."""
    if text != TEXT:
        labels = ["nmod", "dobj", "nsubjpass", "auxpass"]
        return {"sentences": [{"basicDependencies": [{"dep": label} for label in labels], "tokens": []}]}
    tokens, edges, at = [], [], 0
    for number, (word, tag, head, label) in enumerate(ROWS, start=1):
        place = text.index(word, at)
        at = place + len(word)
        begin, end = (len(text[:n].encode("utf-16-le")) // 2 for n in (place, at))
        tokens.append({"originalText": word, "pos": tag, "characterOffsetBegin": begin, "characterOffsetEnd": end})
        edges.append({"dep": label, "governor": head, "dependent": number})
    return {"sentences": [{"tokens": tokens, "basicDependencies": edges}]}


@contextmanager
def answering(answer: Callable[[str], bytes], *, status: bool = True) -> Iterator[str]:
    """A server that answers a text so; without `status` it does not speak HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if status:
                self.send_response(200)
                self.end_headers()
            self.wfile.write(answer(text))

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[str]:
    with answering(lambda text: json.dumps(corenlp_answer(text)).encode()) as address:
        yield address


def test_corenlp_counts_utf16_and_we_count_characters(server: str) -> None:
    annotator = Annotator(f"corenlp:{server}")
    assert annotator.parser.scheme is UD1
    annotation = annotator.annotate(TEXT)
    assert annotation.relations == ["because_arg1_arg2"]
    assert [TEXT[start:end] for start, end in annotation.edus] == ["🦊 ran home ", "because he was late."]


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://localhost:port"])
def test_corenlp_that_does_not_answer_is_one_clear_line(address: str) -> None:
    with pytest.raises(WorkFailed, match="no answer from the CoreNLP server"):
        load_parser(f"corenlp:{address}")


@pytest.mark.parametrize("content", [b"{}", b"[]", b"hello"])
def test_what_is_no_corenlp_server_is_one_clear_line(content: bytes) -> None:
    with answering(lambda text: content) as address, pytest.raises(WorkFailed, match="is this a CoreNLP server"):
        load_parser(f"corenlp:{address}")


def test_what_does_not_speak_http_is_one_clear_line() -> None:
    with (
        answering(lambda text: b"SSH-2.0-OpenSSH\r\n", status=False) as address,
        pytest.raises(WorkFailed, match="no answer from the CoreNLP server"),
    ):
        load_parser(f"corenlp:{address}")


def stanza_document(text: str) -> SimpleNamespace:
    """A document with the attributes Stanza's have."""
    if text != TEXT:
        return SimpleNamespace(sentences=[])
    words, tokens, at = [], [], 0
    for word, tag, head, label in ROWS:
        place = text.index(word, at)
        at = place + len(word)
        words.append(SimpleNamespace(text=word, xpos=tag, head=head, deprel=label))
        tokens.append(SimpleNamespace(start_char=place, end_char=at, words=words[-1:]))
    return SimpleNamespace(sentences=[SimpleNamespace(words=words, tokens=tokens)])


def test_stanza_documents_are_understood() -> None:
    annotation = Annotator(StanzaParser(stanza_document)).annotate(TEXT)
    assert annotation.relations == ["because_arg1_arg2"]
    assert TEXT[slice(*annotation.mentions[0].arg2)] == "he was late."


def test_schemes_are_told_by_their_labels() -> None:
    assert scheme_of({"obl", "obj", "nsubj:pass", "aux:pass", "mark"}, source="x") is UD2
    assert scheme_of({"pobj", "dobj", "nsubjpass", "auxpass", "nmod"}, source="x") is CLEARNLP
    assert scheme_of({"nmod", "dobj", "nsubjpass", "auxpass"}, source="x") is UD1


def test_an_unknown_scheme_is_refused(tmp_path: Path) -> None:
    nlp = spacy.blank("de")
    parser = nlp.add_pipe("parser")
    for label in ("sb", "oa", "ROOT"):
        parser.add_label(label)  # type: ignore[attr-defined]
    nlp.initialize()
    nlp.to_disk(tmp_path / "german")
    with pytest.raises(BadRequest, match="belong to no known scheme"):
        load_parser(f"spacy:{tmp_path / 'german'}")


@pytest.mark.parametrize(
    "name", ["nonsense", "spacy:", "spacy:no_such_model", "corenlp:", "bundled:x", "corenlp:ftp://x"]
)
def test_unknown_parsers_are_bad_requests(name: str) -> None:
    with pytest.raises(BadRequest):
        load_parser(name)


def test_a_pipeline_without_a_parser_is_refused(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(BadRequest, match="no `parser`"):
        load_parser(f"spacy:{tmp_path / 'blank'}")


def test_all_trees_gives_sentences_without_a_marker_theirs() -> None:
    text = "The cat slept. She woke because it rained."
    some, every = (
        next(Annotator(load_parser(all_trees=all_trees)).sentences_many([text])) for all_trees in (False, True)
    )
    assert [sentence.tree is None for sentence in some] == [True, False]
    assert [sentence.tree is None for sentence in every] == [False, False]
    assert [(sentence.start, sentence.end) for sentence in some] == [(0, 14), (15, 42)]


def test_a_parser_of_another_language_is_refused() -> None:
    with pytest.raises(BadRequest, match="bundled: a pipeline for `en`, not for german") as error:
        Annotator(language="german")
    assert error.value.parameters == ("language",)
    with pytest.raises(BadRequest, match="'klingon': known are english, german"):
        Annotator(language="klingon")


def test_a_spacy_pipeline_of_another_language_reads_its_markers(tmp_path: Path) -> None:
    nlp = spacy.blank("de")
    parser = nlp.add_pipe("parser")
    for label in UD2.signs:
        parser.add_label(label)  # type: ignore[attr-defined]
    nlp.initialize()
    nlp.to_disk(tmp_path / "german")
    opened = load_parser(f"spacy:{tmp_path / 'german'}", load_language("de"))
    sentences = list(opened.parse(["Er blieb, weil es regnete.", "He stayed because it rained."]))
    trees = [sentence.tree for each in sentences for sentence in each if sentence.tree is not None]
    held = [word for tree in trees for word in tree.words]
    assert "weil" in held  # a sentence without a marker of the language comes without its tree
    assert "because" not in held
    assert all(tree.language is GERMAN for tree in trees)
    with pytest.raises(BadRequest, match="for `de`, not for english"):
        load_parser(f"spacy:{tmp_path / 'german'}")


def test_stanza_is_opened_for_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[str] = []
    pipeline = SimpleNamespace(Pipeline=lambda code, **_: codes.append(code) or stanza_document)
    monkeypatch.setitem(sys.modules, "stanza", pipeline)  # type: ignore[arg-type]
    assert load_parser("stanza", GERMAN).language is GERMAN
    assert codes == ["de"]


@pytest.mark.parametrize(("message", "said"), [("", "ConnectionError"), ("\nno models\nat all", "no models")])
def test_a_stanza_that_cannot_be_opened_is_one_line(monkeypatch: pytest.MonkeyPatch, message: str, said: str) -> None:
    def pipeline(code: str, **_: object) -> None:
        raise ConnectionError(message)

    monkeypatch.setitem(sys.modules, "stanza", SimpleNamespace(Pipeline=pipeline))  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match=f"stanza's models for english: {said}; run"):
        load_parser("stanza")


def test_the_program_annotates_without_pytorch(tmp_path: Path) -> None:
    (tmp_path / "story.txt").write_text("Although the fox was tired, he walked on.")
    code = """
import subprocess
import sys
from discodvt.cli import main
try:
    main()
finally:
    print([name for name in ("spacy", "torch") if name in sys.modules], file=sys.stderr)
"""
    command = [sys.executable, "-c", code, "annotate", "--show", str(tmp_path / "story.txt"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["relations"] == ["although_arg2_arg1"]
    assert done.stderr.strip() == "['spacy']"
