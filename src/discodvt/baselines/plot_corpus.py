"""The plots stage: a corpus in, all that the writers and rescorers of Aristotelian Rescoring learn from out.

    plots/            prompt -> plot, for the plot writer (a corpus directory: train, valid)
    stories/          prompt and plot -> tagged story, for the story writer
    pairs/KIND/       context, real and changed continuation, for each rescorer; `judge` is relevance from other plots
    weights.parquet   prompt and plot, to learn the rescorers' weights from

Plots of the train split are dealt out by prompt (`negatives.draw_set`): no prompt serves two of writers, rescorers and
weights. Held-out pairs are of the valid split. The judge is for evaluation only; it learns from the writers' plots.
`PlotReader` reads the plots off stories.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa

from discodvt.artefacts import StageDirectory, open_stage
from discodvt.baselines.entities import find_entities
from discodvt.baselines.events import Argument, VerbFrame, verb_frames
from discodvt.baselines.mentions import Mention
from discodvt.baselines.negatives import KINDS, Kind, draw_set, make_pairs
from discodvt.baselines.plots import (
    LONGEST_ARGUMENT,
    MAX_ENTITIES,
    Event,
    Part,
    Plot,
    refuse_tags,
    source_text,
    tag_story,
)
from discodvt.corpus import CORPUS_SCHEMA, Example, read_examples, split_files, write_rows
from discodvt.discourse.annotation import LONGEST_SENTENCE
from discodvt.discourse.annotator import Annotator
from discodvt.discourse.parsers import load_parser
from discodvt.discourse.trees import UD2, Sentence, Tree
from discodvt.errors import BadRequest

STAGE = "plots"
JUDGE: Final = "judge"
PAIR_SCHEMA = pa.schema([*CORPUS_SCHEMA, pa.field("changed", pa.string())])
Owners = Mapping[int, Mention]  # of a sentence's tokens
Numbering = Callable[[int], int | None]  # entity -> its number in the plot, None past the last tag


@dataclass(frozen=True, slots=True)
class PlottedStory:
    """A story with its plot, and the story as the story writer learns it."""

    prompt: str
    story: str
    plot: Plot
    tagged: str


class PlotReader:
    """Reads plots off stories with a parser that builds UD v2 trees.

    The prompt is read too, so that its `a fox` introduces the story's `the fox`; it has no tags and no events.
    """

    def __init__(self, parser: str = "bundled") -> None:
        self.annotator = Annotator(load_parser(parser, all_trees=True))
        scheme = self.annotator.parser.scheme
        if scheme is not UD2:
            raise BadRequest(
                f"parser {parser}: its trees are {scheme.name}, plots need {UD2.name}; use bundled or stanza"
            )

    def read_many(self, examples: Iterable[tuple[str, str]]) -> Iterator[PlottedStory]:
        """Pairs of prompt and story, one after the other, in their order."""
        ahead, examples = tee(examples)
        parsed = self.annotator.sentences_many(text for pair in ahead for text in pair)
        for prompt, story in examples:
            for name, text in (("prompt", prompt), ("story", story)):
                refuse_tags(text, where=f"{name} {text[:40]!r}")
            yield plot_story(prompt, story, next(parsed), next(parsed))


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
            with stage.abandoned_if_wrong():
                reader = PlotReader(parser)
                plotted = {split: list(_plotted(reader, files[split])) for split in ("train", "valid")}
                if not plotted["train"] or not plotted["valid"]:
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


def plot_story(
    prompt: str, story: str, prompt_sentences: Sequence[Sentence], sentences: Sequence[Sentence]
) -> PlottedStory:
    """The plot of a story from its parsed sentences, entities numbered by their first mention in the plot."""
    first = len(prompt_sentences)
    shifted = [_tree(sentence, by=len(prompt)) for sentence in sentences]
    mentions = find_entities([*map(_tree, prompt_sentences), *shifted], prompt + story)
    numbers: dict[int, int] = {}

    def number(entity: int) -> int | None:
        return numbers.setdefault(entity, len(numbers)) if entity in numbers or len(numbers) < MAX_ENTITIES else None

    owners: list[dict[int, Mention]] = [{} for _ in sentences]
    for mention in mentions:
        if mention.sentence >= first:
            tokens = range(mention.first, mention.last + 1)
            owners[mention.sentence - first].update(dict.fromkeys(tokens, mention))
    plot = Plot(
        tuple(
            () if (tree := _tree(sentence)) is None else tuple(_events(tree, story, owned, number))
            for sentence, owned in zip(sentences, owners, strict=True)
        )
    )
    starts = [
        (tree.starts[mention.first], numbers[mention.entity])
        for mention in mentions
        if mention.sentence >= first and mention.entity in numbers
        if (tree := sentences[mention.sentence - first].tree) is not None
    ]
    return PlottedStory(prompt, story, plot, tag_story(story, starts, (sentence.end for sentence in sentences)))


def _tree(sentence: Sentence, by: int = 0) -> Tree | None:
    """A sentence's tree, its offsets moved; what runs on for longer is no sentence and tells no events."""
    tree = sentence.tree
    if tree is None or len(tree) > LONGEST_SENTENCE:
        return None
    if not by:
        return tree
    starts, ends = ([at + by for at in offsets] for offsets in (tree.starts, tree.ends))
    return Tree(tree.words, tree.tags, tree.deps, tree.heads, starts, ends)


def _events(tree: Tree, text: str, owners: Owners, number: Numbering) -> Iterator[Event]:
    for frame in verb_frames(tree):
        parts = list(_parts(tree, text, frame, owners))
        if len(parts) > 1:
            yield tuple(Part(slot, _words(tree, text, tokens, owners, number)) for slot, tokens in parts)


def _parts(tree: Tree, text: str, frame: VerbFrame, owners: Owners) -> Iterator[tuple[str, Sequence[int]]]:
    """The slots of an event with their tokens, in the order of the text; arguments too long are left out."""
    kept: dict[str, tuple[int, ...]] = {"V": (frame.verb,)}
    for slot, argument in frame.arguments.items():
        tokens = _shortened(tree, text, argument, owners)
        if tokens:
            kept[slot] = tokens
    return iter(sorted(kept.items(), key=lambda part: part[1][0]))


def _shortened(tree: Tree, text: str, argument: Argument, owners: Owners) -> tuple[int, ...]:
    for tokens in (argument.whole, argument.cut):
        if len(_words(tree, text, tokens, owners, lambda entity: 0).split()) <= LONGEST_ARGUMENT:
            return tokens
    return ()


def _words(tree: Tree, text: str, tokens: Sequence[int], owners: Owners, number: Numbering) -> str:
    """Words as they stand in the text; mentions of entities as their tags."""
    pieces: list[str] = []
    for before, token in zip((-1, *tokens), tokens, strict=False):
        mention = owners.get(token)
        tag = None if mention is None else number(mention.entity)
        piece = _word(tree, text, token) if tag is None else f"<ent{tag}>"
        if tag is not None and pieces and pieces[-1].endswith(piece):
            continue  # the same mention, or the same entity twice
        apart = tag is not None or before != token - 1 or tree.starts[token] > tree.ends[before]
        pieces.append(f" {piece}" if pieces and apart else piece)
    return "".join(pieces)


def _word(tree: Tree, text: str, token: int) -> str:
    """A word as it stands in the text, but without the capital that only begins a sentence."""
    word = text[tree.starts[token] : tree.ends[token]]
    begins = token == 0 or tree.tags[token - 1] in ("``", "''")
    return word.lower() if begins and not tree.tags[token].startswith("NNP") and word != "I" else word
