"""What a report says of the runs it was given: stars, references apart, the paper's numbers only where they belong."""

from pathlib import Path
from typing import Any

import pytest

from discodvt.errors import BadRequest
from discodvt.report.code_section import code_section
from discodvt.report.drawing import Drawing
from discodvt.report.pages import ReportSection
from discodvt.report.score_cells import check_scale, number, paper_block, rests_on_few, stars
from discodvt.report.score_sections import comparison_section, score_sections
from discodvt.report.systems import ReportedSystem, StageRun
from discodvt.report.table import Column, Table

COLORS = {"human": "#000000", "plain": "#000000", "disco": "#000000", "disco w/o codes": "#000000"}


def scored(name: str, *, against: str | None = None, count: int = 12, shift: float = 0.0, mark: str = "**") -> StageRun:
    """An evaluate run with one score each way, better than what it is compared with by `shift`."""
    directions = {"B-1": "higher", "rep-8": "lower", "MSJ-2": "higher", "D-4": "higher"}
    known = {"value": 0.2, "low": 0.1, "high": 0.3, "n": count, "signature": "s", "unit": "fraction"}
    scores: dict[str, Any] = {score: known | {"name": score, "direction": side} for score, side in directions.items()}
    found = {"low": -0.1, "high": 0.1, "p_bootstrap": 0.01, "p_t_test": 0.001, "t_test": "story", "unit": "fraction"}
    compared = against and {
        score: found
        | {"a": held, "b": held, "direction": held["direction"], "stars": mark}
        | {"difference": shift if held["direction"] == "higher" else -shift}
        for score, held in scores.items()
    }
    files = {"stories": name, "references": "human"} | ({"against": against} if against else {})
    config = {"mode": "paper", "look_back": "paper", "files": files}
    content = {"stories": count, "names": list(scores), "scores": scores, "comparison": compared or None}
    return StageRun(name, Path(name), {"stage": "evaluate", "config": config}, content)


def sections(*systems: ReportedSystem, **options: Any) -> dict[str, ReportSection]:
    return {each.name: each for each in score_sections(systems, COLORS, options.get("dataset"))}


def table_of(section: ReportSection) -> Table:
    table = section.parts[0]
    assert isinstance(table, Table)
    return table


def test_references_stand_apart_and_are_not_scored_against_themselves() -> None:
    found = sections(ReportedSystem("human", [scored("human")]), ReportedSystem("disco", [scored("disco")]))
    human, disco = table_of(found["main"]).rows
    columns = [column.name for column in table_of(found["main"]).columns]
    assert columns == ["B-1", "MSJ-2", "D-4", "rep-8"]  # the paper's order
    assert human.kind == "aside"
    assert [cell.value is None for cell in human.cells] == [True, True, False, False]
    assert all(cell.value is not None for cell in disco.cells)


def starred(*runs: StageRun) -> dict[str, set[str]]:
    """The stars each system of some evaluations has."""
    systems: dict[str, ReportedSystem] = {}
    for run in runs:
        systems.setdefault(run.name, ReportedSystem(run.name)).runs.append(run)
    return {name: set(stars(system, list(systems.values()), "paper").values()) for name, system in systems.items()}


def test_a_star_needs_to_beat_everyone() -> None:
    better = scored("disco", against="plain", shift=0.1)
    assert starred(better) == {"disco": {"**"}}
    assert starred(better, scored("disco", against="other", shift=0.1, mark="*")) == {"disco": {"*"}}
    assert starred(better, scored("disco", against="other", shift=-0.1)) == {"disco": {""}}
    assert starred(scored("disco", against="human", shift=-0.1)) == {"disco": set()}


def test_the_system_compared_against_earns_its_stars_too() -> None:
    plain, third = scored("plain"), scored("third", against="plain", shift=-0.1, mark="*")
    worse = scored("disco", against="plain", shift=-0.1)
    assert starred(plain, worse) == {"plain": {"**"}, "disco": {""}}
    assert starred(plain, worse, third) == {"plain": {"*"}, "disco": {""}, "third": {""}}
    # It beats disco, but not the third: no star, whoever's run compared them.
    better = scored("third", against="plain", shift=0.1)
    assert starred(plain, worse, better) == {"plain": {""}, "disco": {""}, "third": {"**"}}
    found = sections(*(ReportedSystem(run.name, [run]) for run in (plain, worse)))
    stars_of = {row.name: {cell.stars for cell in row.cells} for row in table_of(found["main"]).rows}
    assert stars_of == {"plain": {"**"}, "disco": {""}}


def test_ablations_have_a_table_of_their_own() -> None:
    systems = [ReportedSystem(name, [scored(name)]) for name in ("plain", "disco", "disco w/o codes")]
    found = sections(*systems)
    assert [row.name for row in table_of(found["main"]).rows] == ["plain", "disco"]
    assert [row.name for row in table_of(found["ablation"]).rows] == ["disco", "disco w/o codes"]


def test_comparisons_name_the_other_system_and_leave_out_what_needs_references() -> None:
    systems = [
        ReportedSystem("plain", [scored("plain")]),
        ReportedSystem("human", [scored("human")]),
        ReportedSystem("disco", [scored("disco", against="plain"), scored("disco", against="human")]),
    ]
    section = comparison_section(systems)
    assert section is not None
    with_plain, with_human = (part for part in section.parts if isinstance(part, Table))
    assert with_plain.title == "disco against plain"
    assert [row.name for row in with_plain.rows] == ["B-1 ↑", "rep-8 ↓", "MSJ-2 ↑", "D-4 ↑"]
    assert [row.name for row in with_human.rows] == ["rep-8 ↓", "D-4 ↑"]
    assert comparison_section(systems[:1]) is None


def test_the_papers_numbers_are_never_ours() -> None:
    columns = [Column("B-1", "higher"), Column("unknown")]
    ((heading, rows),) = paper_block("main", columns, "wikiplots")
    assert "paper" in heading
    assert "Table 2" in heading
    assert {row.kind for row in rows} == {"paper"}
    assert rows[-1].name == "DiscoDVT"
    assert (rows[-1].cells[0].text, rows[-1].cells[0].value, rows[-1].cells[0].stars) == (
        "20.57",
        pytest.approx(0.2057),
        "**",
    )
    assert rows[-1].cells[1].value is None
    assert paper_block("ablation", columns, "writingprompts") == []
    assert paper_block("main", columns, None) == []
    assert paper_block("kl", [Column("KL")], "wikiplots")[0][1][0].cells[0].value == 0.0308


def test_the_papers_numbers_need_its_scale() -> None:
    check_scale([ReportedSystem("disco", [scored("disco", count=1000)])], "wikiplots")
    with pytest.raises(BadRequest, match="12 stories, the paper scores 1,000"):
        check_scale([ReportedSystem("disco", [scored("disco")])], "wikiplots")
    with pytest.raises(BadRequest, match="no run with scores"):
        check_scale([ReportedSystem("disco")], "wikiplots")


def test_an_accuracy_of_a_handful_of_pairs_earns_nothing() -> None:
    def accuracies(because: int, so: int) -> dict[str, Any]:
        counts = {"because": because, "so": so, "and": 200}
        return {f"accuracy-{marker}": {"signature": f"macro-accuracy|pairs:{n}|n:9"} for marker, n in counts.items()}

    held = accuracies(1, 50)
    assert [rests_on_few(f"accuracy-{name}", held) for name in ("because", "so", "and")] == [True, False, False]
    assert rests_on_few("accuracy-causal", held)  # its rarest marker decides
    assert rests_on_few("accuracy", held)
    assert not rests_on_few("accuracy-conjunction", held)
    assert not rests_on_few("share-because", held)
    assert not rests_on_few("accuracy", accuracies(20, 50))
    run = scored("disco", against="plain", shift=0.1)
    each = run.content["comparison"]["B-1"]
    few, many = ({"signature": f"s|pairs:{n}"} for n in (1, 90))
    run.content["comparison"] = {
        "accuracy-so": each | {"a": many, "b": few},  # the other side's pairs count as well
        "accuracy-and": each | {"a": many, "b": many},
    }
    system = ReportedSystem("disco", [run])
    assert stars(system, [system], "paper") == {"accuracy-so": "", "accuracy-and": "**"}
    assert rests_on_few("D-4", {"D-4": {"signature": "s", "too_few": "4 n-grams, at least 20 are needed"}})


def test_a_score_of_too_few_says_so_and_is_never_best() -> None:
    runs = scored("disco"), scored("plain")
    runs[0].content["scores"]["D-4"] |= {"value": 0.9, "too_few": "4 n-grams, at least 20 are needed"}
    table = table_of(sections(*(ReportedSystem(run.name, [run]) for run in runs))["main"])
    few = table.rows[0].cells[[column.name for column in table.columns].index("D-4")]
    assert (few.thin, few.best) == (True, False)
    assert "too few: 4 n-grams, at least 20 are needed" in few.tip
    assert "† fewer than 20 n-grams" in table.note


def measured(name: str, layers: int) -> StageRun:
    """A `codes measure` run of a model with so many CNN layers."""
    known = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 12, "signature": "s", "unit": "fraction", "direction": "none"}
    usage = {"vocabulary": 4, "used": 3, "perplexity": 2.5, "utilisation": {"mean": 0.5, "bins": [0.0, 1.0]}}
    model = {"name": name, "conv_layers": layers, "tokens_per_code": 2**layers}
    content = {"model": model, "stories": 12, "usage": usage, "figures": {"nll": known, "utilisation": known}}
    return StageRun(name, Path(name), {"stage": "codes measure", "config": {}}, content)


def test_models_of_different_layers_stand_side_by_side_with_their_scores() -> None:
    deep, flat = (
        ReportedSystem(name, [measured(name, layers), scored(name)]) for name, layers in (("disco", 3), ("plain", 1))
    )
    section = code_section([deep, flat], COLORS)
    assert section is not None
    parts = {part.name: part for part in section.parts if isinstance(part, Table | Drawing)}
    assert list(parts) == ["codes", "utilisation", "layers", "worth"]
    layers, worth = parts["layers"], parts["worth"]
    assert isinstance(layers, Drawing)
    assert layers.note == "MS-Jaccard-2 in percent. CNN layers: plain 1, disco 3."
    assert isinstance(worth, Table)
    assert [heading for heading, _ in worth.blocks] == ["Reconstruction, nats per token", "Use, percent"]
    deep.runs[1].content["utilisation"] = {"mean": 0.25, "bins": [1.0, 0.0]}
    written = code_section([deep, flat], COLORS)
    assert written is not None
    drawn = [part for part in written.parts if isinstance(part, Drawing)]
    assert [part.name for part in drawn] == ["utilisation-written", "utilisation", "layers"]
    assert [part.note.split("Plans ")[-1] for part in drawn[:2]] == [
        "the stories were written from.",
        "read from held-out stories.",
    ]
    same = code_section([deep, ReportedSystem("plain", [measured("plain", 3), scored("plain")])], COLORS)
    assert same is not None
    assert "layers" not in {part.name for part in same.parts if isinstance(part, Drawing)}


def test_numbers_are_printed_with_a_minus_where_they_have_one() -> None:
    assert [number(value, "ratio") for value in (-0.0004, -0.0006, 0.0)] == ["0.000", "−0.001", "0.000"]


def test_one_story_has_no_interval_and_says_so() -> None:
    run = scored("disco", count=1)
    for score in run.content["scores"].values():
        score |= {"low": None, "high": None}
    cells = table_of(sections(ReportedSystem("disco", [run]))["main"]).rows[0].cells
    assert {cell.interval for cell in cells} == {None}
    assert all("no interval" in cell.tip for cell in cells)
