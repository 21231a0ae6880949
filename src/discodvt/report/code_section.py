"""The code study in a report: measurements, the use of codes in stories, the dictionary, a story with its codes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from discodvt.report.charts import Colors, distributions, intervals
from discodvt.report.escaping import one_line
from discodvt.report.pages import Part, ReportSection
from discodvt.report.score_cells import in_percent, score_cell
from discodvt.report.systems import MEASURE, STUDY, ReportedSystem
from discodvt.report.table import Cell, Column, Table, TableRow, stem

SHOWN = 12  # codes of a dictionary
UTILISATION = "Distinct codes of a story divided by its codes; dashed: the mean. Plans {of}."
MEASUREMENTS = {  # of `codes measure`, by what they are about
    "Reconstruction, nats per token": {
        "nll": "NLL",
        "nll_swapped": "NLL with another story's plan",
        "swap_gap": "swap gap: NLL with another plan minus NLL",
        "nll_plain": "NLL of a seq2seq without plans",
        "nll_gain": "gain of plans over that seq2seq",
    },
    "Relations, accuracy in percent": {
        "relation_accuracy": "relation head of the model",
        "majority_accuracy": "majority label",
        "relation_gain": "gain of the head over the majority label",
        "probe_accuracy": "probe on frozen plans",
        "probe_accuracy_plain": "probe, trained without relation loss",
        "probe_gain": "gain of the relation loss",
    },
    "Plans, perplexity of a code": {
        "prior_perplexity": "prior, codes only",
        "prior_perplexity_rivalled": "prior, with the end of the plan",
        "unigram_perplexity": "unigram",
        "bigram_perplexity": "bigram",
        "prior_to_unigram": "prior divided by unigram",
        "prior_to_bigram": "prior divided by bigram",
    },
    "Use, percent": {"utilisation": "code utilisation"},
}
LEAD = "How many codes are in use, what the generator gains from them, and which phrases and markers each goes with."


@dataclass(frozen=True, slots=True)
class CodedStory:
    """A story with its codes; each piece has the dictionary entry of its code as a tooltip."""

    macro: ClassVar[str] = "coded_story"  # of templates/parts.html

    system: str
    pieces: Sequence[tuple[int, str, str]]  # code, text, tip
    prompt: str

    @property
    def name(self) -> str:
        return stem(self.system)


def code_section(systems: Sequence[ReportedSystem], colors: Colors) -> ReportSection | None:
    """All there is of codes; None where no run knows of any."""
    known = {system.name: run.content for system in systems if (run := system.run_of(STUDY, MEASURE))}
    parts: list[Part] = [_usage_table(known)] if known else []
    written = {system.name: spread for system in systems if (spread := _written_utilisation(system))}
    read = {name: found["usage"]["utilisation"] for name, found in known.items()}
    for name, spreads, of in (
        ("utilisation-written", written, "the stories were written from"),
        ("utilisation", read, "read from held-out stories"),
    ):
        if spreads:
            note = UTILISATION.format(of=of)
            parts.append(distributions(name, "Code utilisation", note, spreads, colors, label="code utilisation"))
    parts += _by_layers(systems, known, colors)
    measured = {system.name: run.content["figures"] for system in systems if (run := system.run_of(MEASURE))}
    if measured:
        parts.append(_measurements_table(measured))
    for system in systems:
        if study := system.run_of(STUDY):
            parts += [_dictionary(system.name, study.content), *_coded_story(system.name, study.content)]
    return ReportSection("codes", "Codes", LEAD, parts) if parts else None


def _written_utilisation(system: ReportedSystem) -> dict[str, Any] | None:
    """How the plans of its scored stories use codes, where they have plans."""
    return next((found for run in system.evaluations if (found := run.content.get("utilisation"))), None)


def _usage_table(known: Mapping[str, dict[str, Any]]) -> Table:
    names = ("CNN layers", "tokens per code", "codes", "in use", "perplexity", "utilisation", "stories")
    rows = []
    for name, found in known.items():
        model, usage = found["model"], found["usage"]
        counts = (model["conv_layers"], model["tokens_per_code"], usage["vocabulary"], usage["used"])
        mean = usage["utilisation"]["mean"]
        cells = [
            *(Cell(str(count), count) for count in counts),
            Cell(f"{usage['perplexity']:.1f}", usage["perplexity"]),
            Cell(f"{100 * mean:.2f}", mean),
            Cell(f"{found['stories']:,}", found["stories"]),
        ]
        rows.append(TableRow(name, cells))
    note = "Read from held-out stories. Perplexity of the codes' distribution; mean utilisation of a story in percent."
    return Table("codes", "Codes in use", note, [Column(name) for name in names], [("", rows)])


def _measurements_table(measured: Mapping[str, dict[str, dict[str, Any]]]) -> Table:
    """A row for each figure any system has, a column a system."""
    blocks = []
    for heading, labels in MEASUREMENTS.items():
        rows = []
        for name, label in labels.items():
            held = {system: figures[name] for system, figures in measured.items() if name in figures}
            if held:
                better = next(iter(held.values()))["direction"]
                cells = [score_cell(name, held[system]) if system in held else Cell() for system in measured]
                rows.append(TableRow(Column(label, better).heading, cells))
        blocks += [(heading, rows)] if rows else []
    note = "Measured on held-out stories; the signature of a figure defines it."
    return Table("worth", "Measurements of codes", note, [Column(name) for name in measured], blocks, "Figure")


def _by_layers(
    systems: Sequence[ReportedSystem], known: Mapping[str, dict[str, Any]], colors: Colors
) -> Iterator[Part]:
    """The effect of the number of CNN layers, where runs differ in it and were scored."""
    scored = {system.name: run.content["scores"] for system in systems if (run := system.scored("paper"))}
    layers = {name: found["model"]["conv_layers"] for name, found in known.items() if name in scored}
    if len(set(layers.values())) > 1:
        order = sorted(layers, key=layers.__getitem__)
        values = {name: in_percent(scored[name]["MSJ-2"]) for name in order}
        counts = ", ".join(f"{name} {layers[name]}" for name in order)
        note = f"MS-Jaccard-2 in percent. CNN layers: {counts}."
        yield intervals("layers", "CNN layers and stories", note, {"MSJ-2": values}, colors, columns=1)


def _dictionary(system: str, found: dict[str, Any]) -> Table:
    columns = [Column(name) for name in ("share", "repeated 4-grams", "markers in them", "place")]
    rows = [
        TableRow(
            str(entry["code"]),
            [
                Cell(f"{100 * entry['share']:.2f}%", entry["share"]),
                Cell("; ".join(_grams(entry)) or "–"),
                Cell("; ".join(_markers(entry)) or "–"),
                Cell(_place(entry)),
            ],
        )
        for entry in found["codes"][:SHOWN]
    ]
    note = (
        f"The {len(rows)} commonest codes of {system}: 4-grams of subwords with their counts (¶ ends a line), shares "
        "of the markers in all of them, and the third of stories the code is commonest in. codes.json has all codes."
    )
    return Table(f"dictionary-{stem(system)}", "Code dictionary", note, columns, [("", rows)], "Code")


def _coded_story(system: str, found: dict[str, Any]) -> Iterator[Part]:
    """The first story of the study, where it has any."""
    entries = {entry["code"]: entry for entry in found["codes"]}
    for story in found["told"][:1]:
        pieces = [(code, text, _explained(code, entries.get(code))) for code, text in story["segments"]]
        yield CodedStory(system, pieces, story["prompt"])


def _explained(code: int, entry: dict[str, Any] | None) -> str:
    if entry is None:
        return f"code {code}"
    lines = [f"code {code}: {100 * entry['share']:.2f}% of all codes, {_place(entry)}"]
    lines += [f"repeats: {'; '.join(_grams(entry))}"] * bool(entry["grams"])
    lines += [f"markers: {'; '.join(_markers(entry))}"] * bool(entry["markers"])
    return "\n".join(lines)


def _grams(entry: dict[str, Any], count: int = 3) -> list[str]:
    return [f"“{one_line(gram['text'])}” ({gram['count']})" for gram in entry["grams"][:count]]


def _markers(entry: dict[str, Any]) -> list[str]:
    return [f"{each['marker']} {100 * each['share']:.0f}%" for each in entry["markers"]]


def _place(entry: dict[str, Any]) -> str:
    """Where in stories the code occurs: its commonest third, and the share there."""
    thirds = {name: entry["place"][name] for name in ("beginning", "middle", "end")}
    name = max(thirds, key=thirds.__getitem__)
    return f"{name} {100 * thirds[name]:.0f}%"
