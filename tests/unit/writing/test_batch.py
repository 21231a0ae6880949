"""Batches that requests join and leave: each story stays what it is alone, whoever comes, goes or is forced."""

from dataclasses import replace

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from unit.writing.toy_writer import CODES, MOST_CODES, causal_shape, open_writer

from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT
from discodvt.writing import Request, SamplingParams, Story, StoryStream, StoryWriter

PARAMS = SamplingParams(min_tokens=3, max_tokens=30)
KINDS = (
    PARAMS,
    replace(PARAMS, temperature=0.5, top_k=7),
    replace(PARAMS, greedy=True, plan_temperature=0.0),
    replace(PARAMS, top_p=0.4, repetition_penalty=1.4, max_tokens=21, min_codes=4),
)
REQUESTS = [Request(("The fox who lost his hat", "Ann")[index % 2], index=index, seed=5) for index in range(8)]


@pytest.fixture(scope="module", params=["bart", "llama"])
def writer(request, tmp_path_factory) -> StoryWriter:
    return open_writer(tmp_path_factory.mktemp("writer"), request.param)


def alone(writer: StoryWriter, request: Request, params: SamplingParams = PARAMS) -> Story:
    (story,) = writer.write_many([request], params, batch_size=1)
    return story


def test_more_rows_than_memory_holds_are_not_made(writer):
    """`--batch-size` far above the number of stories: all at a time."""
    (story,) = writer.write_many(REQUESTS[:1], PARAMS, batch_size=10**12)
    assert story.text == alone(writer, REQUESTS[0]).text


def test_requests_of_all_kinds_join_and_leave_at_any_step(writer):
    asked = [(request, KINDS[number % 4]) for number, request in enumerate(REQUESTS)]
    expected = {request.index: alone(writer, request, params) for request, params in asked}
    batch, streams, stories = writer.batch(3), {}, {}
    cancelled = batch.add(Request("Ann", index=99), PARAMS)
    waiting = batch.add(Request("Ann", index=98), PARAMS)
    for number in range(400):
        if number % 5 == 0 and asked:
            request, params = asked.pop(0)
            draft = batch.add(request, params)
            streams[request.index] = StoryStream(writer, draft, batch), []
        if number == 2:
            batch.cancel(waiting)
        if number == 18:
            assert not cancelled.done
            batch.cancel(cancelled)
            batch.cancel(cancelled)  # twice is once
        for draft in batch.step():
            assert draft.request.index != 98 or number < 2
            assert draft is not cancelled or number < 18
            if draft is not cancelled and draft is not waiting:
                stream, pieces = streams[draft.request.index]
                pieces.append(stream.grow())
                if draft.done:
                    stories[draft.request.index] = writer.story(draft)
        if not batch and not asked:
            break
    assert stories == expected
    assert {index: "".join(pieces) for index, (_, pieces) in streams.items()} == {
        index: story.text for index, story in expected.items()
    }


def test_locked_codes_leave_the_others_their_streams(writer):
    """The places before the first lock are drawn as without it; the lock holds, and the plan reaches it."""
    for request in REQUESTS[:4]:
        drawn = alone(writer, request).plan
        place, code = MOST_CODES - 2, (drawn[-1] + 1) % CODES
        locked = alone(writer, replace(request, locks=((place, code),))).plan
        assert locked[place] == code
        assert locked[: min(len(drawn), place)] == drawn[:place]
        same = alone(writer, replace(request, locks=tuple(enumerate(drawn[:2]))))
        assert same == alone(writer, request)


def test_a_story_begins_with_what_is_given(writer):
    story = alone(writer, replace(REQUESTS[0], begin_with="Once there was a fox. "))
    assert story.text.startswith("Once there was a fox.")
    assert len(story.text) > len("Once there was a fox.")
    assert story.plan == alone(writer, REQUESTS[0]).plan
    edges = [(segment.start, segment.end) for segment in story.segments]
    assert edges[0][0] == 0
    assert edges[-1][1] == len(story.text)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"locks": ((0, CODES),)}, f"`locks`: code {CODES} is none"),
        ({"locks": ((MOST_CODES, 1),)}, f"`locks`: place {MOST_CODES}"),
        ({"locks": ((0, 1),), "plan": (1,)}, "`locks` and `plan`"),
        ({"begin_with": "fox " * 40}, "`begin_with`: 80 subwords, of at most 30 of a story"),
    ],
)
def test_requests_that_cannot_be_are_refused_when_added(writer, changes, told):
    with pytest.raises(BadRequest, match=told):
        writer.batch(2).add(replace(REQUESTS[0], **changes), PARAMS)


def test_segments_are_exact_with_sentencepiece_and_byte_fallback(tmp_path):
    """Subwords have their bytes, also those of a character that is spelled in bytes."""
    letters = ["▁", *"abcdefgh.", "▁ab", "cd", "ef"]
    names = ["<s>", "<pad>", "</s>", "<sep>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    merges = [("▁", "a"), ("c", "d"), ("e", "f")]
    vocab = {name: number for number, name in enumerate([*names, "▁a"])}
    merges += [("▁a", "b")]
    bpe = Tokenizer(models.BPE(vocab=vocab, merges=merges, byte_fallback=True))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    marks = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    bpe.decoder = decoders.Sequence(marks)
    bpe.add_special_tokens([AddedToken(name, special=True) for name in names[:4]])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    torch.manual_seed(0)
    sizes = {"code_width": 8, "conv_channels": 8, "conv_layers": 2, "relation_width": 4, "num_relations": 3}
    shape = causal_shape("llama", len(tokenizer))
    DiscoDVT.from_backbone(shape, num_codes=CODES, separator_token_id=3, **sizes).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    writer = StoryWriter.from_pretrained(tmp_path)
    assert writer.prompt_ids("ab")[1:] == [vocab["▁ab"]]  # one space, not two
    draft = writer.draft(Request("ab", plan=(1, 2, 3), begin_with="abcd é🦊 ef"), PARAMS)
    draft.symbols, draft.ended = list(draft.forced.values()), True
    story = writer.story(draft)
    assert story.text == "abcd é🦊 ef"
    # ▁ab cd ▁ C3 | A9 F0 9F A6 | 8A ▁ ef: a character belongs to the code its last byte is written under
    assert [(s.code, story.text[s.start : s.end]) for s in story.segments] == [(1, "abcd "), (2, "é"), (3, "🦊 ef")]
