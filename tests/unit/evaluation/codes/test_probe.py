"""The probe learns what latents hold and nothing else, and asks a head as the model does."""

import numpy as np
import pytest
import torch

from discodvt.errors import BadRequest
from discodvt.evaluation.codes import probe as probing
from discodvt.evaluation.codes.inference import EduPairs
from discodvt.evaluation.codes.probe import MARKER_LABELS, marker_logits, probe, right_answers
from discodvt.model.relation_head import RelationHead

WIDTH = 12


def pairs_of(count: int, *, seed: int, telling: bool, scale: float = 1.0) -> EduPairs:
    """Four labels, which stand in the two latents together (which half each belongs to) or do not."""
    chance = np.random.default_rng(seed)
    labels = chance.integers(4, size=count)
    left, right = (chance.normal(size=(count, WIDTH)).astype(np.float32) for _ in range(2))
    if telling:
        left[:, 0], right[:, 0] = 3.0 * (labels // 2) - 1.5, 3.0 * (labels % 2) - 1.5
    return EduPairs(
        scale * torch.from_numpy(left), scale * torch.from_numpy(right), torch.from_numpy(labels), np.arange(count) // 3
    )


def accuracy(telling: bool, scale: float = 1.0) -> float:
    train, test = (pairs_of(count, seed=count, telling=telling, scale=scale) for count in (1500, 400))
    return float(probe(train, test, relation_width=8, max_steps=300).hits.mean())


def test_a_latent_that_tells_the_label_is_read_whatever_its_scale():
    plain = accuracy(telling=True)
    assert plain > 0.9
    assert accuracy(telling=True, scale=0.01) == pytest.approx(plain, abs=0.02)


def test_a_latent_that_tells_nothing_leaves_the_probe_at_chance():
    assert accuracy(telling=False) == pytest.approx(0.25, abs=0.08)


def test_a_probe_repeats_and_leaves_the_random_state_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first = accuracy(telling=True)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert accuracy(telling=True) == first


def test_the_models_own_head_answers_as_in_training():
    """Pairs taken out of their stories get the head's logits, `unknown` left out."""
    torch.manual_seed(0)
    head = RelationHead(WIDTH, 6, MARKER_LABELS + 1)
    latent, pooling = torch.randn(2, 9, WIDTH), torch.zeros(2, 3, 9)
    for story, edges in enumerate(([0, 3, 4, 9], [0, 2, 6, 8])):
        for number in range(3):
            pooling[story, number, edges[number] : edges[number + 1]] = 1 / (edges[number + 1] - edges[number])
    places = torch.tensor([[0, 0], [0, 1], [1, 1]])
    means = pooling @ latent
    left, right = means[places[:, 0], places[:, 1]], means[places[:, 0], places[:, 1] + 1]
    expected = head(latent, pooling, places)[:, :MARKER_LABELS]
    torch.testing.assert_close(marker_logits(head, left, right), expected)
    answers = right_answers(head, EduPairs(left, right, expected.argmax(-1), np.arange(3)))
    assert answers.tolist() == [1, 1, 1]


def test_too_few_pairs_are_refused():
    with pytest.raises(BadRequest, match="`train_stories`"):
        probe(pairs_of(2, seed=0, telling=True), pairs_of(2, seed=1, telling=True), relation_width=4)


def test_a_probe_goes_on_until_it_learns_no_more_and_says_when_it_could_not(monkeypatch):
    monkeypatch.setattr(probing, "LOOK_EVERY_STEPS", 20)
    train, test = (pairs_of(count, seed=count, telling=True) for count in (1500, 400))
    whole = probe(train, test, relation_width=8)
    assert whole.converged
    assert whole.hits.mean() > 0.95
    cut = probe(train, test, relation_width=8, max_steps=40)
    assert (cut.steps, cut.converged) == (40, False)
    assert whole.steps > cut.steps
