"""`discodvt annotate`: cut stories into EDUs and label the relations between them."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from discodvt.cli import console
from discodvt.cli.options import Json, On, Resources, Workers
from discodvt.errors import BadRequest


def annotate(
    corpus: Annotated[Path | None, typer.Argument(help="A corpus made by `discodvt prepare`.")] = None,
    out: Annotated[Path | None, typer.Argument(help="Directory for the annotated corpus.")] = None,
    parser: Annotated[str, typer.Option(help="bundled, spacy:NAME, stanza or corenlp:URL.")] = "bundled",
    language: Annotated[str, typer.Option(help="Language of the stories: english or german.")] = "english",
    workers: Workers = None,
    on: On = "local",
    resources: Resources = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what OUT holds, or the page.")] = False,
    show: Annotated[Path | None, typer.Option(help="Show one story (a text file, or - for standard input).")] = None,
    html: Annotated[Path | None, typer.Option(help="With --show: also write the story as an HTML page.")] = None,
    selftest: Annotated[Path | None, typer.Option(help="Score against the gold connectives of a CoNLL-U file.")] = None,
    json: Json = False,
) -> None:
    """Cut every story into discourse units, with the relation between neighbours.

    One of three: CORPUS OUT annotates a corpus (stopped, it resumes); --show FILE shows one story in colour;
    --selftest FILE.conllu scores the annotator.
    """
    if sum((corpus is not None, show is not None, selftest is not None)) != 1:
        raise BadRequest("give either CORPUS OUT, or --show FILE, or --selftest FILE.conllu")
    if html is not None and show is None:
        raise BadRequest("--html needs --show FILE")
    from discodvt.discourse import parsers

    parsers.only_bundled = parser == "bundled"
    if selftest is not None:
        _selftest(selftest, (parser, language), as_json=json)
    elif show is not None:
        _show(show, html, (parser, language), overwrite=overwrite, as_json=json)
    elif corpus is not None and out is not None:
        place = {"workers": workers, "on": on, "resources": resources}
        _annotate_corpus(corpus, out, (parser, language), place, overwrite=overwrite, as_json=json)
    else:
        raise BadRequest("no OUT directory; discodvt annotate CORPUS OUT")


def _annotate_corpus(
    corpus: Path, out: Path, reader: tuple[str, str], place: dict[str, Any], *, overwrite: bool, as_json: bool
) -> None:
    from discodvt.discourse.annotate_corpus import annotate_corpus
    from discodvt.report.charts import marker_shares, write_relation_chart

    parser, language = reader
    with console.counting("annotating") as progress:
        result = annotate_corpus(
            corpus, out, parser=parser, language=language, overwrite=overwrite, progress=progress, **place
        )
    facts = result.facts
    relations = sum((Counter(split["relations"]) for split in facts.values()), Counter[str]())
    chart = out / "relations.png"
    if not chart.exists():
        write_relation_chart(relations, chart, title=f"Relations in {out.name}")
    if as_json:
        console.print_json(facts)
        return
    if result.already_complete:
        console.out.print(f"{out}: already complete")
    for split, fact in facts.items():
        known = sum(count for label, count in fact["relations"].items() if label != "unknown")
        neighbours = sum(fact["relations"].values())
        stories = f"{fact['stories']:,} {'story' if fact['stories'] == 1 else 'stories'}"
        edus = f"{fact['edus']:,} {'EDU' if fact['edus'] == 1 else 'EDUs'}"
        console.out.print(f"{split}: {stories}, {edus}, {known:,} of {neighbours:,} neighbours labelled")
    for marker, share in sorted(marker_shares(relations).items(), key=lambda item: -item[1]):
        console.out.print(f"{marker:>9} {'█' * round(60 * share)} {100 * share:.1f}%")
    console.err.print(f"annotated corpus in {out}, chart in {chart}")


def _show(source: Path, html: Path | None, reader: tuple[str, str], *, overwrite: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from discodvt.discourse import Annotator
    from discodvt.report.pages import annotation_page, check_page, write_page
    from discodvt.report.terminal import AnnotationView

    if html is not None:
        check_page(html, overwrite=overwrite)
    text = _read(source)
    if not text.strip():
        raise BadRequest(f"{source}: empty; give a text file with a story")
    parser, language = reader
    annotation = Annotator(parser, language=language).annotate(text)
    if as_json:
        console.print_json(asdict(annotation))
    else:
        console.out.print(AnnotationView(text, annotation))
    if html is not None:
        title = source.stem.replace("_", " ").capitalize() if str(source) != "-" else "A story"
        write_page(html, annotation_page(text, annotation, title=title), overwrite=overwrite)
        console.err.print(f"page written to {html}")


def _read(source: Path) -> str:
    from discodvt.corpus.formats import MAX_STORY_MB, open_binary, too_long

    with open_binary(source) as file:
        data = file.read((MAX_STORY_MB << 20) + 1)
    if len(data) > MAX_STORY_MB << 20:
        raise too_long(str(source), "a story", None)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(f"{source}: not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _selftest(path: Path, reader: tuple[str, str], *, as_json: bool) -> None:
    from rich.table import Table

    from discodvt.discourse.gold import selftest

    parser, language = reader
    scores = selftest(path, parser=parser, language=language)
    if as_json:
        console.print_json(scores)
        return
    for side, score in scores.items():
        table = Table(title=side.replace("_", " "), title_justify="left")
        for heading in ("marker", "gold", "found", "precision", "recall", "F1"):
            table.add_column(heading, justify="left" if heading == "marker" else "right")
        for marker, row in score["markers"].items():
            table.add_row(marker, str(row["gold"]), str(row["found"]), *_three(row))
        table.add_section()
        table.add_row("all", "", "", *_three(score))
        console.out.print(table)
        console.out.print(f"token F1: Arg1 {score['arg1_f1']:.3f}, Arg2 {score['arg2_f1']:.3f}\n")


def _three(score: dict[str, Any]) -> list[str]:
    return [f"{score[name]:.3f}" for name in ("precision", "recall", "f1")]
