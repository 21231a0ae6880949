"""Every engine that can run a model writes what `generate` writes, token for token, in any company."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from unit.writing.toy_writer import (
    CODES,
    MOST_CODES,
    save_bart,
    save_causal_model,
    save_causal_writer,
    save_writer,
    written,
)

from discodvt.checkpoints import Checkpoint
from discodvt.errors import BadRequest
from discodvt.writing import Request, SamplingParams, Story, StoryWriter
from discodvt.writing.engines.transformers_engine import load_model
from discodvt.writing.story_batch import StoryDraft

PROMPTS = ("The fox who lost his hat", "Ann", "Once there was a very long prompt, and it went on and on, and on.")
PLANS = ((3, 1, 4, 1, 5), (9, 2), (6, 5, 3, 5, 8, 9, 7, 9, 3, 2))
BY_LLAMA = ("llama", "llama-linear", "llama-llama3", "llama-yarn", "mistral", "qwen2", "qwen3", "smollm3")
ENGINES = dict.fromkeys(BY_LLAMA, ("llama", "transformers"))
ENGINES |= dict.fromkeys(("gpt2", "gemma3", "mistral-sliding"), ("transformers",)) | {"bart": ("bart", "transformers")}
CAUSAL = [kind for kind in ENGINES if kind != "bart"]
ROWS = [(kind, "llama") for kind in ("llama", "qwen2", "qwen3", "smollm3")]  # the others' rows are kept as Llama's
ROWS += [(kind, "transformers") for kind in ("llama", "gpt2", "gemma3", "mistral-sliding", "bart")]
ROWS += [("bart", "bart")]
GREEDY = SamplingParams(greedy=True, min_tokens=5, max_tokens=44)  # longer than the longest plan
BRIEF = replace(GREEDY, max_tokens=24)
DRAWN = SamplingParams(min_tokens=3, max_tokens=28)
REQUESTS = [Request(PROMPTS[index % 3], index=index, seed=4) for index in range(4)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    known: dict[tuple, Path] = {}

    def directory(save, kind: str) -> Path:
        if (save, kind) not in known:
            place = tmp_path_factory.mktemp(kind)
            of_bart = {save_causal_writer: save_writer, save_causal_model: save_bart}[save]
            known[save, kind] = of_bart(place) if kind == "bart" else save(place, kind)
        return known[save, kind]

    return directory


@pytest.fixture(scope="module")
def alone(saved):
    """The stories of `REQUESTS`, each written by itself and with no compiled step."""
    known: dict[tuple[str, str], list[Story]] = {}

    def stories(kind: str, engine: str) -> list[Story]:
        if (kind, engine) not in known:
            writer = StoryWriter.from_pretrained(saved(save_causal_writer, kind), engine=engine)
            known[kind, engine] = [
                story for request in REQUESTS for story in writer.write_many([request], DRAWN, batch_size=1)
            ]
            assert engine == "transformers" or not writer.generator_engine.step.compiled
        return known[kind, engine]

    return stories


def symbols(drafts: list[StoryDraft], end: int) -> list[list[int]]:
    return [draft.symbols + [end] * draft.ended for draft in drafts]


@pytest.mark.parametrize("kind", ENGINES)
def test_greedy_stories_equal_generate(saved, kind):
    directory, engines = saved(save_causal_writer, kind), ENGINES[kind]
    writers = [StoryWriter.from_pretrained(directory, engine=engine) for engine in engines]
    assert tuple(writer.engine for writer in writers) == engines
    requests = [Request(prompt, plan=plan) for prompt, plan in zip(PROMPTS, PLANS, strict=True)]
    every = [symbols(written(writer, requests, GREEDY, rows=3), writer.generator_engine.end) for writer in writers]
    model = writers[0].model
    for request, *stories in zip(requests, *every, strict=True):
        ids = torch.tensor([writers[0].prompt_ids(request.prompt)])
        told = model.write(
            ids,
            torch.ones_like(ids),
            torch.tensor([request.plan]),
            do_sample=False,
            max_new_tokens=44,
            min_new_tokens=5,
        )
        for story in stories:  # BART's have their start symbol before them
            assert story == told[0, told.shape[1] - len(story) :].tolist()
    assert len({tuple(story) for story in every[0]}) == 3


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2"])
def test_the_likeliest_plans_equal_generate(saved, kind):
    """A causal prior continues the prompt by codes; other words, bos and pad are never drawn."""
    directory = saved(save_causal_writer, kind)
    writer = StoryWriter.from_pretrained(directory)
    assert writer.prior_engine.name == ("transformers" if kind == "gpt2" else "llama")
    params = SamplingParams(plan_temperature=0.0, min_codes=4, max_tokens=1)
    prior = Checkpoint.open(directory / "prior")
    model = load_model(prior.backbone, prior.weights().under("language_model."), torch.device("cpu"))
    words = model.config.vocab_size - CODES - 3
    never = [*range(words), words + CODES, words + CODES + 2]
    for prompt, draft in zip(PROMPTS, written(writer, [Request(each) for each in PROMPTS], params), strict=True):
        ids = torch.tensor([[*writer.prompt_ids(prompt), words + CODES]])
        settings = {"do_sample": False, "max_new_tokens": MOST_CODES, "min_new_tokens": 4, "suppress_tokens": never}
        settings |= {"eos_token_id": words + CODES + 1, "pad_token_id": words + CODES + 2}
        drawn = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)[0, ids.shape[1] :] - words
        assert list(draft.plan) == [code for code in drawn.tolist() if code < CODES]


@pytest.mark.parametrize("kind", CAUSAL)
def test_a_plain_model_equals_generate(saved, kind):
    directory, requests = saved(save_causal_model, kind), [Request(prompt) for prompt in PROMPTS]
    writers = [StoryWriter.from_pretrained(directory, engine=engine) for engine in ENGINES[kind]]
    every = [symbols(written(writer, requests, BRIEF, rows=3), writer.generator_engine.end) for writer in writers]
    writer = writers[0]
    for prompt, *stories in zip(PROMPTS, *every, strict=True):
        ids = torch.tensor([[*writer.prompt_ids(prompt), writer.generator_engine.start]])
        settings = {"do_sample": False, "max_new_tokens": 24, "min_new_tokens": 5, "pad_token_id": 1}
        told = writer.model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
        assert stories == [told[0, ids.shape[1] :].tolist()] * len(writers)


@pytest.mark.parametrize(("kind", "engine"), ROWS)
def test_a_story_is_the_same_in_any_company_and_streamed(saved, alone, kind, engine):
    writer, expected = StoryWriter.from_pretrained(saved(save_causal_writer, kind), engine=engine), alone(kind, engine)
    for size in (2, 32):
        assert sorted(writer.write_many(REQUESTS, DRAWN, batch_size=size), key=lambda story: story.index) == expected
    stream = writer.stream(REQUESTS[2], DRAWN)
    assert "".join(stream) == expected[2].text
    assert stream.story == expected[2]
    assert len({story.text for story in expected}) == 4


@pytest.mark.parametrize("kind", ["llama", "llama-yarn", "qwen2", "qwen3", "smollm3", "bart"])
def test_compiled_steps_write_the_same(saved, alone, kind):
    """Along plans, drawn by a prior whose steps are compiled too; alone, in company and streamed."""
    pytest.importorskip("numba")
    compiled = StoryWriter.from_pretrained(saved(save_causal_writer, kind))
    assert compiled.generator_engine.step.compile()
    assert compiled.prior_engine.step.compile()
    expected = alone(kind, compiled.engine)
    for size in (1, 2, 32):
        found = compiled.write_many(REQUESTS, DRAWN, batch_size=size)
        assert sorted(found, key=lambda story: story.index) == expected
    stream = compiled.stream(REQUESTS[0], DRAWN)
    assert "".join(stream) == expected[0].text


@pytest.mark.parametrize(
    ("kind", "engine"), [("llama", "llama"), ("qwen3", "llama"), ("gemma3", "transformers"), ("bart", "transformers")]
)
def test_a_given_beginning_is_read_at_once_and_changes_nothing(saved, kind, engine):
    writer = StoryWriter.from_pretrained(saved(save_causal_writer, kind), engine=engine)
    (drawn,) = written(writer, [Request(PROMPTS[0], plan=PLANS[0])], replace(DRAWN, min_tokens=24))
    for given in (1, 2, 17):
        batch = writer.batch(2)
        company = batch.add(Request(PROMPTS[1]), DRAWN)
        draft = batch.add(Request(PROMPTS[0], plan=PLANS[0]), replace(DRAWN, min_tokens=24))
        draft.forced = dict(enumerate(drawn.symbols[:given]))
        batch.step()
        while not draft.symbols:
            batch.step()
        assert len(draft.symbols) == given + 1
        while batch:
            batch.step()
        assert draft.symbols == drawn.symbols
        assert company.done


def test_a_plain_bart_equals_generate(saved):
    writer = StoryWriter.from_pretrained(saved(save_causal_model, "bart"), engine="transformers")
    ours = symbols(written(writer, [Request(prompt) for prompt in PROMPTS], BRIEF), writer.generator_engine.end)
    for prompt, story in zip(PROMPTS, ours, strict=True):
        ids = torch.tensor([writer.prompt_ids(prompt)])
        settings = {"do_sample": False, "num_beams": 1, "max_new_tokens": 24, "min_new_tokens": 5}
        assert story == writer.model.generate(ids, **settings)[0, 1:].tolist()


def test_the_engine_is_the_fastest_that_can_run_the_model(saved):
    engines = {kind: StoryWriter.from_pretrained(saved(save_causal_writer, kind)).engine for kind in CAUSAL}
    assert {kind for kind, engine in engines.items() if engine == "llama"} == set(BY_LLAMA)
    assert {engine for kind, engine in engines.items() if kind not in BY_LLAMA} == {"transformers"}
    assert StoryWriter.from_pretrained(saved(save_causal_writer, "bart")).engine == "bart"


@pytest.mark.parametrize(
    ("kind", "engine", "told"),
    [
        ("gpt2", "llama", "`engine` llama cannot run .*: it is a gpt2"),
        ("mistral-sliding", "llama", "sees only the last 7 positions"),
        ("llama", "bart", "`engine` bart cannot run .*: it is a llama"),
        ("llama", "vllm", "`engine` 'vllm': expected one of bart, llama, transformers"),
    ],
)
def test_an_engine_that_cannot_run_the_model_is_refused(saved, kind, engine, told):
    with pytest.raises(BadRequest, match=told):
        StoryWriter.from_pretrained(saved(save_causal_writer, kind), engine=engine)


def test_a_prompt_leaves_room_for_the_story(saved):
    writer = StoryWriter.from_pretrained(saved(save_causal_model, "gpt2"))
    long = "fox " * 60  # two subwords each: 120 of 160 positions
    with pytest.raises(BadRequest, match=r"`max_tokens` 70: after a prompt of 121 the model has 39 positions"):
        writer.write(long, max_tokens=70)
    (draft,) = written(writer, [Request(long)], SamplingParams(min_tokens=150))
    assert len(draft.symbols) == 39
