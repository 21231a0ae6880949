"""The model against Hugging Face BART: the same weights give the same numbers, whatever the batch looks like."""

import copy
import json

import pytest
import torch
from transformers import AutoModel, AutoModelForSeq2SeqLM, BartConfig, BartForConditionalGeneration, GenerationConfig

from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT, DiscoDVTConfig, PlanPrior, PlanPriorConfig

SHAPE = {
    "vocab_size": 60,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 80,
    "dropout": 0.0,
    "init_std": 0.3,  # far from uniform predictions, so that a mistake shows
}
SIZES = {"num_codes": 16, "code_width": 8, "conv_channels": 8, "relation_width": 6, "num_relations": 5}


@pytest.fixture(scope="module")
def bart() -> BartForConditionalGeneration:
    torch.manual_seed(0)
    return BartForConditionalGeneration(BartConfig(**SHAPE)).eval()


@pytest.fixture(scope="module", params=["gumbel", "bits"])
def built(request, bart: BartForConditionalGeneration, tmp_path_factory) -> DiscoDVT:
    directory = tmp_path_factory.mktemp("bart")
    bart.save_pretrained(directory)
    torch.manual_seed(1)
    model = DiscoDVT.from_bart(directory, bottleneck=request.param, **SIZES).eval()
    with torch.no_grad():
        model.up.projection.weight.mul_(30)  # a plan loud enough to be heard by random weights
    return model


@pytest.fixture
def model(built: DiscoDVT) -> DiscoDVT:
    """One that a test may change."""
    torch.manual_seed(1)
    return copy.deepcopy(built)


def prompts(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    return stories(*lengths, seed=7)


def stories(*lengths: int, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Right-padded ids that begin with `<s>`, and their mask."""
    ids = torch.randint(4, 60, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids[:, 0] = 0
    return ids.masked_fill(~mask, 1), mask.long()


def test_zero_latent_is_bart(bart, model):
    x, x_mask = prompts(7, 4)
    y, _ = stories(21, 13)
    theirs = bart(x, attention_mask=x_mask, decoder_input_ids=y).logits
    ours = model(x, x_mask, decoder_input_ids=y, decoder_latent=torch.zeros(2, 21, 16)).logits
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    torch.testing.assert_close(model(x, x_mask, decoder_input_ids=y).logits, theirs, atol=1e-5, rtol=0)


def test_the_latent_is_heard_at_its_own_position_and_after_it_only(model):
    x, x_mask = prompts(7)
    y, _ = stories(21)
    latent = torch.zeros(1, 21, 16)
    plain = model(x, x_mask, decoder_input_ids=y, decoder_latent=latent).logits
    latent[0, 9] = torch.randn(16)
    moved = (model(x, x_mask, decoder_input_ids=y, decoder_latent=latent).logits - plain).abs().amax(-1)[0]
    assert moved[:9].max() < 1e-6
    assert moved[9:].min() > 1e-4


def test_the_posterior_starts_as_the_bart_encoder(bart, model):
    for name, weight in bart.get_encoder().state_dict().items():
        assert torch.equal(model.posterior.state_dict()[name], weight)
    assert model.posterior.embed_tokens.weight is not model.generator.model.shared.weight


def test_cached_equals_uncached_and_a_plan_changes_the_story(model):
    x, x_mask = prompts(7, 4)
    plan = torch.tensor([[3, 1, 4, 1], [5, 9, 2, 16]])
    settings = {"attention_mask": x_mask, "max_new_tokens": 40, "min_new_tokens": 30, "do_sample": False}
    cached = model.generate(x, plan=plan, use_cache=True, **settings)
    uncached = model.generate(x, plan=plan, use_cache=False, **settings)
    assert torch.equal(cached, uncached)
    assert not torch.equal(cached, model.generate(x, plan=plan.flip(0), **settings))
    assert cached[0, 0] == model.config.bos_token_id


def test_sampling_is_the_same_cached_and_uncached_and_expands_the_plan(model):
    x, x_mask = prompts(7, 4)
    plan = torch.tensor([[3, 1, 4], [5, 9, 2]])
    drawn = []
    for use_cache in (True, False):
        torch.manual_seed(5)
        drawn.append(
            model.generate(
                x, attention_mask=x_mask, plan=plan, do_sample=True, max_length=30, num_return_sequences=3,
                use_cache=use_cache,
            )
        )  # fmt: skip
    assert torch.equal(*drawn)
    assert len(drawn[0]) == 6
    beams = model.generate(x, attention_mask=x_mask, plan=plan, num_beams=3, max_length=20)
    assert len(beams) == 2


def test_generate_agrees_with_teacher_forcing(model):
    x, x_mask = prompts(7)
    plan = torch.tensor([[3, 1, 4, 1]])
    out = model.generate(x, attention_mask=x_mask, plan=plan, do_sample=False, max_length=33, min_length=33)
    logits = model(x, x_mask, decoder_input_ids=out[:, :-1], decoder_latent=model.latent(plan, 32)).logits
    logits[..., model.config.eos_token_id] = float("-inf")
    assert torch.equal(logits.argmax(-1), out[:, 1:])


@pytest.mark.parametrize(
    "plan", [[[3, 999]], [[-1, 3]], [[16, 3]], [[3, 17]], [[3, 18]], [[16]], [[]], [3, 4], [[0.5]]], ids=str
)
def test_plans_that_are_none(model, plan):
    x, x_mask = prompts(7)
    with pytest.raises(BadRequest, match="`plan`"):
        model.generate(x, attention_mask=x_mask, plan=torch.tensor(plan), max_new_tokens=3)


@pytest.mark.parametrize(
    "asked", [{}, {"max_new_tokens": 9}, {"max_length": 10, "min_length": 3},
              {"generation_config": GenerationConfig(max_length=10, do_sample=False, top_p=1.0)}], ids=str
)  # fmt: skip
@pytest.mark.parametrize("kept", [{}, {"max_new_tokens": 20, "min_new_tokens": 2}, {"max_length": 30}], ids=str)
def test_one_length_is_enough(model, prior, capfd, kept, asked):
    """Whatever lengths are kept with a model or asked for, the right one holds, and nothing is said."""
    x, x_mask = prompts(7)
    for each, room in ((model, 80), (prior, 11)):
        each.generation_config.update(eos_token_id=None, **kept)
        written = each.generate(x, attention_mask=x_mask, **copy.deepcopy(asked))
        assert written.shape[1] == min(10 if asked else {20: 21, 30: 30}.get(next(iter(kept.values()), 0), 80), room)
    assert "length" not in capfd.readouterr().err


def test_the_latent_of_known_codes_is_the_latent_they_were_read_with(model):
    y, mask = stories(37, 11)
    reading = model.read(y, mask)
    torch.testing.assert_close(model.latent(reading.codes, 37), reading.latent)


def test_the_latent_does_not_depend_on_how_far_it_is_asked_for(model):
    plan = torch.tensor([[3, 1, 4]])
    far = model.latent(plan, 64)
    for length in (1, 8, 20, 24, 25, 63):
        torch.testing.assert_close(model.latent(plan, length), far[:, :length])
    past = model.latent(torch.tensor([[16]]), 64)
    torch.testing.assert_close(far[:, 40:], past[:, 40:])  # well past the plan, only padding speaks


def test_save_and_load(model, tmp_path):
    x, x_mask = prompts(7)
    y, mask = stories(21)
    model.save_pretrained(tmp_path / "saved")
    assert not list((tmp_path / "saved").glob("*.bin"))
    for opened in (
        DiscoDVT.from_pretrained(tmp_path / "saved"),
        AutoModel.from_pretrained(tmp_path / "saved"),
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved"),
    ):
        assert type(opened) is DiscoDVT
        assert opened.config.num_codes == 16
        assert opened.state_dict().keys() == model.state_dict().keys()
        for name, weight in model.state_dict().items():
            assert torch.equal(opened.state_dict()[name], weight), name
        assert torch.equal(opened.plan(y, mask), model.plan(y, mask))
        shared = opened.generator.model.shared.weight
        for tied in (opened.generator.lm_head, opened.generator.model.encoder.embed_tokens,
                     opened.generator.model.decoder.embed_tokens):  # fmt: skip
            assert tied.weight is shared
        assert opened.generation_config.forced_eos_token_id is None
        assert opened.generation_config.decoder_start_token_id == 0
    torch.testing.assert_close(
        opened(x, x_mask, decoder_input_ids=y).logits, model(x, x_mask, decoder_input_ids=y).logits
    )


def test_loading_a_plain_bart_leaves_nothing_uninitialised(bart, tmp_path):
    """transformers would leave nn.Bilinear as empty memory; every new weight must be finite and not constant."""
    torch.manual_seed(0)
    bart.save_pretrained(tmp_path / "bart")
    model = DiscoDVT.from_bart(str(tmp_path / "bart"), code_logit_gain=20.0, **SIZES)
    for name, weight in model.named_parameters():
        assert torch.isfinite(weight).all(), name
    assert float(model.bottleneck.embedding.weight.detach().std()) == pytest.approx(1.0, abs=0.3)
    assert model.relation_head.bilinear.weight.abs().max() < 1
    gain = model.bottleneck.to_logits.weight.abs().max()
    assert 20 * 0.5 / 8**0.5 < gain <= 20 / 8**0.5  # PyTorch's uniform, scaled
    model.save_pretrained(tmp_path / "saved")
    again = DiscoDVT.from_pretrained(tmp_path / "saved")
    assert torch.equal(again.bottleneck.to_logits.weight, model.bottleneck.to_logits.weight)  # not scaled twice


def test_another_bottleneck_keeps_codes_of_its_kind_and_begins_others_anew(model):
    before = model.bottleneck
    kept, new = ("straight-through", "bits") if model.config.bottleneck == "gumbel" else ("bits", "gumbel")
    model.change_bottleneck(kept)
    assert all(
        torch.equal(one, other) for one, other in zip(model.bottleneck.parameters(), before.parameters(), strict=True)
    )
    model.change_bottleneck(new)
    assert model.config.bottleneck == new
    assert type(model.bottleneck) is not type(before)


def test_a_checkpoint_as_the_hub_has_it_opens(bart, tmp_path):
    """facebook/bart-base carries generation settings in its config and names its architecture BartModel."""
    bart.model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"num_beams": 4, "no_repeat_ngram_size": 3, "early_stopping": True, "forced_bos_token_id": 0,
               "task_specific_params": {"summarization": {"num_beams": 4}}}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = DiscoDVT.from_bart(tmp_path, **SIZES)
    assert torch.equal(model.generator.model.shared.weight, bart.model.shared.weight)
    x, x_mask = prompts(4)
    model.generate(x, attention_mask=x_mask, plan=torch.tensor([[1]]), max_new_tokens=3)


def test_sizes_at_bart_base():
    """PAPER_NOTES: posterior 81,920,256; generator 139,420,416; new 2,558,229; prior 139,619,328."""
    with torch.device("meta"):
        model, prior = DiscoDVT(DiscoDVTConfig()), PlanPrior(PlanPriorConfig())
    model.tie_weights()
    prior.tie_weights()
    sizes = {name: sum(p.numel() for p in module.parameters()) for name, module in model.named_children()}
    assert sizes.pop("posterior") == 81_920_256
    assert sizes.pop("generator") == 139_420_416
    assert sum(sizes.values()) == 2_558_229
    assert sum(p.numel() for p in prior.parameters()) == 139_619_328


@pytest.fixture
def prior() -> PlanPrior:
    torch.manual_seed(2)
    shape = BartConfig(**SHAPE)
    return PlanPrior(PlanPriorConfig.from_backbone_config(shape, num_codes=12, max_codes=9)).eval()


def test_the_prior_never_draws_bos_or_pad(prior):
    x, x_mask = prompts(7, 4)
    torch.manual_seed(0)
    plans = prior.generate(
        x, attention_mask=x_mask, do_sample=True, temperature=100.0, num_return_sequences=50, min_new_tokens=6
    )
    assert (plans[:, 0] == 12).all()
    drawn = plans[:, 1:]
    assert drawn.shape[1] == 10  # nine codes and an end
    assert (drawn != 12).all()
    after_end = (drawn == 13).cumsum(1) - (drawn == 13).long() > 0
    assert (drawn[~after_end] != 14).all()
    assert (drawn[:, :6] < 12).all()


def test_the_prior_cached_uncached_saved_and_tied(prior, tmp_path):
    x, x_mask = prompts(7, 4)
    runs = [prior.generate(x, attention_mask=x_mask, do_sample=False, use_cache=use) for use in (True, False)]
    assert torch.equal(*runs)
    prior.save_pretrained(tmp_path)
    opened = AutoModel.from_pretrained(tmp_path)
    assert type(opened) is PlanPrior
    assert opened.head.weight is opened.decoder.embed_tokens.weight
    assert opened.encoder.embed_tokens.num_embeddings == 60
    codes = torch.tensor([[12, 3, 4]])
    theirs = opened(x[:1], x_mask[:1], decoder_input_ids=codes).logits
    torch.testing.assert_close(theirs, prior(x[:1], x_mask[:1], decoder_input_ids=codes).logits)
