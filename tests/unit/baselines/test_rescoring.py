"""Rescoring: the worked values, plain sampling at weight 0, banned tokens, weights by the ranking loss."""

import pytest
import torch
from tiny_bart import tiny_bart
from torch import Tensor, nn
from transformers import BartForConditionalGeneration

from discodvt.baselines.rescoring import (
    NewVerbsOnly,
    ScoredPlot,
    TokenRescoring,
    best_plot,
    learn_weights,
    ranking_loss,
    rescored,
    weight_steps,
)
from discodvt.baselines.scorers import REAL, PlotScorer, rescore_with, scorer_input, scorer_loss
from discodvt.model.backbones import masked_mean

REAL_PLOT, GENERATED = ScoredPlot(-4.0, (-0.1,)), ScoredPlot(-2.0, (-0.9,))


def test_worked_value_of_the_score() -> None:
    log_p, log_real = torch.tensor([0.6, 0.4]).log(), torch.tensor([[0.2], [0.8]]).log()
    shares = rescored(log_p, log_real, torch.ones(1)).softmax(-1)
    assert shares.tolist() == pytest.approx([0.2727, 0.7273], abs=5e-5)
    assert best_plot(log_p, log_real, torch.ones(1)) == 1
    assert best_plot(log_p, log_real, torch.zeros(1)) == 0


def test_tokens_are_rescored_from_the_second_on_and_only_the_likeliest() -> None:
    logits = torch.tensor([[0.6, 0.4, 1e-3, 1e-4]]).log()
    seen = []

    def rescore(plots: Tensor) -> Tensor:
        seen.append(plots.tolist())
        return torch.tensor([[0.2], [0.8]]).log()

    process = TokenRescoring(rescore, torch.ones(1), prefix=1, candidates=2)
    first = process(torch.tensor([[7]]), logits).softmax(-1)
    assert first[0].tolist() == pytest.approx([0.6, 0.4, 0, 0])
    assert seen == []
    second = process(torch.tensor([[7, 8]]), logits).softmax(-1)
    assert second[0].tolist() == pytest.approx([0.2727, 0.7273, 0, 0], abs=5e-5)
    assert seen == [[[7, 8, 0], [7, 8, 1]]]


def test_weight_zero_repeats_plain_draws_and_a_banned_token_is_never_drawn() -> None:
    model = BartForConditionalGeneration(tiny_bart(40, positions=32)).eval()
    prompt = torch.tensor([[0, 9, 10, 2], [0, 11, 12, 2]])
    settings = {"do_sample": True, "max_new_tokens": 12, "no_repeat_ngram_size": 1, "forced_eos_token_id": None}

    def rescore(plots: Tensor) -> Tensor:
        return -(plots[:, -1:] % 7).float()

    def draw(top_k: int, *processors: TokenRescoring) -> list[list[int]]:
        torch.manual_seed(3)
        return model.generate(prompt, top_k=top_k, logits_processor=list(processors), **settings).tolist()

    plain = draw(5)
    assert draw(0, TokenRescoring(rescore, torch.zeros(1))) == plain
    weighted = draw(0, TokenRescoring(rescore, torch.full((1,), 5.0)))
    assert weighted != plain
    for story in (*plain, *weighted):
        told = [token for token in story[1:] if token not in (1, 2)]
        assert len(told) == len(set(told))


def test_a_verb_is_not_used_twice() -> None:
    process = NewVerbsOnly(verb_tag=5)
    ids = torch.tensor([[5, 1, 5, 2, 5], [5, 1, 5, 2, 3]])
    scores = process(ids, torch.zeros(2, 6))
    assert (scores == -torch.inf).tolist() == [[False, True, True, False, False, False], [False] * 6]


def test_worked_value_of_the_ranking_loss_and_its_step() -> None:
    assert ranking_loss(REAL_PLOT, GENERATED, torch.ones(1)).item() == pytest.approx(1.2)
    ((loss, weights),) = weight_steps([(REAL_PLOT, GENERATED)], rescorers=1, learning_rate=1e-3)
    assert loss == pytest.approx(1.2)
    assert weights.tolist() == pytest.approx([1.0008])


def test_learned_weights_rise_where_a_rescorer_is_right_fall_to_zero_where_it_is_wrong_and_rest_when_ranked() -> None:
    pairs = [(ScoredPlot(-4, (-0.1, -3.0)), ScoredPlot(-2, (-0.9, -1.0)))] * 400
    right, wrong = learn_weights(pairs, rescorers=2, learning_rate=1e-2).tolist()
    assert right > 1.2
    assert 0 <= wrong < 0.2
    ranked = [(ScoredPlot(-1, (-0.1,)), ScoredPlot(-2, (-0.9,)))] * 10
    assert learn_weights(ranked, rescorers=1).tolist() == [1.0]
    assert learn_weights([], rescorers=3).tolist() == [1.0, 1.0, 1.0]


def test_learned_weights_are_the_mean_of_the_saves() -> None:
    found = learn_weights([(REAL_PLOT, GENERATED)] * 4, rescorers=1, save_every=2)
    assert found.tolist() == pytest.approx([(1.0016 + 1.0032) / 2])


class Embedding(nn.Module):
    """An encoder without any context: states are the embeddings."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.table = nn.Embedding(50, width)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.table(input_ids)


def test_masked_mean_sees_real_positions_only() -> None:
    states = torch.tensor([[[1.0], [3.0], [100.0]], [[5.0], [6.0], [7.0]]])
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    assert masked_mean(states, mask).tolist() == [[2.0], [0.0]]


def test_a_scorer_learns_and_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    scorer = PlotScorer(Embedding(), 8, dropout=0.0)
    ids = torch.randint(3, 50, (64, 6))
    labels = (ids == 7).any(1).long()
    ids[:32, 0], labels[:32] = 7, REAL
    mask = torch.ones_like(ids)
    optimizer = torch.optim.Adam(scorer.parameters(), lr=0.05)
    for _ in range(40):
        optimizer.zero_grad()
        scorer_loss(scorer(ids, mask), labels).backward()
        optimizer.step()
    assert (scorer(ids, mask).argmax(-1) == labels).float().mean() > 0.95
    longer = torch.nn.functional.pad(ids, (0, 3), value=1)
    padded = scorer.log_real(longer, torch.nn.functional.pad(mask, (0, 3)))
    assert torch.allclose(padded, scorer.log_real(ids, mask), atol=1e-6)
    assert torch.allclose(scorer.log_real(ids, mask).exp(), scorer(ids, mask).softmax(-1)[:, REAL])


def test_too_long_inputs_keep_the_prompt_and_the_last_tokens() -> None:
    assert scorer_input([1, 2], [3, 4, 5], longest=9) == [1, 2, 3, 4, 5]
    assert scorer_input([1, 2], [3, 4, 5], longest=4) == [1, 2, 4, 5]
    assert scorer_input([1, 2], [3, 4, 5], longest=2) == [1, 2]
    assert scorer_input([1, 2, 3], [4], longest=2) == [1, 2]


def test_rescore_gives_each_candidate_its_own_prompt() -> None:
    torch.manual_seed(0)
    scorers = [PlotScorer(Embedding(), 8, dropout=0.0) for _ in range(2)]
    rescore = rescore_with(scorers, [[10, 11], [12]], longest=6, padding=1)
    plots = torch.tensor([[0, 20, 21, 22], [0, 20, 21, 23], [0, 30, 1, 1], [0, 30, 31, 1]])
    found = rescore(plots)
    assert found.shape == (4, 2)
    alone = torch.tensor([[12, 30, 31]])
    for place, scorer in enumerate(scorers):
        assert found[3, place].item() == pytest.approx(scorer.log_real(alone, torch.ones_like(alone)).item(), abs=1e-6)
