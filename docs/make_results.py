"""Write docs/results.md from the scores of grids that were run, docs/results/NAME.json.

usage: python docs/make_results.py                          the page, from the files that are there
       python docs/make_results.py --check                  fail when the page is not what the files say
       python docs/make_results.py --collect NAME GRID OUT  first docs/results/NAME.json, from the run directory OUT

Collecting takes what is finished: of each system the most seeds that were evaluated together. The page has the paper's
tables beside ours and says of each claim whether it held: yes or no where the 95% interval of the difference (over
prompts and seeds) lies on one side of zero, else undecided. What has not been run is said not to have been.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, FILES, TEXT = HERE / "results.md", HERE / "results", HERE / "results" / "text.md"
PAPER = json.loads((HERE.parent / "src" / "discodvt" / "report" / "paper_tables.json").read_text(encoding="utf-8"))
MAIN, ABLATION = PAPER["main"]["columns"], PAPER["ablation"]["columns"]
BASELINES = ("Seq2Seq", "BART", "BART-LM", "BART-CVAE", "AR")
SYSTEMS = (*BASELINES, "DiscoDVT")
REMEDIES = ("surer plans",)
LAYERS = ("1 layer", "2 layers", "3 layers", "4 layers", "5 layers")
HIGHER = ("B-1", "B-2", "MSJ-2", "MSJ-3", "rB-1", "rB-2")
LOWER = ("rep-8", "rep-16")
RELATION_CLAIMS = (
    ("KL", -1, "relations nearer to human ones"),
    ("entropy", +1, "more varied relations"),
    ("accuracy", +1, "more accurate relations"),
)
BEFORE, ON_TOP = "before fine-tuning", "prior or rescorers"
PARTS = dict.fromkeys(("pretrain", "codes", "warm-start", "language-model"), BEFORE) | dict.fromkeys(
    ("prior", "scorer"), ON_TOP
)
UNEQUAL = 1.1  # most over fewest subwords of fine-tuning: beyond it, systems are not judged against each other

Entry = dict[str, Any]


def page() -> str:
    """The whole page."""
    parts = [TEXT.read_text(encoding="utf-8").rstrip()]
    for path in sorted(FILES.glob("*.json")):
        parts.append("\n".join(_section(json.loads(path.read_text(encoding="utf-8")))))
    return "\n\n".join(parts) + "\n"


def _section(run: Entry) -> Iterator[str]:
    corpora = ", ".join(f"`{name}` ({count} test prompts)" for name, count in run["prompts"].items())
    yield f"## {run['title']}"
    yield ""
    yield f"`discodvt grid {run['grid']}`, corpus {corpora}; 95% intervals over prompts and seeds in brackets."
    missing = [name for name in run["seeds"] if name not in run["systems"]]
    if missing:
        states = (f"{name} ({run['steps'][name][0]} of {run['steps'][name][1]} steps done)" for name in missing)
        yield f"**Not finished, and so without numbers: {', '.join(states)}.**"
    partly = [
        f"{name} ({len(entry['seeds'])} of {len(run['seeds'][name])})"
        for name, entry in run["systems"].items()
        if len(entry["seeds"]) < len(run["seeds"][name])
    ]
    if partly:
        yield f"Fewer seeds than planned so far: {', '.join(partly)}. An interval of one seed is over prompts alone."
    yield from _training(run)
    judged = _equal(run)
    if not judged:
        yield ""
        yield "**The systems were not fine-tuned on as much as each other, so no claim is judged by them.**"
    yield from _main_table(run)
    if judged:
        yield from _claims("What the paper says of its main table", _main_claims(run))
    yield from _ablation_table(run)
    if judged:
        yield from _claims("What the paper says of the parts", _ablation_claims(run))
    yield from _remedies(run)
    yield from _relations(run, judged=judged)
    yield from _layers(run)
    yield from _command_list(run)


def _seen(training: Entry, part: str, column: int) -> int:
    """Steps (1) or subwords (2) of a part of a training; files that know no parts have it all as fine-tuning."""
    stages = training.get("stages") or [["", training["steps"], training["tokens"]]]
    return sum(each[column] for each in stages if PARTS.get(each[0], "fine-tuning") == part)


def _equal(run: Entry) -> bool:
    """Whether the systems of the main table were fine-tuned on about as many subwords; AR has two writers to train."""
    seen = [
        _seen(entry["training"][0], "fine-tuning", 2)
        for name, entry in run["systems"].items()
        if name in SYSTEMS and name != "AR" and entry["training"]
    ]
    return not seen or max(seen) <= UNEQUAL * min(seen)


def _training(run: Entry) -> Iterator[str]:
    figures = {"reconstruction": "NLL", "swap_gap": "swap gap", "codes_used": "codes used", "kl": "raw KL",
               "active_units": "active units"}  # fmt: skip
    parts = (BEFORE, "fine-tuning", ON_TOP)
    yield from _heading("Training")
    yield from _table(
        ["", "seeds", *parts, "words of a story", *figures.values()],
        (
            [name, ", ".join(str(each["seed"]) for each in entry["training"])]
            + [
                f"{_seen(first, part, 1):,} / {_seen(first, part, 2):,}" if _seen(first, part, 1) else ""
                for part in parts
                for first in entry["training"][:1]
            ]
            + ["{:.1f} ({:.1f} to {:.1f})".format(*entry["words"]["story"])]
            + [_means(entry["training"], key, 3) for key in figures]
            for name, entry in run["systems"].items()
        ),
    )
    yield ""
    for words in [entry["words"]["reference"] for entry in run["systems"].values()][:1]:
        yield "The references have {:.1f} ({:.1f} to {:.1f}) words.".format(*words)
    yield (
        "Steps / subwords seen, of the first seed (of a prior: codes). NLL in nats a subword on the valid split, with "
        "the codes or the posterior mean of the story itself where there are any: those are not comparable with others."
    )


def _means(trainings: Sequence[Entry], key: str, digits: int) -> str:
    values = [each[key] for each in trainings if key in each]
    return f"{sum(values) / len(values):,.{digits}f}" if values else ""


def _main_table(run: Entry) -> Iterator[str]:
    if not any(name in run["seeds"] for name in SYSTEMS):
        return
    yield from _heading("Main results (the paper's Table 2), percent")
    yield from _table(
        ["", *MAIN],
        [
            *_ours(run, [name for name in SYSTEMS if name in run["seeds"]], MAIN),
            *_theirs("main", "wikiplots", "Wikiplots"),
            *_theirs("main", "writingprompts", "WritingPrompts"),
        ],
    )


def _ablation_table(run: Entry) -> Iterator[str]:
    names = ["DiscoDVT", *(name for name in run["seeds"] if name.startswith("DiscoDVT w/o"))]
    if len(names) == 1:
        return
    yield from _heading("Ablation (the paper's Table 3), percent")
    yield from _table(["", *ABLATION], [*_ours(run, names, ABLATION), *_theirs("ablation", "wikiplots", "Wikiplots")])


def _remedies(run: Entry) -> Iterator[str]:
    tried = [name for name in REMEDIES if name in run["seeds"]]
    if tried:
        yield from _heading("Remedies: what was tried for DiscoDVT, percent")
        yield from _table(["", *MAIN], _ours(run, [run["main"], *tried], MAIN))


def _ours(run: Entry, names: Iterable[str], columns: Sequence[str]) -> Iterator[list[str]]:
    for name in names:
        entry = run["systems"].get(name)
        if entry is None:
            yield [name, *["not finished"] * len(columns)]
        else:
            yield [name, *(_score(entry["paper"].get(column), 100) for column in columns)]


def _theirs(table: str, dataset: str, shown: str) -> Iterator[list[str]]:
    for name, *values in PAPER[table][dataset]:
        yield [f"*paper, {shown}: {name}*", *(f"*{value}*" for value in values)]


def _score(score: Entry | None, scale: float = 1, digits: int = 2) -> str:
    if score is None:
        return ""
    value = f"{scale * score['value']:.{digits}f}"
    if score["low"] is None or score["high"] is None:
        return f"{value} (no interval)"
    return f"{value} ({scale * score['low']:.{digits}f} to {scale * score['high']:.{digits}f})"


Claim = tuple[str, str, str]  # what is said, what was found, whether it held


def _main_claims(run: Entry) -> Iterator[Claim]:
    for other in (name for name in BASELINES if name in run["seeds"]):
        if not _done(run, other):
            yield f"DiscoDVT against {other}", "not finished", "not run"
            continue
        yield from _against(run, other, HIGHER, +1, f"DiscoDVT has more n-gram overlap than {other}")
        sign, more = (-1, "less") if other == "BART-CVAE" else (+1, "more")
        yield from _against(run, other, ("D-4", "D-5"), sign, f"DiscoDVT has {more} distinct n-grams than {other}")
        yield from _against(run, other, LOWER, -1, f"DiscoDVT repeats less than {other}")


def _ablation_claims(run: Entry) -> Iterator[Claim]:
    for other in (name for name in run["seeds"] if name.startswith("DiscoDVT w/o")):
        part = other.partition("w/o ")[2]
        if not _done(run, other):
            yield f"Without {part}", "not finished", "not run"
            continue
        yield from _against(run, other, ("B-1", "MSJ-2", "D-4"), +1, f"Without {part}, scores are lower")
        yield from _against(run, other, ("rep-8",), -1, f"Without {part}, there is more repetition")


def _done(run: Entry, other: str) -> bool:
    return "compared" in run["systems"].get(other, {})


def _against(run: Entry, other: str, names: Sequence[str], sign: int, claim: str) -> Iterator[Claim]:
    """A claim over several scores of DiscoDVT minus those of another; files have the difference the other way round."""
    for name in names:
        entry = run["systems"][other]["compared"][name]
        low, high = (None, None) if entry["low"] is None else (-100 * entry["high"], -100 * entry["low"])
        difference = f"{-100 * entry['difference']:+.2f}"
        found = f"{difference} ({low:+.2f} to {high:+.2f})" if low is not None and high is not None else difference
        yield f"{claim} ({name})", found, verdict(low, high, sign)


def verdict(low: float | None, high: float | None, sign: int) -> str:
    """Whether an interval of a difference lies on the side of zero that was claimed."""
    if low is None or high is None or low <= 0 <= high:
        return "undecided"
    return "yes" if (low > 0) == (sign > 0) else "no"


def _claims(title: str, claims: Iterable[Claim]) -> Iterator[str]:
    rows = [list(claim) for claim in claims]
    if rows:
        yield from _heading(title)
        yield from _table(["claim", "difference here, points", "held"], rows)


def _relations(run: Entry, *, judged: bool) -> Iterator[str]:
    columns = PAPER["shares"]["columns"]
    finished = {name: entry["discourse"] for name, entry in run["systems"].items() if "discourse" in entry}
    yield from _heading("Discourse relations (the paper's Tables 5 and 7 and its figure of accuracies)")
    if not finished:
        yield "not finished"
        return
    yield from _table(
        ["", *(f"{name}, %" for name in columns[:-1]), "entropy, bits", "KL to human, bits", "macro-accuracy, %"],
        [
            [
                name,
                *(_score(scores.get(f"share-{column}"), 100, 1) for column in columns[:-1]),
                _score(scores.get("entropy"), 1, 3),
                _score(scores.get("KL"), 1, 4),
                _score(scores.get("accuracy"), 100, 1),
            ]
            for name, scores in finished.items()
        ]
        + [
            [f"*paper, Wikiplots: {name}*", *(f"*{value}*" for value in values), f"*{kl}*" if kl else "", ""]
            for name, *values in PAPER["shares"]["wikiplots"]
            for kl in [dict(PAPER["kl"]["wikiplots"]).get(name, "")]
        ],
    )
    disco = finished.get("DiscoDVT")
    if disco and judged:
        rows = []
        for other in (name for name in ("BART", "BART-LM", "BART-CVAE") if name in finished):
            for score, sign, said in RELATION_CLAIMS:
                alike = score != "accuracy" or markers_of(disco) == markers_of(finished[other])
                held = (
                    apart(disco.get(score), finished[other].get(score), sign) if alike else "undecided: other markers"
                )
                rows.append([f"DiscoDVT has {said} than {other} ({score})", held])
        yield ""
        yield "Judged by whether the two intervals overlap, which is stricter than an interval of the difference."
        yield ""
        yield from _table(["claim", "held"], rows)


def markers_of(scores: Mapping[str, Entry]) -> set[str]:
    """What a mean accuracy is over: who never writes a hard marker has it easier."""
    return {name for name, score in scores.items() if name.startswith("share-") and score["value"]}


def apart(ours: Entry | None, other: Entry | None, sign: int) -> str:
    """Whether two intervals lie apart, as was claimed."""
    if not ours or not other or None in (ours["low"], ours["high"], other["low"], other["high"]):
        return "undecided"
    if ours["low"] > other["high"]:
        return "yes" if sign > 0 else "no"
    if ours["high"] < other["low"]:
        return "yes" if sign < 0 else "no"
    return "undecided"


def _layers(run: Entry) -> Iterator[str]:
    names = [name for name in LAYERS if name in run["seeds"]]
    if not names:
        return
    yield from _heading("Convolution layers (the paper's appendix A.1: 3 are best)")
    columns = ("B-1", "MSJ-2", "D-4", "rep-8")
    rows = list(_ours(run, names, columns))
    for row in rows:
        mean, low, _, high = run["systems"].get(row[0], {}).get("utilisation", [None] * 4)
        row.append("not finished" if mean is None else f"{mean:.3f} ({low:.3f} to {high:.3f})")
    yield from _table(["", *columns, "utilisation of plans (quartiles)"], rows)


def _command_list(run: Entry) -> Iterator[str]:
    yield from _heading("Commands")
    yield "In the run directory; each made all scores of its system."
    yield ""
    for name, entry in run["systems"].items():
        for command in entry["commands"]:
            yield f"- {name}: `{command}`"


def _heading(title: str) -> Iterator[str]:
    yield from ("", f"### {title}", "")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["--collect"]:
        from collect_results import collect

        collect(given[1], given[2], Path(given[3]))
    if given == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
            sys.exit("docs/results.md is not what docs/results/*.json say; run `python docs/make_results.py`")
    else:
        PAGE.write_text(page(), encoding="utf-8")
