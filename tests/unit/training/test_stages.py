"""What each stage trains: gradients reach all of it, and nothing depends on how a batch is cut."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_bart import tiny_bart
from transformers import BartForConditionalGeneration

from discodvt.config import Optimizer, Run
from discodvt.data.batches import Batch
from discodvt.data.subwords import Symbols
from discodvt.data.tokens import Ragged, Tokens
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT, PlanPrior, PlanPriorConfig
from discodvt.training.assembly import Corpus, set_up_layers
from discodvt.training.feeds import DropoutSchedule, Noise, StoryFeed, WeakPlans
from discodvt.training.loop import _groups, without_gradient
from discodvt.training.stages import Objective
from discodvt.training.stages.prior import PlanFeed, PriorObjective
from discodvt.training.stages.reconstruct import LatentObjective, RelationLoss, TemperatureSchedule
from discodvt.training.stages.seq2seq import TextObjective
from discodvt.training.validation import marker_hits

SHAPE = tiny_bart(40, dropout=0.0)
SIZES = {"num_codes": 6, "code_width": 8, "conv_channels": 8, "relation_width": 6, "num_relations": 21}


def tokens() -> Tokens:
    random = np.random.default_rng(0)
    lengths = (19, 33, 12, 25)
    return Tokens(
        prompts=Ragged.of(random.integers(4, 40, size).astype(np.int32) for size in (5, 3, 7, 4)),
        stories=Ragged.of(random.integers(4, 40, length + 1).astype(np.int32) for length in lengths),
        edus=Ragged.of(np.array([0, length // 3, length // 2, length], np.int32) for length in lengths),
        relations=Ragged.of(np.array(pair, np.int32) for pair in ([3, 20], [-100, 5], [20, -100], [7, 0])),
    )


def feed(**changes) -> StoryFeed:
    settings = {"pad": 1, "mask": 39, "seed": 5, "noise": Noise(8, 6), "word_dropout": DropoutSchedule(0.3)}
    return StoryFeed(tokens(), **(settings | changes))


def latent_objective(relation: float = 0.1, bottleneck: str = "gumbel", tune: str = "all") -> LatentObjective:
    torch.manual_seed(0)
    model = DiscoDVT.from_bart(SHAPE, **SIZES, bottleneck=bottleneck)
    weights, temperature = RelationLoss(relation=relation), TemperatureSchedule(0.8, 0.1, 0.0)
    return LatentObjective(model, weights, temperature=temperature, tune=tune)


def stages() -> dict[str, tuple[Objective, Batch]]:
    torch.manual_seed(0)
    rows = np.arange(4)
    plans = PlanFeed(tokens().prompts, Ragged.of([np.array([1, 2, 3], np.int32)] * 4), 1, 6, 7, 8)
    prior = PlanPrior(PlanPriorConfig.from_backbone_config(SHAPE, num_codes=6, max_codes=8))
    stories = feed().batch(rows, step=3)
    return {
        "pretrain, seq2seq": (TextObjective(BartForConditionalGeneration(SHAPE)), stories),
        "warm-start": (latent_objective(0.0), stories),
        "reconstruct": (latent_objective(), stories),
        "reconstruct, vq": (latent_objective(bottleneck="vq"), stories),
        "reconstruct, fsq": (latent_objective(bottleneck="fsq"), stories),
        "prior": (PriorObjective(prior), plans.batch(rows, step=3)),
    }


@pytest.mark.parametrize("name", stages())
def test_every_trained_parameter_receives_gradient_and_the_rest_is_frozen_and_listed(name):
    stage, batch = stages()[name]
    frozen = stage.freeze()
    output = stage(batch, 3)
    sum(term.weight * output.sums[key] for key, term in stage.terms.items()).backward()
    assert without_gradient(stage.named_parameters()) == []
    kept = {key for key, parameter in stage.model.named_parameters() if not parameter.requires_grad}
    assert kept == set(frozen)
    assert {key.partition(".")[0] for key in frozen} == ({"relation_head"} if name == "warm-start" else set())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"generator": 1.0, "posterior": 1.0, "down": 1.0}),
        ({"backbone_rate": 0.2}, {"generator": 0.2, "posterior": 0.2, "down": 1.0}),
        ({"posterior_rate": 0.5}, {"generator": 1.0, "posterior": 0.5, "down": 1.0}),
        ({"backbone_rate": 0.1, "posterior_rate": 1.0}, {"generator": 0.1, "posterior": 1.0, "down": 1.0}),
        ({"backbone_rate": 0.5, "posterior_rate": 0.5}, {"generator": 0.5, "posterior": 0.5, "down": 1.0}),
    ],
)
def test_backbone_and_posterior_have_rates_of_their_own_and_nothing_is_trained_twice(settings, expected):
    objective = latent_objective()
    objective.freeze()
    names = {id(parameter): name for name, parameter in objective.named_parameters()}
    rates = [
        (names[id(parameter)], group["rate"])
        for group in _groups(objective, Optimizer(**settings))
        for parameter in group["params"]
    ]
    trained = sorted(name for name, parameter in objective.named_parameters() if parameter.requires_grad)
    assert sorted(name for name, _ in rates) == trained
    assert {part: {rate for name, rate in rates if name.startswith(f"model.{part}.")} for part in expected} == {
        part: {rate} for part, rate in expected.items()
    }


@pytest.mark.parametrize(
    ("bottleneck", "tune"), [("gumbel", "all"), ("vq", "all"), ("fsq", "all"), ("gumbel", "generator")]
)
def test_a_batch_may_be_cut_anywhere(bottleneck, tune):
    """Sums and gradients of four stories together and one by one: noise, dropout and weak plans follow the story."""
    stage = latent_objective(bottleneck=bottleneck, tune=tune)
    stage.freeze()
    whole = feed(weak_plans=WeakPlans(8, 6, 0.8, (0.2, 0.9)) if tune == "generator" else None)
    gradients, totals = [], []
    for parts in ([np.arange(4)], [np.array([2]), np.array([0, 3]), np.array([1])]):
        stage.zero_grad()
        sums = dict.fromkeys(stage.terms, 0.0)
        for rows in parts:
            output = stage(whole.batch(rows, step=3), 3)
            sum(term.weight * output.sums[key] for key, term in stage.terms.items()).backward()
            sums = {key: sums[key] + output.sums[key].item() for key in sums}
        trained = ((key, each) for key, each in stage.named_parameters() if each.requires_grad)
        gradients.append({key: parameter.grad.clone() for key, parameter in trained})
        totals.append(sums)
    assert totals[0] == pytest.approx(totals[1], rel=1e-5)
    for key, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][key], gradient, atol=1e-4, rtol=1e-3, msg=key)


@pytest.mark.parametrize("bottleneck", ["vq", "fsq"])
def test_codes_without_probabilities_have_no_entropy_and_open_as_they_were_saved(bottleneck, tmp_path):
    stage = latent_objective(bottleneck=bottleneck)
    batch = feed().batch(np.arange(4), step=3)
    stage(batch, 3)
    stage.after_step(lambda rows: rows)
    output = stage(batch)
    assert set(output.sums) == set(stage.terms)
    assert "entropy" not in stage.terms
    assert "bottleneck" in stage.terms
    stage.model.save_pretrained(tmp_path)
    opened = DiscoDVT.from_pretrained(tmp_path)
    assert all(torch.equal(weight, stage.model.state_dict()[name]) for name, weight in opened.state_dict().items())
    plans = [model.eval().plan(batch["story_ids"], batch["story_mask"]) for model in (opened, stage.model)]
    assert torch.equal(*plans)


def test_counts_are_what_the_sums_run_over():
    batch, counts = feed().batch(np.arange(4), step=None), feed().counts(np.arange(4))
    lengths = (batch["labels"] != -100).sum(1)
    assert counts == {
        "tokens": int(lengths.sum()),
        "stories": 4,
        "pairs": len(batch["relations"]),
        "codes": sum(-(-length // 8) for length in lengths.tolist()),
    }
    assert counts["pairs"] == 6


def test_validation_is_free_of_chance():
    batch = feed().batch(np.arange(4), step=None)
    assert "noise" not in batch
    assert "decoder_ids" not in batch


@pytest.mark.parametrize(("mask", "unknown", "used"), [(39, 3, 39), (None, 3, 3), (None, None, 1)])
def test_what_stands_in_the_place_of_a_dropped_word(mask, unknown, used):
    tokenizer = SimpleNamespace(mask_token_id=mask, unk_token_id=unknown)
    corpus = Corpus(tokenizer, Symbols((), (), 0, 2, pad=1), tokens(), tokens())
    train, _ = corpus.story_feeds(seed=5, dropout=DropoutSchedule(0.9))
    ids = train.batch(np.array([1]), step=0)["decoder_ids"]
    assert 0.7 < (ids == used).float().mean() < 1


def test_a_weak_plan_has_as_many_of_its_own_codes_as_it_is_strong():
    weak = feed(weak_plans=WeakPlans(1, 6, 0.8, (0.2, 0.9)))
    batches = [weak.batch(np.arange(4), step=step) for step in range(200)]
    strengths = torch.cat([batch["plan_strength"] for batch in batches])
    assert 0.2 <= strengths.min() < 0.25
    weak_ones = strengths[strengths < 1]
    assert len(weak_ones) / len(strengths) == pytest.approx(0.8, abs=0.05)
    assert 0.85 < weak_ones.max() <= 0.9
    lengths = (batches[0]["labels"] != -100).sum(1)
    own = torch.stack([(batch["other_codes"] < 0).sum(1) for batch in batches]) - (lengths.max() - lengths)
    shares = (own / lengths).flatten()
    assert (shares - strengths).mean().abs() < 0.01
    assert torch.corrcoef(torch.stack([shares, strengths]))[0, 1] > 0.8
    assert "plan_strength" not in weak.batch(np.arange(4), step=None)


def test_a_weak_plan_weakens_what_the_generator_gets_and_nothing_else():
    stage = latent_objective(tune="generator").eval()
    batch = feed(word_dropout=DropoutSchedule()).batch(np.arange(4), step=3)
    plain, codes = stage(batch, 3), stage.model.plan(batch["story_ids"], batch["story_mask"])
    own = torch.full_like(codes, -1)
    same = stage(batch | {"plan_strength": torch.ones(4), "other_codes": own}, 3)
    for key, value in plain.sums.items():
        torch.testing.assert_close(same.sums[key], value)
    silent = stage(batch | {"plan_strength": torch.zeros(4), "other_codes": own}, 3)
    without = stage._reconstruction(batch, torch.zeros_like(stage.model.latent(codes, batch["story_ids"].shape[1])))
    assert silent.sums["reconstruction"].item() == pytest.approx(without.item())
    other = torch.where(codes < 6, (codes + 1) % 6, -1)
    foreign = stage(batch | {"plan_strength": torch.ones(4), "other_codes": other}, 3)
    assert foreign.sums["reconstruction"].item() != pytest.approx(plain.sums["reconstruction"].item(), rel=1e-4)
    assert foreign.sums["relation"].item() == silent.sums["relation"].item() == plain.sums["relation"].item()


def test_swapping_plans_changes_the_loss_and_only_by_the_plan():
    stage = latent_objective()
    with torch.no_grad():
        stage.model.up.projection.weight.mul_(30)
        batch = feed().batch(np.arange(4), step=None)
        output = stage(batch)
        other, own, tokens = output.tallies["swapped"].tolist()
        assert own == pytest.approx(output.sums["reconstruction"].item())
        assert other != own
        assert tokens == 19 + 33 + 12 + 25
        single = feed().batch(np.array([1]), step=None)  # a story alone has nobody to swap with
        assert stage(single).tallies["swapped"].tolist() == [0, 0, 0]
    assert output.tallies["codes"].sum() == sum(-(-length // 8) for length in (19, 33, 12, 25))


def test_marker_accuracy_is_over_marker_labels():
    logits = torch.zeros(3, 21)
    logits[:, 20] = 9.0  # `unknown` is likeliest, but no marker
    logits[0, 4] = logits[1, 5] = 1.0
    assert marker_hits(logits, torch.tensor([4, 6, 20])).tolist() == [1, 2]


def test_gradient_checkpointing_changes_no_gradient():
    gradients = []
    for checkpointing in (False, True):
        stage = latent_objective().train()
        if checkpointing:
            stage.model.gradient_checkpointing_enable()
        sums = stage(feed().batch(np.arange(4), step=3), 3).sums
        sum(term.weight * sums[key] for key, term in stage.terms.items()).backward()
        gradients.append([parameter.grad for parameter in stage.parameters()])
    for plain, saved in zip(*gradients, strict=True):
        torch.testing.assert_close(saved, plain)


@pytest.mark.parametrize(
    "settings", [{"attn_implementation": "eager"}, {"torch_compile": True}], ids=["eager", "compiled"]
)
@pytest.mark.filterwarnings("ignore")  # of PyTorch about itself
def test_layers_computed_otherwise_compute_the_same(settings):
    found = []
    for run in (Run(), Run(**settings)):
        stage = latent_objective()
        try:
            set_up_layers(stage, run)
        except BadRequest as error:
            pytest.skip(str(error))
        story = torch.arange(3, 23).repeat(2, 1)
        latent = stage.model.read(story, story > 4, temperature=0.5).latent
        latent.square().sum().backward()
        found.append([latent, *(parameter.grad for parameter in stage.model.posterior.parameters())])
    for plain, other in zip(*found, strict=True):
        torch.testing.assert_close(other, plain, rtol=1e-4, atol=1e-5)


def test_without_a_compiler_layers_are_not_compiled(monkeypatch):
    def compile(_: object) -> None:
        raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found\n\nset this and that")

    monkeypatch.setattr(torch, "compile", compile)
    with pytest.raises(
        BadRequest, match=r"^run.torch_compile: .* \(InvalidCxxCompiler: No working C\+\+ compiler found\)$"
    ):
        set_up_layers(latent_objective(), Run(torch_compile=True))
