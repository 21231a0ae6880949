"""The writer's own decoding against Hugging Face `generate`: token for token where nothing is left to chance."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BartForConditionalGeneration, GenerationConfig
from unit.writing.toy_writer import save_bart, save_writer, written

from discodvt.checkpoints import STORYTELLER
from discodvt.data.subwords import as_input
from discodvt.writing import Request, SamplingParams, StoryWriter

PROMPTS = ("The fox who lost his hat", "Ann", "Once there was a very long prompt, and it went on and on, and on.")
PLANS = ((3, 1, 4, 1, 5), (9, 2), (6, 5, 3, 5, 8, 9, 7, 9, 3, 2))


@pytest.fixture(scope="module", params=["gumbel", "bits"])
def writer(request, tmp_path_factory) -> StoryWriter:
    return StoryWriter.from_pretrained(save_writer(tmp_path_factory.mktemp("writer"), bottleneck=request.param))


@pytest.fixture(scope="module")
def shipped() -> StoryWriter:
    if not STORYTELLER.exists():
        pytest.skip("the storyteller is not in this tree")
    return StoryWriter.from_pretrained()


@pytest.fixture(scope="module")
def as_transformers_open_it(shipped: StoryWriter) -> tuple[Any, Any]:
    """The tokenizer and the model of the storyteller."""
    return AutoTokenizer.from_pretrained(shipped.directory), AutoModel.from_pretrained(shipped.directory)


@pytest.fixture(scope="module")
def bart(tmp_path_factory) -> Path:
    return save_bart(tmp_path_factory.mktemp("bart"))


def ours(writer: StoryWriter, params: SamplingParams, plans=PLANS, rows: int = 2) -> list[list[int]]:
    """The symbols of three stories, more than fit beside each other."""
    requests = [Request(prompt, plan=plan) for prompt, plan in zip(PROMPTS, plans, strict=True)]
    return [
        draft.symbols + [writer.generator_engine.end] * draft.ended for draft in written(writer, requests, params, rows)
    ]


def theirs(model, tokenizer, prompt: str, plan=None, **settings) -> list[int]:
    ids = tokenizer(as_input(prompt), return_tensors="pt")
    extra = {} if plan is None else {"plan": torch.tensor([plan])}
    start = {"decoder_start_token_id": tokenizer.bos_token_id, "max_length": None}
    return model.generate(**ids, do_sample=False, **extra, **start, **settings)[0, 1:].tolist()


@pytest.mark.parametrize(
    ("settings", "equal"),
    [
        ({"min_tokens": 5, "max_tokens": 44}, {"min_new_tokens": 5, "max_new_tokens": 44}),
        (
            {"min_tokens": 1, "max_tokens": 44, "repetition_penalty": 1.5},
            {"min_new_tokens": 1, "max_new_tokens": 44, "repetition_penalty": 1.5},
        ),
    ],
)
def test_greedy_stories_equal_generate(writer, settings, equal):
    expected = [theirs(writer.model, writer.tokenizer, prompt, plan, **equal)
                for prompt, plan in zip(PROMPTS, PLANS, strict=True)]  # fmt: skip
    assert ours(writer, SamplingParams(greedy=True, **settings)) == expected
    assert len({tuple(story) for story in expected}) == 3


def test_transformers_alone_write_the_same_greedy_texts(writer):
    """`AutoTokenizer` and `AutoModel`, as a user of transformers opens them: prompts without a space before them."""
    tokenizer, model = (kind.from_pretrained(writer.directory) for kind in (AutoTokenizer, AutoModel))
    prompts = (*PROMPTS, "A little robot wants to paint.", "Two friends find a map")
    for prompt, plan in zip(prompts, (*PLANS, (7, 7, 1), (2, 8, 5, 5)), strict=True):
        story = writer.write(prompt, plan=plan, greedy=True)
        ids = model.generate(**tokenizer(prompt, return_tensors="pt"), plan=torch.tensor([plan]), do_sample=False)
        text = tokenizer.decode(ids[0], skip_special_tokens=True).strip()
        assert text == story.text if story.finish == "end" else text.startswith(story.text)


def test_the_storyteller_writes_what_transformers_alone_write_with_it(shipped, as_transformers_open_it):
    tokenizer, model = as_transformers_open_it
    for prompt, plan in zip(PROMPTS, PLANS, strict=True):
        story = shipped.write(prompt, plan=plan, greedy=True, max_tokens=64, prompt_bias=0.0)
        ids = tokenizer(prompt, return_tensors="pt")
        settings = {"do_sample": False, "max_new_tokens": 64}
        written = model.write(ids["input_ids"], ids["attention_mask"], torch.tensor([plan]), **settings)
        text = tokenizer.decode(written[0], skip_special_tokens=True).strip()
        assert text == story.text if story.finish == "end" else text.startswith(story.text)


@pytest.mark.parametrize("in_config", [False, True])
def test_a_repetition_penalty_spares_the_prompt_through_transformers_too(shipped, as_transformers_open_it, in_config):
    """Hugging Face's counts the prompt of a causal model; the writer's, and that of a BART, does not."""
    tokenizer, model = as_transformers_open_it
    prompt, plan = "The dog and the bird and the dog", PLANS[0]
    story = shipped.write(prompt, plan=plan, greedy=True, max_tokens=40, prompt_bias=0.0, repetition_penalty=1.5)
    settings = {"do_sample": False, "max_new_tokens": 40, "repetition_penalty": 1.5}
    if in_config:
        kept = model.generation_config.to_dict()
        settings = {"generation_config": GenerationConfig.from_dict(kept | settings)}
    ids = tokenizer(prompt, return_tensors="pt")
    written = model.write(ids["input_ids"], ids["attention_mask"], torch.tensor([plan]), **settings)
    text = tokenizer.decode(written[0], skip_special_tokens=True).strip()
    assert text == story.text if story.finish == "end" else text.startswith(story.text)
    assert text != shipped.write(prompt, plan=plan, greedy=True, max_tokens=40, prompt_bias=0.0).text


def test_the_likeliest_plans_equal_generate(writer):
    check_likeliest_plans(writer)


def test_the_likeliest_plans_of_the_storyteller_equal_generate(shipped):
    check_likeliest_plans(shipped)


def check_likeliest_plans(writer: StoryWriter) -> None:
    params = SamplingParams(plan_temperature=0.0, min_codes=4, max_tokens=1)
    drawn = [draft.plan for draft in written(writer, [Request(prompt) for prompt in PROMPTS], params)]
    end = writer.prior.config.eos_token_id
    for prompt, plan in zip(PROMPTS, drawn, strict=True):
        ids = writer.tokenizer(as_input(prompt), return_tensors="pt")
        settings = {"max_new_tokens": writer.lengths.max_codes, "min_new_tokens": 4, "max_length": None}
        expected = writer.prior.generate(**ids, do_sample=False, **settings)[0, 1:].tolist()
        assert list(plan) == [code for code in expected if code != end]


def test_a_plain_bart_equals_generate(bart):
    writer = StoryWriter.from_pretrained(bart)
    expected = [theirs(writer.model, writer.tokenizer, prompt, max_new_tokens=50, min_new_tokens=9)
                for prompt in PROMPTS]  # fmt: skip
    assert ours(writer, SamplingParams(greedy=True, max_tokens=50, min_tokens=9), plans=(None,) * 3) == expected


def test_a_checkpoint_as_the_hub_has_it_writes_the_same(bart, tmp_path):
    """facebook/bart-base is stored as a BartModel: other names, no bias of the logits."""
    model = BartForConditionalGeneration.from_pretrained(bart)
    model.model.save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((bart / file).read_bytes())
    one, other = (StoryWriter.from_pretrained(path).write("Ann saw a fox", max_tokens=40) for path in (bart, tmp_path))
    assert one.text == other.text


def test_latent_and_prompt_are_read_as_by_the_model(writer):
    for plan in PLANS:
        for length in (1, 17, 64):
            expected = writer.model.latent(torch.tensor([plan]), length)[0]
            torch.testing.assert_close(writer.latent(plan, length), expected, atol=1e-5, rtol=1e-5)
    ids = torch.tensor(writer.prompt_ids(PROMPTS[2]))
    expected = writer.model.get_encoder()(ids[None]).last_hidden_state[0]
    torch.testing.assert_close(writer.generator_engine.encoder(ids), expected, atol=1e-5, rtol=1e-5)
    assert ids.tolist() == writer.tokenizer(as_input(PROMPTS[2])).input_ids


def test_int8_is_close(writer, monkeypatch):
    monkeypatch.setattr("discodvt.writing.engines.layers.LARGE", 1)
    monkeypatch.setattr("discodvt.writing.engines.layers.LARGE_INT8", 1)
    quantised = StoryWriter.from_pretrained(writer.directory, int8=True)
    ids = torch.tensor(writer.prompt_ids(PROMPTS[2]))
    exact, close = (each.generator_engine.encoder(ids) for each in (writer, quantised))
    assert not torch.equal(exact, close)
    assert (exact - close).abs().mean() < 0.05 * exact.abs().mean()


def test_texts_are_those_of_the_tokenizer(writer):
    wild = SamplingParams(top_p=1.0, temperature=3.0, min_tokens=60, max_tokens=60)  # all kinds of subwords are drawn
    (draft,) = written(writer, [Request("Ann", plan=(1, 2))], wild)
    draft.ended = True  # nothing is cut
    assert writer.story(draft).text == writer.tokenizer.decode(draft.symbols, skip_special_tokens=True).strip()
