"""The annotator against gold data it was not made from: explicit connectives of GUM, decisions of DisSent."""

import json
from pathlib import Path

import pytest

from discodvt.discourse import MARKERS, Annotator
from discodvt.discourse.gold import read_conllu, selftest
from discodvt.errors import BadRequest


@pytest.fixture(scope="module")
def scores(shared: Path) -> dict[str, dict[str, float]]:
    return selftest(shared / "data" / "discourse_gold" / "gum_dev.conllu")


def test_rules_on_gold_trees(scores: dict[str, dict[str, float]]) -> None:
    assert scores["gold_trees"]["f1"] >= 0.92
    assert scores["gold_trees"]["arg1_f1"] >= 0.75
    assert scores["gold_trees"]["arg2_f1"] >= 0.87


def test_rules_and_shipped_parser_on_raw_text(scores: dict[str, dict[str, float]]) -> None:
    assert scores["raw_text"]["f1"] >= 0.85


def test_dissent_decisions(shared: Path, annotator: Annotator) -> None:
    cases = json.loads((shared / "data" / "discourse_gold" / "dissent_cases.json").read_text(encoding="utf-8"))
    cases = [case for case in cases if case["group"] != "curious_cases" and case["marker"] in MARKERS]
    right = 0
    for case in cases:
        text = f"{case['previous_sentence']} {case['sentence']}"
        start = len(case["previous_sentence"])
        found = {mention.marker for mention in annotator.annotate(text).mentions if mention.start > start}
        right += (case["marker"] in found) == (case["output"] is not None)
    assert right / len(cases) >= 0.75


def test_multiword_tokens_are_spelled_without_spaces(tmp_path: Path) -> None:
    rows = [
        "1\tWe\twe\tPRON\tPRP\t_\t3\tnsubj\t_\t_",
        "2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No",
        "2\tca\tcan\tAUX\tMD\t_\t3\taux\t_\t_",
        "3\tn't\tnot\tPART\tRB\t_\t0\troot\t_\t_",
        "4\t!\t!\tPUNCT\t.\t_\t3\tpunct\t_\t_",
    ]
    path = tmp_path / "a.conllu"
    path.write_text("# newdoc id = a\n" + "\n".join(rows) + "\n\n", encoding="utf-8")
    (document,) = read_conllu(path)
    assert document.text == "We can't! "
    assert [document.text[start:end] for start, end in document.tokens] == ["We", "ca", "n't", "!"]


@pytest.mark.parametrize("content", ["", "# newdoc id = a\n", "1\tonly\tthree\n\n"])
def test_files_that_are_no_gold(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadRequest):
        selftest(path)
