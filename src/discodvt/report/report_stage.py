"""The report stage: runs in; `report.html`, `tables/` (Markdown, LaTeX, CSV) and `figures/` (SVG, PDF) out."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from discodvt.artefacts import MANIFEST, open_stage
from discodvt.report.charts import system_colors
from discodvt.report.code_section import code_section
from discodvt.report.discourse_section import discourse_section
from discodvt.report.drawing import Drawing
from discodvt.report.example_section import example_section
from discodvt.report.human_section import human_section
from discodvt.report.pages import Part, ReportSection, report_page
from discodvt.report.score_cells import Dataset, check_scale
from discodvt.report.score_sections import comparison_section, score_sections
from discodvt.report.systems import ReportedSystem, read_runs
from discodvt.report.table import Table, comma_separated, latex, markdown

PAGE = "report.html"
FORMATS = {"md": markdown, "tex": latex, "csv": comma_separated}


def write_report(
    requests: Sequence[str],
    out: Path,
    *,
    title: str | None = None,
    paper: Dataset | None = None,
    examples: int = 3,
    overwrite: bool = False,
    more: Sequence[ReportSection] = (),
) -> dict[str, Any]:
    """Write the report of some runs; returns what it holds: {"systems", "sections", "tables", "figures"}.

    `more` are sections of whoever asks for it, at the end.
    """
    systems = read_runs(requests)
    if paper is not None:
        check_scale(systems, paper)
    names = [system.name for system in systems]
    title = title or "Report: " + ", ".join(names)
    config = {"title": title, "systems": names, "paper": paper, "examples": examples}
    config |= {"more": [section.name for section in more]} if more else {}
    inputs = [run.directory / MANIFEST for system in systems for run in system.runs]
    with open_stage(out, "report", config=config, inputs=inputs, overwrite=overwrite) as stage:
        if not stage.complete:
            sections = _named_apart([*_sections(systems, paper, examples), *more])
            parts = [part for section in sections for part in section.parts]
            tables = [part for part in parts if isinstance(part, Table)]
            figures = [part for part in parts if isinstance(part, Drawing)]
            for table in tables:
                for suffix, formatted in FORMATS.items():
                    with stage.writing(f"tables/{table.name}.{suffix}") as path:
                        path.write_text(formatted(table), encoding="utf-8")
            for figure in figures:
                for suffix, drawn in (("svg", figure.svg().encode()), ("pdf", figure.pdf())):
                    with stage.writing(f"figures/{figure.name}.{suffix}") as path:
                        path.write_bytes(drawn)
            with stage.writing(PAGE) as path:
                path.write_text(report_page(title, _facts(systems), sections), encoding="utf-8")
            stage.finish(
                systems=names,
                sections=[section.name for section in sections],
                tables=[table.name for table in tables],
                figures=[figure.name for figure in figures],
            )
        return stage.facts


def _sections(systems: Sequence[ReportedSystem], paper: Dataset | None, examples: int) -> Iterator[ReportSection]:
    """In the paper's order; each only where the runs have what it shows."""
    names = [system.name for system in systems]
    unnamed = "human" if "human" not in names else "references"
    human = next((system.name for system in systems if system.is_reference), unnamed)
    colors = system_colors(list(dict.fromkeys([*names, human])))
    yield from score_sections(systems, colors, paper)
    found = (
        comparison_section(systems),
        discourse_section(systems, human, colors, paper),
        human_section(systems, paper),
        code_section(systems, colors),
        example_section(systems, count=examples),
    )
    yield from (section for section in found if section is not None)


def _named_apart(sections: Sequence[ReportSection]) -> list[ReportSection]:
    """The sections, a number after a table's name where an earlier table has it: names are those of files.

    `BART-LM` and `BART LM` give one name, and so do two comparisons with systems that are not reported.
    """
    taken: set[str] = set()

    def apart(part: Part) -> Part:
        if not isinstance(part, Table):
            return part
        numbered = (f"{part.name}-{number}" for number in count(2))
        name = next(name for name in chain([part.name], numbered) if name.lower() not in taken)
        taken.add(name.lower())
        return replace(part, name=name)

    return [replace(section, parts=[apart(part) for part in section.parts]) for section in sections]


def _facts(systems: Sequence[ReportedSystem]) -> str:
    versions = sorted({run.manifest["versions"]["discodvt"] for system in systems for run in system.runs})
    said = [f"{system.name}: the references themselves" for system in systems if system.is_reference]
    return "; ".join([f"Systems: {', '.join(system.name for system in systems)}", *said]) + (
        f". Scored by discodvt {', '.join(versions)}."
    )
