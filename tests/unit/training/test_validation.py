"""What validation measures: another story's plan, and stories written under their own."""

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from unit.training.test_stages import feed, latent_objective

from discodvt.corpus.words import bleu_1
from discodvt.data.tokens import Ragged, Tokens
from discodvt.evaluation import evaluate
from discodvt.training.feeds import StoryFeed
from discodvt.training.validation import validate, written_bleu_1


def test_the_swap_gap_is_over_stories_that_had_another_plan():
    """Four stories in batches of three and one: the one alone has nobody to swap with, and does not count."""
    stage, stories = latent_objective(), feed()
    with torch.no_grad():
        stage.model.up.projection.weight.mul_(30)
        together = np.argsort(stories.sort_keys, kind="stable")[:3]
        batch = stories.batch(together, step=None)
        stage.eval()
        other, own, tokens = stage(batch).tallies["swapped"].tolist()
    figures, _ = validate(stage, stories, accelerator=Accelerator(cpu=True), batch_size=3)
    assert tokens == stories.counts(together)["tokens"]
    assert figures["swap_gap"] == pytest.approx((other - own) / tokens, rel=1e-4)


class Words:
    """A tokenizer whose words are numbers."""

    def batch_decode(self, rows, skip_special_tokens):
        return [" ".join(f"w{number}" for number in row if number > 3) for row in rows.tolist()]


class Copyist:
    """A model whose plan is the story itself, and which writes what the plan says; it keeps what it was asked."""

    def __init__(self):
        self.asked = []

    def eval(self):
        return self

    train = eval

    def plan(self, story_ids, attention_mask):
        return story_ids

    def generate(self, prompt_ids, *, attention_mask, plan, **lengths):
        self.asked.append((prompt_ids, lengths))
        return plan


def many(count: int) -> StoryFeed:
    """Stories of 9, 10, 11, ... subwords that share none; the prompt is the story's first subword."""
    starts = np.cumsum([4, *(8 + number for number in range(count))])[:-1]
    stories = [np.array([0, *range(at, at + 8 + n), 2], np.int32) for n, at in enumerate(starts)]
    nothing = Ragged.of([np.empty(0, np.int32)] * count)
    prompts = Ragged.of(story[1:2] for story in stories)
    return StoryFeed(Tokens(prompts, Ragged.of(stories), nothing, nothing), pad=1, mask=3, seed=0)


def measure(model: Copyist, stories: int) -> float:
    return written_bleu_1(
        model, many(60), Words(), stories=stories, stories_per_batch=4, device=torch.device("cpu"), seed=0
    )


def test_bleu_1_is_of_stories_written_under_their_own_plans():
    assert measure(Copyist(), 10) == pytest.approx(1.0)


def test_bleu_1_is_of_stories_of_all_lengths_not_bound_by_the_writers_own_limits():
    model = Copyist()
    measure(model, 10)
    assert sum(len(prompts) for prompts, _ in model.asked) == 10
    longest = [lengths["max_new_tokens"] for _, lengths in model.asked]
    assert longest[0] < 35 < 55 < longest[-1]
    assert {lengths["min_new_tokens"] for _, lengths in model.asked} == {0}


def test_bleu_1_of_training_is_b_1_of_the_evaluation():
    texts = ["He left. She can't stay. He left.", "A fox ran on and on.", "nothing alike"]
    references = ["He left her. She stayed.", "A fox ran. The hen saw the fox.", "Ann saw a hat."]
    ours = sum(map(bleu_1, texts, references)) / len(texts)
    assert ours == pytest.approx(evaluate(texts, references, resamples=10)["B-1"].value, abs=1e-12)
    assert ours > 0.1
