"""The plots stage: a corpus in, all that the writers and rescorers of Aristotelian Rescoring learn from out.

    plots/            prompt -> plot, for the plot writer (a corpus directory: train, valid)
    stories/          prompt and plot -> tagged story, for the story writer
    pairs/KIND/       context, real and changed continuation, for each rescorer; `judge` is relevance from other plots
    weights.parquet   prompt and plot, to learn the rescorers' weights from

Plots of the train split are dealt out by prompt (`negatives.draw_set`): no prompt serves two of writers, rescorers and
weights. Held-out pairs are of the valid split. The judge is for evaluation only; it learns from the writers' plots.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa

from discodvt.artefacts import StageDirectory, open_stage
from discodvt.baselines.negatives import KINDS, Kind, draw_set, make_pairs
from discodvt.baselines.plot_reader import PlotReader, PlottedStory
from discodvt.baselines.plots import source_text
from discodvt.corpus import CORPUS_SCHEMA, Example, read_examples, split_files, write_rows
from discodvt.errors import BadRequest

STAGE = "plots"
JUDGE: Final = "judge"
PAIR_SCHEMA = pa.schema([*CORPUS_SCHEMA, pa.field("changed", pa.string())])


def make_plots(
    corpus: Path, out: Path, *, parser: str = "bundled", seed: int = 0, overwrite: bool = False
) -> dict[str, Any]:
    """Read the plots of a corpus; returns how many stories and pairs there are of each kind."""
    files = split_files(corpus)
    missing = [split for split in ("train", "valid") if split not in files]
    if missing:
        raise BadRequest(f"{corpus}: no {' and no '.join(missing)} split; plots need both")
    inputs = [files["train"], files["valid"]]
    with open_stage(out, STAGE, config={"parser": parser, "seed": seed}, inputs=inputs, overwrite=overwrite) as stage:
        if not stage.complete:
            reader = PlotReader(parser)
            plotted = {split: list(_plotted(reader, files[split])) for split in ("train", "valid")}
            if not plotted["train"] or not plotted["valid"]:
                stage.abandon()
                raise BadRequest(f"{corpus}: no story with an event in it; give stories that tell something")
            stage.finish(**_write(stage, plotted, seed))
        return stage.facts


def _plotted(reader: PlotReader, path: Path) -> Iterator[tuple[Example, PlottedStory]]:
    """Stories that have a plot at all."""
    examples = [example for example in read_examples(path) if example.story.strip()]
    read = reader.read_many((example.prompt, example.story) for example in examples)
    for example, plotted in zip(examples, read, strict=True):
        if any(plotted.plot.sentences):
            yield example, plotted


def _write(stage: StageDirectory, plotted: dict[str, list[tuple[Example, PlottedStory]]], seed: int) -> dict[str, Any]:
    sets: dict[str, list[tuple[Example, PlottedStory]]] = {"writers": [], "scorers": [], "weights": []}
    for example, story in plotted["train"]:
        sets[draw_set(example.prompt, seed=seed)].append((example, story))
    facts: dict[str, Any] = {name: len(found) for name, found in sets.items()} | {"held_out": len(plotted["valid"])}
    for split, stories in (("train", sets["writers"]), ("valid", plotted["valid"])):
        plots = ({"id": e.id, "prompt": e.prompt, "story": s.plot.text} for e, s in stories)
        tagged = ({"id": e.id, "prompt": source_text(e.prompt, s.plot.text), "story": s.tagged} for e, s in stories)
        _rows(stage, f"plots/{split}.parquet", plots, CORPUS_SCHEMA)
        _rows(stage, f"stories/{split}.parquet", tagged, CORPUS_SCHEMA)
    weights = ({"id": e.id, "prompt": e.prompt, "story": s.plot.text} for e, s in sets["weights"])
    _rows(stage, "weights.parquet", weights, CORPUS_SCHEMA)
    names: tuple[Kind | Literal["judge"], ...] = (*KINDS, JUDGE)
    for name in names:
        kind: Kind = "relevance" if name == JUDGE else name
        draw = seed + 1 if name == JUDGE else seed
        learned = sets["writers"] if name == JUDGE else sets["scorers"]
        for split, stories in (("train", learned), ("valid", plotted["valid"])):
            pairs = list(make_pairs(((e.prompt, s.plot) for e, s in stories), kind, seed=draw))
            facts[f"{name}_{split}"] = len(pairs)
            rows = (
                {"id": str(number), "prompt": pair.context, "story": pair.real, "changed": pair.changed}
                for number, pair in enumerate(pairs)
            )
            _rows(stage, f"pairs/{name}/{split}.parquet", rows, PAIR_SCHEMA)
    return facts


def _rows(stage: StageDirectory, name: str, rows: Iterable[dict[str, Any]], schema: pa.Schema) -> None:
    with stage.writing(name) as path:
        write_rows(path, rows, schema)
