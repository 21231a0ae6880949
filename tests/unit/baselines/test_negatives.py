"""Negatives of the rescorers: spoiled in one way each, never the positive, not betrayed by numbers or lengths."""

from collections import Counter

import numpy as np
import pytest

from discodvt.baselines.negatives import KINDS, Kind, Pair, draw_set, make_pairs
from discodvt.baselines.plots import Plot, entities_of, renumber

VERBS = ("ran", "sang", "fell", "ate", "left", "hid", "won", "cried", "slept", "swam")


def random_plot(random: np.random.Generator) -> Plot:
    """Sentences of 0 to 3 events whose subject, and sometimes object, is one of a few entities."""
    sentences = []
    for _ in range(random.integers(2, 9)):
        events = []
        for _ in range(random.integers(0, 4)):
            who, whom = random.integers(0, 4, size=2)
            events.append(f"<A0> <ent{who}> <V> {random.choice(VERBS)}" + (f" <A1> <ent{whom}>" if who % 2 else ""))
        sentences.append(" <event> ".join(events))
    return Plot.read(renumber(" <sent> ".join([*sentences, ""])))


@pytest.fixture(scope="module")
def plots() -> list[tuple[str, Plot]]:
    random = np.random.default_rng(0)
    return [(f"prompt {number // 3}", random_plot(random)) for number in range(600)]  # three stories a prompt


def pairs_of(plots: list[tuple[str, Plot]], kind: Kind, *, seed: int = 1) -> list[Pair]:
    return list(make_pairs(plots, kind, seed=seed))


@pytest.mark.parametrize("kind", KINDS)
def test_a_negative_differs_is_as_long_and_is_numbered_like_a_real_plot(
    kind: Kind, plots: list[tuple[str, Plot]]
) -> None:
    found = pairs_of(plots, kind)
    assert len(found) > 300
    for context, real, changed in found:
        assert real != changed
        assert len(real.split()) == len(changed.split())
        opening = context.split(" <sent> ", 1)[1]
        for rest in (real, changed):
            assert renumber(f"{opening} {rest}") == f"{opening} {rest}"
    assert found == pairs_of(plots, kind)
    assert found != pairs_of(plots, kind, seed=2)


def test_what_is_drawn_for_a_plot_does_not_depend_on_the_others(plots: list[tuple[str, Plot]]) -> None:
    for kind in ("event-inter", "event-intraV", "entity"):
        some = pairs_of(plots[:50], kind)
        assert some == pairs_of(plots, kind)[: len(some)]


def test_lengths_reach_from_the_first_difference_to_the_end(plots: list[tuple[str, Plot]]) -> None:
    found = pairs_of(plots, "event-inter")
    whole = sum(pair.real.endswith("<sent>") for pair in found)
    assert 0.02 < whole / len(found) < 0.5


def test_relevance_takes_another_prompt(plots: list[tuple[str, Plot]]) -> None:
    texts = {}
    for prompt, plot in plots:
        texts.setdefault(prompt, []).append(plot.text)
    for context, _, changed in pairs_of(plots, "relevance"):
        prompt = context.split(" <sent> ")[0]
        assert not any(changed in text for text in texts[prompt] if len(changed.split()) > 12)
    same = [("Only  one.", plot) for _, plot in plots[:20]] + [("only one.", plot) for _, plot in plots[20:40]]
    assert pairs_of(same, "relevance") == []


def whole_pair(plot: str, kind: Kind) -> Pair:
    """The longest pair over many seeds."""
    drawn = (pair for seed in range(60) for pair in make_pairs([("p", Plot.read(plot))], kind, seed=seed))
    return max(drawn, key=lambda pair: len(pair.real))


def test_event_inter_moves_every_sentence_with_an_event() -> None:
    rest = " <sent> <sent> ".join(f"<V> {verb} <A1> <ent{number}>" for number, verb in enumerate("abcd"))
    plot = Plot.read(f"<V> open <A1> x <sent> {rest} <sent>")
    for seed in range(50):
        ((_, *sides),) = make_pairs([("p", plot)], "event-inter", seed=seed)
        real, changed = ([sentence[:1] for sentence in Plot.read(side).sentences] for side in sides)
        assert real[1::2] == changed[1::2] == [()] * len(real[1::2])  # empty sentences stay
        verbs = [[sentence[0][0].words for sentence in side[::2] if sentence] for side in (real, changed)]
        assert verbs[0] == list("abcd")[: len(verbs[0])]
        assert all(left != right for left, right in zip(*verbs, strict=False))
        assert entities_of(sides[1]) == list(range(len(entities_of(sides[1]))))


def test_event_intra_v_moves_verbs_and_nothing_else() -> None:
    plot = "<V> open <A1> x <sent> <A0> <ent0> <V> ran <event> <A0> <ent1> <V> fell <A1> it <sent> <V> sat <sent>"
    pair = whole_pair(plot, "event-intraV")
    assert pair.changed == pair.real.replace("ran", "fell", 1)[::-1].replace("llef", "nar", 1)[::-1]
    assert list(make_pairs([("p", Plot.read(plot.replace("fell", "ran")))], "event-intraV", seed=0)) == []


def test_entity_changes_one_later_mention_to_one_already_known() -> None:
    plot = "<A0> <ent0> <V> saw <A1> <ent1> <sent> <A0> <ent2> <V> ran <sent> <A0> <ent1> <V> met <A1> <ent0> <sent>"
    changes = Counter()
    for seed in range(200):
        for pair in make_pairs([("p", Plot.read(plot))], "entity", seed=seed):
            real, changed = entities_of(pair.real), entities_of(pair.changed)
            ((place, (old, new)),) = [
                (place, two) for place, two in enumerate(zip(real, changed, strict=True)) if two[0] != two[1]
            ]
            changes[place, old, new] += 1
    assert set(changes) == {(1, 1, 0), (1, 1, 2), (2, 0, 1), (2, 0, 2)}
    assert (
        list(make_pairs([("p", Plot.read("<A0> <ent0> <V> a <sent> <A0> <ent0> <V> b <sent>"))], "entity", seed=0))
        == []
    )


def test_sets_are_disjoint_by_prompt_and_near_their_shares() -> None:
    sets = Counter(draw_set(f"prompt {number}", seed=3) for number in range(4000))
    assert sets["writers"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert sets["scorers"] / 4000 == pytest.approx(0.20, abs=0.03)
    assert sets["weights"] / 4000 == pytest.approx(0.05, abs=0.02)
    assert draw_set("A  prompt", seed=3) == draw_set("A prompt", seed=3)


def bag_of_numbers_accuracy(pairs: list[Pair]) -> float:
    """Held-out accuracy of a linear scorer that is shown entity numbers only: how often each is mentioned."""
    rows, labels = [], []
    for context, *sides in pairs:
        for label, side in zip((1, 0), sides, strict=True):
            counts = Counter(entities_of(side))
            rows.append([1.0, len(entities_of(context)), *(counts[number] for number in range(6)), len(counts)])
            labels.append(label)
    features, targets = np.array(rows), np.array(labels)
    half = len(rows) // 4 * 2
    weights = np.linalg.lstsq(features[:half], targets[:half] - 0.5, rcond=None)[0]
    return float(((features[half:] @ weights > 0) == targets[half:]).mean())


@pytest.mark.parametrize("kind", ["relevance", "event-inter", "event-intraV"])
def test_entity_numbers_alone_do_not_tell_a_negative(kind: Kind, plots: list[tuple[str, Plot]]) -> None:
    pairs = [pair for seed in range(4) for pair in pairs_of(plots, kind, seed=seed)]
    assert bag_of_numbers_accuracy(pairs) == pytest.approx(0.5, abs=0.06)
