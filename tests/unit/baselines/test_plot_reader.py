"""Stories read into plots with the bundled parser: who did what to whom, and who is who."""

import gzip
import json
from itertools import islice
from pathlib import Path

import pytest

from discodvt.baselines.plot_corpus import PlotReader
from discodvt.baselines.plots import LONGEST_ARGUMENT, MAX_ENTITIES, TAGS, Plot, entities_of, renumber, strip_tags
from discodvt.discourse.trees import UD1
from discodvt.errors import BadRequest


@pytest.fixture(scope="module")
def reader() -> PlotReader:
    return PlotReader()


def plot_of(reader: PlotReader, story: str, prompt: str = "") -> str:
    return next(reader.read_many([(prompt, story)])).plot.text


@pytest.mark.parametrize(
    ("story", "plot"),
    [
        ("The bread was baked by a man.", "<A1> the bread <V> baked <A0> by a man <sent>"),
        ("She was found and killed.", "<A1> she <V> found <event> <A1> she <V> killed <sent>"),
        ("They gave her a loaf.", "<A0> they <V> gave <A2> her <A1> a loaf <sent>"),
        ("The men wanted to leave.", "<A0> the men <V> wanted <A1> to leave <event> <A0> the men <V> leave <sent>"),
        (
            "They asked us to leave.",
            "<A0> they <V> asked <A2> us <A1> to leave <event> <A0> us <V> leave <sent>",
        ),
        ("The men who came here sang.", "<A0> the men <V> came <event> <A0> the men <V> sang <sent>"),
        ("They met men carrying sacks.", "<A0> they <V> met <A1> men <event> <A0> men <V> carrying <A1> sacks <sent>"),
        ("They walked home one day.", "<A0> they <V> walked <sent>"),  # no time in A2
        ("The house was old.", "<sent>"),  # no event
        ("They had a house and did it.", "<sent>"),  # A's verb forms that tell no event
    ],
)
def test_arguments(reader: PlotReader, story: str, plot: str) -> None:
    assert plot_of(reader, story) == plot


@pytest.mark.parametrize(
    ("story", "tagged"),
    [
        ("Mr. John Smith sat. Smith slept.", "<ent0> Mr. John Smith sat.<sent><ent0> Smith slept.<sent>"),
        ("Mr. Smith sat. Mrs. Smith slept.", "Mr. Smith sat.<sent> Mrs. Smith slept.<sent>"),
        (
            "A bird flew. A baby bird slept. The bird sang.",
            "<ent0> A bird flew.<sent> A baby bird slept.<sent><ent0> The bird sang.<sent>",
        ),
        (
            "A girl named Ann sang. She danced.",
            "<ent0> A girl named<ent0> Ann sang.<sent><ent0> She danced.<sent>",
        ),
        ("The boy sang. She danced.", "The boy sang.<sent> She danced.<sent>"),
        ("A boy sang. Tom saw him.", "<ent0> A boy sang.<sent> Tom saw<ent0> him.<sent>"),
    ],
)
def test_entities(reader: PlotReader, story: str, tagged: str) -> None:
    assert next(reader.read_many([("", story)])).tagged == tagged


def test_the_prompt_introduces_entities_but_has_neither_tags_nor_events(reader: PlotReader) -> None:
    plotted = next(reader.read_many([("There lived a fox.", "The fox barked.")]))
    assert plotted.tagged == "<ent0> The fox barked.<sent>"
    assert plotted.plot.text == "<A0> <ent0> <V> barked <sent>"


def test_real_stories_get_their_words_back_and_plots_keep_their_rules(reader: PlotReader, shared: Path) -> None:
    for folder in ("tiny", "stories"):
        with gzip.open(shared / "data" / folder / "valid.jsonl.gz", "rt") as lines:
            stories = [json.loads(line)["story"] for line in islice(lines, 12)]
        for plotted in reader.read_many(("", story) for story in stories):
            assert strip_tags(plotted.tagged) == plotted.story
            assert plotted.tagged.count("<sent>") == len(plotted.plot.sentences)
            text = plotted.plot.text
            assert Plot.read(text) == plotted.plot
            assert renumber(text) == text
            assert set(entities_of(plotted.tagged)) == set(entities_of(text)) <= set(range(MAX_ENTITIES))
            events = [event for sentence in plotted.plot.sentences for event in sentence]
            assert all(len(part.words.split()) <= LONGEST_ARGUMENT for event in events for part in event)
            assert all(len(event) > 1 and sum(part.slot == "V" for part in event) == 1 for event in events)


def test_a_story_with_a_tag_and_a_parser_of_another_scheme_are_refused(
    reader: PlotReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadRequest, match=f"story 'He wrote {TAGS[0]}.': holds"):
        plot_of(reader, f"He wrote {TAGS[0]}.")
    monkeypatch.setattr("discodvt.discourse.parsers.scheme_of", lambda labels, *, source: UD1)
    with pytest.raises(BadRequest, match="ud1, plots need ud2"):
        PlotReader()
