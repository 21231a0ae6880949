"""The plots of the paper's ten sentences and of the worked example, written by hand from their correct trees."""

import pytest
from golden.paper_examples import EXAMPLES, Example
from golden.test_paper_examples import read_trees

from discodvt.baselines.plot_corpus import PlotReader, plot_story
from discodvt.discourse.trees import UD2

PLOTS = {
    # the clause "that this is far from ..." is too long for an argument
    "although": "<A0> 61 billion people <V> perished <event> <A0> Paul's prescient visions <V> indicate <sent>",
    # Matthew cannot be the `him` he sends; that `he` and `his` mean the same unknown man, no rule sees
    "so": "<A0> Father Matthew <V> decides <A1> to send him to Rome <event>"
    " <A0> Father Matthew <V> send <A1> him <A2> to Rome <event> <A0> he <V> attend <A1> an exorcism class <event>"
    " <A1> an exorcism class <V> taught <A0> by his friend <sent>",
    "because": "<A0> the detectives <V> believe <A1> her <event>"
    " <A0> she <V> decides <A1> to contact Gerard herself <event> <A0> she <V> contact <A1> Gerard <sent>",
    "before": "<A0> he <V> damages <A1> the stabilizer <event>"
    " <A0> his teammates <V> tie <A1> him <A2> in the shuttle <sent>",
    # "order to fix the drive" is cut; the order fixes nothing itself
    "after": "<A0> Cho <V> calms <A1> him <event> <A0> he <V> follows <A1> the captain's order <event>"
    " <V> fix <A1> the drive <sent>",
    "as": "<A0> his powers <V> drain <event> <A0> Luthor <V> wishes <A1> the experience <event>"
    " <A0> the experience <V> continue <sent>",
    "then": "<A0> Mason <V> destroys <A1> the chips <event> <A0> Mason <V> surrenders <A2> to Hummel <sent>",
    # who forces is not said by the tree: the subject of `blames` passes on
    "and": "<A0> Nick <V> blames <A1> Jerry <event> <A0> Nick <V> forcing <A1> him <A2> into the profession <event>"
    " <A0> Nick <V> asks <A1> him <event> <A0> him <V> get <sent>",
    "also": "<A1> Kenny <V> revealed <sent> <A0> he <V> implies <sent>",
    "still": "<A0> she <V> strikes <A2> across the dense sawgrass marshes <sent>",
}

WORKED = Example(
    "and",
    "and_arg1_arg2",
    "The dog chased Tom",
    "Tom fell",
    "The dog chased Tom and Tom fell.",
    (
        "The/DT/2/det dog/NN/3/nsubj chased/VBD/0/root Tom/NNP/3/obj and/CC/7/cc Tom/NNP/7/nsubj fell/VBD/3/conj"
        " ././3/punct",
    ),
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.marker)
def test_plots_of_the_papers_sentences(example: Example) -> None:
    assert plot_story("", example.text, [], read_trees(example, scheme=UD2)).plot.text == PLOTS[example.marker]


def test_worked_example() -> None:
    plotted = plot_story("", WORKED.text, [], read_trees(WORKED, scheme=UD2))
    assert plotted.plot.text == "<A0> the dog <V> chased <A1> <ent0> <event> <A0> <ent0> <V> fell <sent>"
    assert plotted.tagged == "The dog chased<ent0> Tom and<ent0> Tom fell.<sent>"


def test_shipped_parser_gives_four_of_the_ten_plots() -> None:
    """A whole plot is right only with every attachment in it; the events of the others are mostly there."""
    pairs = [("", example.text) for example in EXAMPLES]
    plots = [plotted.plot.text for plotted in PlotReader().read_many(pairs)]
    assert sum(plot == PLOTS[example.marker] for plot, example in zip(plots, EXAMPLES, strict=True)) >= 4
