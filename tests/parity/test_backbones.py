"""DiscoDVT around every kind of language model: with a latent of zeros it is the library's own, in any batch."""

import pytest
import torch
from tiny_bart import tiny_bart
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    PreTrainedConfig,
    Qwen3Config,
)

from discodvt.checkpoints import Checkpoint
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT
from discodvt.model.prior import load_prior, new_prior

WORDS, WIDTH, LAYERS = 60, 32, 4
_IDS = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
_COMMON = {"vocab_size": WORDS, "max_position_embeddings": 96} | _IDS
_LLAMA = _COMMON | {
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,  # far from uniform predictions, so that a mistake shows
}
SHAPES: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**_LLAMA),
    "qwen3": Qwen3Config(**_LLAMA, head_dim=8),
    "gpt2": GPT2Config(n_embd=WIDTH, n_layer=LAYERS, n_head=4, n_positions=96, initializer_range=0.2, embd_pdrop=0.0,
                       resid_pdrop=0.0, attn_pdrop=0.0, **_COMMON),
    "gemma3": Gemma3TextConfig(**_LLAMA, head_dim=8, sliding_window=16, query_pre_attn_scalar=8,
                               layer_types=["sliding_attention", "full_attention"] * 2),
    "bart": tiny_bart(WORDS, width=WIDTH, layers=2, heads=4, ffn_width=48, positions=96, dropout=0.0, init_std=0.15,
                      **_IDS),
}  # fmt: skip
SIZES = {"num_codes": 16, "code_width": 8, "conv_channels": 8, "relation_width": 6, "num_relations": 5}
CAUSAL = [name for name in SHAPES if name != "bart"]


def build(name: str, **sizes) -> DiscoDVT:
    torch.manual_seed(0)
    model = DiscoDVT.from_backbone(SHAPES[name], separator_token_id=3, **SIZES | sizes).eval()
    with torch.no_grad():
        model.up.projection.weight.normal_(std=1.5)  # heard by random weights too
    return model


@pytest.fixture(scope="module", params=SHAPES)
def model(request) -> DiscoDVT:
    name, _, bottleneck = request.param.partition(", ")
    return build(name, bottleneck=bottleneck or "gumbel")


@pytest.fixture(scope="module", params=CAUSAL)
def causal(request) -> DiscoDVT:
    return build(request.param)


def texts(model: DiscoDVT, *lengths: int, seed: int, start: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Right-padded ids that begin with `start`, and their mask."""
    ids = torch.randint(4, WORDS, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids[:, : len(start)] = torch.tensor(start)
    return ids.masked_fill(~mask, model.symbols.pad), mask.long()


def prompts(model: DiscoDVT, *lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    return texts(model, *lengths, seed=7, start=model.symbols.prompt_start)


def stories(model: DiscoDVT, *lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    return texts(model, *lengths, seed=3, start=(model.symbols.story_start,))


def test_zero_latent_is_the_librarys_model(model):
    x, x_mask = prompts(model, 7, 4)
    y, _ = stories(model, 21, 21)
    for latent in (torch.zeros(2, 21, WIDTH), None):
        ours = model(x, x_mask, decoder_input_ids=y, decoder_latent=latent).logits
        for row, length in enumerate((7, 4)):
            prompt, story = x[row : row + 1, :length], y[row : row + 1]
            if model.config.is_encoder_decoder:
                theirs = model.generator(prompt, decoder_input_ids=story).logits
            else:
                theirs = model.generator(torch.cat([prompt, story], 1)).logits[:, length:]
            torch.testing.assert_close(ours[row : row + 1], theirs, atol=1e-5, rtol=1e-5)


def test_the_latent_is_heard_at_its_own_position_and_after_it_only(model):
    x, x_mask = prompts(model, 7)
    y, _ = stories(model, 21)
    latent = torch.zeros(1, 21, WIDTH)
    plain = model(x, x_mask, decoder_input_ids=y, decoder_latent=latent).logits
    latent[0, 9] = torch.randn(WIDTH, generator=torch.Generator().manual_seed(0))
    moved = (model(x, x_mask, decoder_input_ids=y, decoder_latent=latent).logits - plain).abs().amax(-1)[0]
    assert moved[:9].max() < 1e-5
    assert moved[9] > 1e-3
    assert moved[9:].max() > 1e-3


def test_the_latent_leaves_prompt_positions_untouched(causal, monkeypatch):
    """Embeddings of the prompt go into the model as they are; those of SEP and the story carry the latent."""
    seen = []
    base = causal.generator.base_model
    monkeypatch.setattr(base, "forward", lambda **kwargs: seen.append(kwargs["inputs_embeds"]) or _stop())
    x, x_mask = prompts(causal, 7, 4)
    y, _ = stories(causal, 9, 9)
    for latent in (torch.zeros(2, 9, WIDTH), torch.ones(2, 9, WIDTH)):
        with pytest.raises(StopIteration):
            causal(x, x_mask, decoder_input_ids=y, decoder_latent=latent)
    added = (seen[1] - seen[0]).mean(-1)
    for row, length in enumerate((7, 4)):
        expected = torch.zeros(16)
        expected[length : length + 9] = 1
        torch.testing.assert_close(added[row], expected, atol=1e-5, rtol=0)


def _stop() -> None:
    raise StopIteration


def test_the_posterior_is_a_copy_of_half_the_model_that_sees_the_whole_story(model):
    y, mask = stories(model, 21, 13)
    states = model.backbone.read(model.posterior, y, mask)
    other = y.clone()
    other[0, 20] = 5 if y[0, 20] != 5 else 6
    moved = (model.backbone.read(model.posterior, other, mask) - states).abs().amax(-1)
    assert moved[0, 16:].min() > 1e-5  # within the window of local attention, positions before it see it too
    assert moved[1].max() == 0
    alone = model.backbone.read(model.posterior, y[1:, :13], mask[1:, :13])
    torch.testing.assert_close(states[1:, :13], alone, atol=1e-5, rtol=1e-5)
    whole = model.generator.get_encoder() if model.config.is_encoder_decoder else model.generator.base_model
    for name, weight in model.posterior.state_dict().items():
        assert torch.equal(weight, whole.state_dict()[name])
    if not model.config.is_encoder_decoder:
        assert model.posterior.config.num_hidden_layers == LAYERS // 2


with_bits = pytest.mark.parametrize("model", [*SHAPES, "bart, bits"], indirect=True)


@with_bits
@pytest.mark.parametrize("length", [1, 7, 8, 9, 21])
def test_right_padding_changes_no_code_loss_or_gradient(model, length):
    """Of a story alone and beside a longer one."""
    y, mask = stories(model, length, 37)
    x, x_mask = prompts(model, 5, 9)
    noise = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    real, results = -(-length // 8), []
    for padded in (False, True):
        model.zero_grad()
        size, prompt = (37, 9) if padded else (length, 5)
        story, story_mask = y[:1, :size], mask[:1, :size]
        read = model.read(story, story_mask, temperature=0.7, noise=noise[:1, : -(-size // 8)])
        states = model.decode(x[:1, :prompt], x_mask[:1, :prompt], story, read.latent, use_cache=False)
        loss = model.summed_loss(states.last_hidden_state, story.masked_fill(story_mask == 0, -100))
        loss.backward()
        gradients = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
        assert (read.codes[:, :real] < 16).all()
        assert (read.codes[:, real:] == model.config.padding_code).all()
        results.append((read.codes[:, :real], read.latent[:, :length].detach(), loss.detach(), gradients))
    (codes, latent, loss, gradients), (codes_p, latent_p, loss_p, gradients_p) = results
    within = 1 if model.config.is_encoder_decoder else 10
    assert torch.equal(codes, codes_p)
    torch.testing.assert_close(latent, latent_p, atol=1e-5, rtol=within * 1e-5)
    torch.testing.assert_close(loss, loss_p)
    assert gradients.keys() == gradients_p.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradients_p[name], gradient, atol=within * 1e-4, rtol=2e-3, msg=name)


@with_bits
def test_batched_equals_single(model):
    y, mask = stories(model, 37, 11, 24)
    x, x_mask = prompts(model, 9, 4, 6)
    together = model.read(y, mask, temperature=0.5)
    logits = model(x, x_mask, decoder_input_ids=y, decoder_latent=together.latent).logits
    plans = model.plan(y, mask)
    within = {"atol": 1e-5, "rtol": 1e-5} if model.config.is_encoder_decoder else {"atol": 2e-4, "rtol": 1e-3}
    for row, (length, prompt) in enumerate([(37, 9), (11, 4), (24, 6)]):
        here = slice(row, row + 1)
        alone = model.read(y[here, :length], mask[here, :length], temperature=0.5)
        one = model(x[here, :prompt], x_mask[here, :prompt], decoder_input_ids=y[here, :length],
                    decoder_latent=alone.latent).logits  # fmt: skip
        torch.testing.assert_close(logits[here, :length], one, **within)
        assert torch.equal(plans[here, : -(-length // 8)], alone.codes)


def left_padded(x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    order = mask.argsort(dim=1, stable=True)
    return x.gather(1, order), mask.gather(1, order)


def test_generate_cached_uncached_padded_and_by_teacher_forcing_agree(model):
    x, x_mask = prompts(model, 7, 4)
    plan = torch.tensor([[3, 1, 4], [5, 9, 16]])
    settings = {"max_new_tokens": 30, "min_new_tokens": 30, "do_sample": False}
    cached = model.write(x, x_mask, plan, **settings)
    assert cached.shape == (2, 30)
    assert torch.equal(cached, model.write(x, x_mask, plan, use_cache=False, **settings))
    others = (model.write(x, x_mask, (plan + shift) % 16, **settings) for shift in (1, 5, 9))
    assert any(not torch.equal(cached, other) for other in others)
    if not model.config.is_encoder_decoder:
        assert torch.equal(cached, model.write(*left_padded(x, x_mask), plan, **settings))
    for row, length in enumerate((7, 4)):
        alone = model.write(x[row : row + 1, :length], x_mask[row : row + 1, :length], plan[row : row + 1], **settings)
        assert torch.equal(cached[row : row + 1], alone)
    start = torch.full((2, 1), model.symbols.story_start)
    story = torch.cat([start, cached[:, :-1]], 1)
    logits = model(x, x_mask, decoder_input_ids=story, decoder_latent=model.latent(plan, 30)).logits
    logits[..., model.symbols.story_end] = float("-inf")
    assert torch.equal(logits.argmax(-1), cached)


def test_without_a_plan_greedy_text_is_the_librarys(causal):
    x, x_mask = left_padded(*prompts(causal, 7, 4))
    settings = {"max_new_tokens": 20, "do_sample": False}
    separator = torch.full((2, 1), causal.symbols.story_start)
    ids, mask = torch.cat([x, separator], 1), torch.cat([x_mask, torch.ones(2, 1, dtype=torch.long)], 1)
    theirs = causal.generator.generate(ids, attention_mask=mask, pad_token_id=1, **settings)
    assert torch.equal(causal.generate(x, attention_mask=x_mask, **settings), theirs)


def test_samples_and_beams_expand_the_plan(model):
    x, x_mask = prompts(model, 7, 4)
    plan = torch.tensor([[3, 1, 4], [5, 9, 2]])
    drawn = []
    for use_cache in (True, False):
        torch.manual_seed(5)
        drawn.append(model.write(x, x_mask, plan, max_new_tokens=20, num_return_sequences=3, use_cache=use_cache))
    assert torch.equal(*drawn)
    assert len(drawn[0]) == 6
    assert len(model.write(x, x_mask, plan, num_beams=3, max_new_tokens=10, do_sample=False)) == 2


def test_save_and_load(model, tmp_path):
    model.save_pretrained(tmp_path)
    opened = DiscoDVT.from_pretrained(tmp_path)
    assert type(AutoConfig.from_pretrained(tmp_path).backbone) is type(model.config.backbone)
    assert opened.state_dict().keys() == model.state_dict().keys()
    for name, weight in model.state_dict().items():
        assert torch.equal(opened.state_dict()[name], weight), name
    y, mask = stories(model, 21, 13)
    assert torch.equal(opened.plan(y, mask), model.plan(y, mask))
    head, table = opened.get_output_embeddings().weight, opened.get_input_embeddings().weight
    assert (head is table) == (model.get_output_embeddings().weight is model.get_input_embeddings().weight)
    assert opened.generation_config.eos_token_id == model.symbols.story_end
    if not model.config.is_encoder_decoder:
        assert type(AutoModelForCausalLM.from_pretrained(tmp_path)) is DiscoDVT


def test_a_checkpoint_gives_its_weights_and_the_latent_starts_at_the_scale_of_its_embeddings(tmp_path):
    torch.manual_seed(0)
    llama = AutoModelForCausalLM.from_config(SHAPES["llama"])
    with torch.no_grad():
        llama.model.embed_tokens.weight.mul_(0.1)
    llama.save_pretrained(tmp_path)
    model = DiscoDVT.from_backbone(tmp_path, posterior_layers=3, **SIZES)
    for name, weight in llama.state_dict().items():
        assert torch.equal(model.generator.state_dict()[name], weight)
    assert model.posterior.config.num_hidden_layers == 3
    y, mask = stories(model, 64)
    latent, embedded = model.read(y, mask).latent.detach(), llama.model.embed_tokens.weight.detach()
    assert float(latent.std()) < float(embedded.std())
    x, x_mask = prompts(model, 7)
    with torch.no_grad():
        losses = [model.summed_loss(model.decode(x, x_mask, y, given).last_hidden_state, y) / 64
                  for given in (torch.zeros_like(latent), latent)]  # fmt: skip
    assert abs(float(losses[1] - losses[0])) < 0.2


def test_the_prior_of_a_causal_model_is_that_model_with_codes_for_words(causal, tmp_path):
    prior = new_prior(causal, max_codes=9, layers=2).eval()
    assert prior.config.text_vocab_size == WORDS
    words = prior.get_input_embeddings().weight[:WORDS]
    assert torch.equal(words, causal.get_input_embeddings().weight)
    x, x_mask = prompts(causal, 7, 4)
    plans = prior.generate(x, attention_mask=x_mask, min_new_tokens=3, do_sample=False)
    assert plans.shape[1] <= 11
    assert (plans[:, 0] == prior.config.bos_token_id).all()
    assert (plans[:, 1:4] < prior.config.num_codes).all()
    assert causal.write(x, x_mask, plans[:, 1:4], max_new_tokens=5).shape == (2, 5)
    greedy = prior(x, x_mask, decoder_input_ids=plans[:, :3]).logits[..., : prior.config.num_codes].argmax(-1)
    assert torch.equal(greedy, plans[:, 1:4])  # teacher forcing without a cache agrees with `generate`
    alone = prior(x[1:, :4], x_mask[1:, :4], decoder_input_ids=plans[1:, :3]).logits
    torch.testing.assert_close(prior(x, x_mask, decoder_input_ids=plans[:, :3]).logits[1:], alone, atol=1e-5, rtol=1e-4)
    prior.save_pretrained(tmp_path)
    again = load_prior(Checkpoint.open(tmp_path))
    torch.testing.assert_close(again(x, x_mask, decoder_input_ids=plans[:, :3]).logits[1:], alone, atol=1e-5, rtol=1e-4)


def test_models_that_cannot_be_a_backbone():
    with pytest.raises(BadRequest, match="encoder-decoder other than BART"):
        DiscoDVT.from_backbone(AutoConfig.for_model("t5", d_model=16, num_layers=1, num_heads=2, d_ff=16))
    with pytest.raises(BadRequest, match="no end symbol"):
        DiscoDVT.from_backbone(LlamaConfig(**_LLAMA | {"eos_token_id": None}), **SIZES)
    with pytest.raises(BadRequest, match="no such directory"):
        DiscoDVT.from_backbone("./nowhere")
