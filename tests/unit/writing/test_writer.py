"""The writer: the same story alone, in any batch, streamed or not; lengths, plans, and what it refuses."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor
from unit.writing.toy_writer import CODES, MOST_CODES, TOKENS_PER_CODE, save_bart, save_causal_writer, save_writer

from discodvt.errors import BadRequest
from discodvt.writing import Request, SamplingParams, Story, StoryWriter
from discodvt.writing.decoding import Draft, next_symbols
from discodvt.writing.story import NO_CODE

PROMPTS = (
    "The fox who lost his hat",
    "Ann",
    "A café, and a very long prompt that fills more than one window of it all",
)
SETTINGS = SamplingParams(min_tokens=3, max_tokens=40)


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return save_writer(tmp_path_factory.mktemp("writer"))


@pytest.fixture(scope="module")
def writer(directory) -> StoryWriter:
    return StoryWriter.from_pretrained(directory)


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    return [Request(PROMPTS[index % 3], index=index, seed=4) for index in range(12)]


@pytest.fixture(scope="module")
def alone(writer, requests) -> list[Story]:
    return [story for request in requests for story in writer.write_many([request], SETTINGS, batch_size=1)]


@pytest.mark.parametrize("batch_size", [1, 5, 32])
def test_a_story_is_the_same_in_any_batch(writer, requests, alone, batch_size):
    written = list(writer.write_many(iter(requests), SETTINGS, batch_size=batch_size))
    assert sorted(written, key=lambda story: story.index) == alone
    assert len({story.text for story in written}) > 10
    assert {story.finish for story in written} == {"end", "length"}


def test_a_story_is_the_same_in_any_order_and_streamed(writer, requests, alone):
    backwards = writer.write_many(reversed(requests), SETTINGS, batch_size=7)
    assert sorted(backwards, key=lambda story: story.index) == alone
    for request, story in zip(requests, alone, strict=True):
        stream = writer.stream(request, SETTINGS)
        with pytest.raises(BadRequest, match="not written yet"):
            _ = stream.story
        assert "".join(stream) == story.text
        assert stream.story == story
        assert list(stream) == []
        assert stream.story == story


def test_segments_of_a_stream_are_those_of_its_text_so_far(writer, requests):
    for request in requests[:6]:
        stream = writer.stream(request, SETTINGS)
        growing = []
        for piece in stream:
            assert stream.text.endswith(piece)
            assert stream.segments[-1].end == len(stream.text)
            growing.append(stream.segments)
        assert len(growing) > 2
        for segments in growing:
            assert segments[:-1] == stream.story.segments[: len(segments) - 1]
        assert (stream.text, stream.segments) == (stream.story.text, stream.story.segments)


def test_writing_leaves_pytorch_as_it_found_it(writer, requests):
    threads = torch.get_num_threads()
    next(writer.write_many(requests, SETTINGS)), next(iter(writer.stream(requests[0], SETTINGS)))  # left unfinished
    assert (torch.backends.mkldnn.enabled, torch.get_num_threads()) == (True, threads)
    with pytest.raises(IndexError):
        writer.generator_engine.new_cache(1, 9).add_row(0, [10**6], None, [], 9)
    assert (torch.backends.mkldnn.enabled, torch.get_num_threads()) == (True, threads)


def test_a_writer_says_whether_it_is_quantised(directory, writer):
    assert (writer.int8, StoryWriter.from_pretrained(directory, int8=True).int8) == (False, True)


def test_write_is_one_of_many(writer, alone):
    assert writer.write(PROMPTS[1], seed=4, index=1, min_tokens=3, max_tokens=40) == alone[1]
    assert writer.write(PROMPTS[1], seed=5, index=1, min_tokens=3, max_tokens=40) != alone[1]


def test_one_seed_draws_other_plans_for_other_prompts(writer):
    """Streams keyed by seed and index only made plans of 15 prompts agree at 55% of their positions."""
    plans = [writer.write(f"prompt {number}", seed=0, min_codes=MOST_CODES, max_tokens=4).plan for number in range(15)]
    pairs = [(one, other) for place, one in enumerate(plans) for other in plans[:place]]
    assert np.mean([np.mean(np.equal(one, other)) for one, other in pairs]) < 0.3


def test_segments_tile_the_text(alone):
    for story in alone:
        edges = [edge for segment in story.segments for edge in (segment.start, segment.end)]
        assert edges[:1] + edges[-1:] == [0, len(story.text)]
        assert edges[1:-1:2] == edges[2::2]
        codes = tuple(segment.code for segment in story.segments)
        reached = codes[:-1] if codes[-1] == NO_CODE else codes
        assert set(reached) <= set(story.plan)
        assert story.text == story.text.strip()


def test_a_given_plan_is_followed_and_leaves_the_text_its_stream(writer, alone):
    story = alone[0]
    again = writer.write(story.prompt, seed=4, plan=story.plan, min_tokens=3, max_tokens=40)
    assert again == story
    other = writer.write(story.prompt, seed=4, plan=[1, 2, 3], min_tokens=30, max_tokens=40)
    assert other.plan == (1, 2, 3)
    assert other.text != story.text
    assert [segment.code for segment in other.segments][:4] == [1, 2, 3, NO_CODE]


def test_lengths_are_kept(writer, requests):
    exact = SamplingParams(min_tokens=17, max_tokens=17, min_codes=4, max_codes=4, top_p=1.0)
    for story in writer.write_many(requests, exact):
        assert story.finish == "length"
        assert len(story.plan) == 4
    default = [story.plan for story in writer.write_many(requests)]
    assert max(map(len, default)) == MOST_CODES
    assert all(plan and max(plan) < CODES for plan in default)
    assert writer.lengths.max_tokens == MOST_CODES * TOKENS_PER_CODE


def test_greedy_and_cold_take_no_chances(writer):
    settled = {"plan_temperature": 0.0, "max_tokens": 30}
    greedy = writer.write(PROMPTS[0], greedy=True, seed=1, **settled)
    assert greedy.text == writer.write(PROMPTS[0], temperature=0.0, seed=2, **settled).text
    assert greedy.text == writer.write(PROMPTS[0], top_k=1, seed=3, **settled).text


def test_a_repetition_penalty_is_hugging_faces():
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 12)).astype(np.float32))
    symbols = [[3, 5, 5], [7]]
    ours = logits.numpy().copy()
    params = SamplingParams(temperature=0, repetition_penalty=1.3)
    drafts = [Draft(prompt=[], key=0, fewest=0, most=9, params=params, symbols=each) for each in symbols]
    next_symbols(ours, drafts, start=1, end=2)
    penalty = RepetitionPenaltyLogitsProcessor(1.3)
    for row, used in enumerate(symbols):
        expected = penalty(torch.tensor([[1, *used]]), logits[row : row + 1].clone())
        np.testing.assert_allclose(ours[row], expected[0].numpy(), rtol=1e-6)


def test_a_repetition_penalty_makes_repetition_rarer(writer):
    def distinct(penalty: float) -> int:
        stories = writer.write_many(
            [Request("Ann", index=n) for n in range(8)],
            SamplingParams(min_tokens=36, greedy=True, repetition_penalty=penalty),
        )
        return sum(len(set(story.text)) for story in stories)

    assert distinct(5.0) > 1.2 * distinct(1.0)


def test_a_model_keeps_a_temperature_and_a_penalty_of_its_own(directory, writer, tmp_path):
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"temperature": 0.5, "repetition_penalty": 3.0}))
    own = StoryWriter.from_pretrained(tmp_path)
    asked = {"temperature": 0.5, "repetition_penalty": 3.0}
    assert own.write("Ann", max_tokens=30).text == writer.write("Ann", max_tokens=30, **asked).text
    paper = {"temperature": 1.0, "repetition_penalty": 1.0}
    assert own.write("Ann", max_tokens=30, **paper).text == writer.write("Ann", max_tokens=30).text
    assert own.write("Ann", max_tokens=30).text != writer.write("Ann", max_tokens=30).text


def test_a_model_keeps_a_strength_of_its_plans(directory, writer, tmp_path):
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"plan_strength": 0.4}))
    own = StoryWriter.from_pretrained(tmp_path)
    asked = {"plan": (3, 1, 4, 1), "min_tokens": 20, "max_tokens": 30, "greedy": True}
    weaker = own.write("Ann", **asked).text
    assert weaker == writer.write("Ann", plan_strength=0.4, **asked).text != writer.write("Ann", **asked).text
    assert own.write("Ann", plan_strength=1, **asked).text == writer.write("Ann", **asked).text


def test_without_strength_the_plan_is_not_heard(writer):
    asked = {"min_tokens": 20, "max_tokens": 30, "greedy": True}
    heard = {writer.write("Ann", plan=plan, **asked).text for plan in ((3, 1, 4, 1), (2, 2, 2, 2))}
    unheard = {writer.write("Ann", plan=plan, plan_strength=0, **asked).text for plan in ((3, 1, 4, 1), (2, 2, 2, 2))}
    assert len(heard) == 2
    assert len(unheard) == 1


def test_after_its_plan_a_text_goes_on_without_a_latent_as_long_as_the_models_tail(directory, writer, tmp_path):
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"plan_tail": 2}))
    own, size = StoryWriter.from_pretrained(tmp_path), writer.latent.tokens_per_code
    usual, tailed = (each.latent((3, 1), 6 * size) for each in (writer, own))
    assert torch.equal(tailed[: 2 * size], usual[: 2 * size])
    assert not tailed[2 * size : 4 * size].any()
    assert torch.equal(tailed[4 * size :], usual[4 * size :])
    assert usual[2 * size : 4 * size].any(dim=1).all()
    padding = own.latent.num_codes
    plans = torch.tensor([[3, 1, padding], [3, 1, 4]])
    by_model = own.model._latent_to_write(plans, 6 * size)
    for row, plan in zip(by_model, ((3, 1), (3, 1, 4)), strict=True):
        assert torch.allclose(row, own.latent(plan, 6 * size), atol=1e-6)


def test_a_text_that_had_to_end_after_the_tail_ends_with_a_sentence(directory, writer, tmp_path):
    """The padding code's latent may end it anywhere; what ended by itself stays as it is."""
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"plan_tail": 1}))
    text = "The fox ran. Then he"
    symbols = writer.tokenizer(" " + text, add_special_tokens=False).input_ids
    own = StoryWriter.from_pretrained(tmp_path)
    for codes, expected in ((1, "The fox ran."), (len(symbols) // TOKENS_PER_CODE + 1, text)):
        draft = own.draft(Request("Ann", plan=(3,) * codes), SamplingParams(max_tokens=30))
        draft.symbols, draft.ended = list(symbols), True
        assert own.story(draft).text == expected
        assert writer.story(draft).text == text  # a model without a tail


def test_the_plan_of_a_story_is_the_posteriors(writer):
    text = "Once there was a fox. He lost his hat."
    ids = writer.tokenizer(" " + text, add_special_tokens=False).input_ids
    read = torch.tensor([[0, *ids]])
    assert writer.plan_of(text) == tuple(writer.model.plan(read, torch.ones_like(read))[0].tolist())
    with pytest.warns(UserWarning, match="was read up to subword 35"):
        assert len(writer.plan_of(text * 9)) == MOST_CODES


def test_a_long_prompt_is_cut_with_a_warning(writer):
    # `fox` is two subwords here
    chosen = {"max_tokens": 5, "min_tokens": 1, "greedy": True, "plan_temperature": 0.0}
    with pytest.warns(UserWarning, match="cut to the model's 78"):
        long = writer.write("fox " * 5000, **chosen)
    assert long.text == writer.write("fox " * (78 // 2), **chosen).text


def test_half_precision_is_opened_as_float32(tmp_path, directory):
    save_writer(tmp_path, dtype=torch.float16)
    story = StoryWriter.from_pretrained(tmp_path).write("Ann", max_tokens=30)
    assert story.text
    assert StoryWriter.from_pretrained(tmp_path).generator_engine.decoder.positions.dtype == torch.float32


def test_int8_stories_do_not_depend_on_their_batch_either(directory, requests, monkeypatch):
    monkeypatch.setattr("discodvt.writing.engines.layers.LARGE", 1)
    monkeypatch.setattr("discodvt.writing.engines.layers.LARGE_INT8", 1)
    quantised = StoryWriter.from_pretrained(directory, int8=True)
    batches = [
        sorted(quantised.write_many(requests[:8], SETTINGS, batch_size=size), key=lambda story: story.index)
        for size in (1, 3)
    ]
    assert batches[0] == batches[1]


def test_a_plain_bart_writes_without_a_plan(tmp_path):
    bart = StoryWriter.from_pretrained(save_bart(tmp_path))
    story = bart.write("The fox", max_tokens=20)
    assert story.text
    assert (story.plan, story.segments, bart.prior) == ((), (), None)
    with pytest.raises(BadRequest, match="follows no plan"):
        bart.write("The fox", plan=[1])
    with pytest.raises(BadRequest, match="knows no plans"):
        bart.plan_of("The fox")


def test_without_a_prior_every_request_brings_its_plan(tmp_path):
    writer = StoryWriter.from_pretrained(save_writer(tmp_path, prior=False))
    assert writer.write("Ann", plan=[1, 2]).text
    with pytest.raises(BadRequest, match="train the `prior` stage"):
        writer.write("Ann")


@pytest.mark.parametrize(
    ("prompt", "plan", "told"),
    [
        ("  \n", None, "an empty prompt"),
        ("Ann", (3, CODES), f"code {CODES} is none of the model's {CODES}"),
        ("Ann", (-1,), "code -1"),
        ("Ann", (1,) * 21, "21 codes; the model's positions hold 1 to 20"),
        ("Ann", (), "0 codes"),
    ],
)
def test_requests_that_cannot_be(writer, prompt, plan, told):
    with pytest.raises(BadRequest, match=told):
        writer.write(prompt, plan=plan)
    with pytest.raises(BadRequest, match=told):
        writer.stream(Request(prompt, plan=plan))  # before the first piece


def test_directories_that_are_no_writer(directory, tmp_path):
    def refused(source, told: str) -> None:
        with pytest.raises(BadRequest, match=told):
            StoryWriter.from_pretrained(source)

    refused(tmp_path / "nowhere", "no such directory")
    refused(tmp_path, "no config.json")
    refused(directory / "prior", "a prior alone")
    broken = tmp_path / "broken"
    shutil.copytree(directory, broken)
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"decoder_layers": 3}))
    refused(broken, "decoder_layers is 3; expected 2, as in the weights")
    (broken / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    refused(broken, "it lacks the weights")
    for key, wrong in (
        ("plan_strength", '"x"'),
        ("plan_tail", "1.5"),
        ("latent_scale", "NaN"),
        ("conv_layers", "null"),
    ):
        (broken / "config.json").write_text(json.dumps(config | {key: json.loads(wrong)}))
        refused(broken, f"{key} is {wrong}; expected a (whole )?number of 0 or more")
    (broken / "config.json").write_text(json.dumps({name: config[name] for name in config if name != "conv_layers"}))
    refused(broken, "conv_layers is null; expected a whole number")
    (broken / "config.json").write_text("[")
    refused(broken, "no JSON object")
    (broken / "config.json").write_text(json.dumps(config))
    (broken / "model.safetensors").write_bytes(b"nothing")
    refused(broken, "cannot be opened")
    (broken / "model.safetensors").rename(broken / "pytorch_model.bin")
    refused(broken, "no weights in safetensors")


@pytest.mark.parametrize(
    ("key", "right"), [("num_attention_heads", 4), ("num_key_value_heads", 2), ("num_hidden_layers", 3)]
)
def test_sizes_of_a_causal_model_that_its_weights_do_not_have_are_refused(tmp_path, key, right):
    save_causal_writer(tmp_path, "llama", prior=False)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["backbone_config"][key] == right
    config["backbone_config"][key] = 1
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadRequest, match=f"{key} of config.json is 1; expected {right}, as in the weights"):
        StoryWriter.from_pretrained(tmp_path)


def test_bad_parameters_are_refused_before_anything_is_written(writer):
    with pytest.raises(BadRequest, match="80 positions"):
        writer.write_many(iter(()), replace(SETTINGS, max_tokens=81))
    with pytest.raises(BadRequest, match="`batch_size` 0"):
        writer.write_many(iter(()), SETTINGS, batch_size=0)
