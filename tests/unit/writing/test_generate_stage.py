"""The generate stage with a writer that finishes stories in any order: nothing is lost, doubled or out of place."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from unit.writing.toy_writer import save_bart, save_causal_model

from discodvt.errors import BadRequest
from discodvt.stored_weights import writer_hash
from discodvt.writing.generate_stage import _files, in_order, read_stories, write_stories
from discodvt.writing.prompts import typed_prompts
from discodvt.writing.sampling import SamplingParams
from discodvt.writing.sharded import WriterSource, _open, _Shard, _write_shard
from discodvt.writing.story import Request, Segment, Story

PROMPTS = typed_prompts([f"prompt {number}" for number in range(6)])
IDS = [f"{prompt}#{number}" for prompt in range(1, 7) for number in (1, 2)]


class Scribe:
    """A writer whose stories tell their request; a batch finishes in an order of its own."""

    name = "scribe"
    directory = Path("nowhere")
    int8 = False
    engine = "bart"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def write_many(self, requests: Iterable[Request], params: SamplingParams, *, batch_size: int) -> Iterator[Story]:
        batch = []
        for request in requests:
            if request.plan and max(request.plan) > 9:
                raise BadRequest("code 10 is out of range")
            self.asked.append(request.index)
            text = f"{request.prompt}, {request.seed}, {request.index}."
            plan = request.plan or (1, 2)
            segments = (Segment(plan[0], 0, 3), Segment(-1, 3, len(text)))
            fields = (request.id, request.prompt, text, plan, request.seed, self.name, "end", segments)
            batch.append(Story(*fields, index=request.index))
            if len(batch) == batch_size:
                yield from random.Random(batch_size).sample(batch, len(batch))
                batch = []
        yield from reversed(batch)


def write(writer: Scribe, path=None, **changes) -> Iterator[Story]:
    options = {"stories_each": 2, "seed": 3, "batch_size": 5, "output": path} | changes
    return write_stories(writer, PROMPTS, SamplingParams(), **options)


def test_stories_come_in_the_order_they_were_asked_for():
    records = list(write(Scribe()))
    assert [record.id for record in records] == IDS
    assert [record.text for record in records] == [f"prompt {n // 2}, 3, {n}." for n in range(12)]
    assert records[0].segments == ((1, 0, 3), (-1, 3, 15))
    assert {record.model for record in records} == {"scribe"}


@pytest.mark.parametrize("stop", range(13))
def test_stopped_after_any_story_it_resumes_and_writes_no_story_twice(tmp_path, stop):
    writer, path = Scribe(), tmp_path / "stories.jsonl"
    for number, _ in enumerate(write(writer, path), start=1):
        if number == stop:
            break
    held = len(path.read_text().splitlines())
    writer.asked = []
    records = list(write(writer, path, batch_size=4))
    assert records == list(write(Scribe())) == list(read_stories(path))
    assert writer.asked == list(range(held, 12))


def test_the_files_of_the_model_are_part_of_the_request(tmp_path):
    writer, path = Scribe(), tmp_path / "stories.jsonl"
    writer.directory = tmp_path / "model"
    weights = writer.directory / "prior" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"old")
    list(write(writer, path))
    weights.write_bytes(b"new")
    with pytest.raises(BadRequest, match=r"model_files\.prior/model\.safetensors"):
        list(write(writer, path))


def test_stories_of_quantised_weights_are_others(tmp_path):
    writer, path = Scribe(), tmp_path / "stories.jsonl"
    list(write(writer, path))
    writer.int8 = True
    with pytest.raises(BadRequest, match="int8: false there, true asked for"):
        list(write(writer, path))


def test_a_request_the_writer_refuses_leaves_no_file(tmp_path):
    with pytest.raises(BadRequest, match="out of range"):
        list(write(Scribe(), tmp_path / "stories.jsonl", plan=(10,)))
    assert list(tmp_path.iterdir()) == []


def test_in_order_holds_back_only_what_must_wait():
    stories = [Story("", "p", "", (), 0, "scribe", "end", index=index) for index in (4, 3, 6, 5)]
    assert [story.index for story in in_order(stories, 3)] == [3, 4, 5, 6]


def test_workers_open_the_engine_that_was_given(tmp_path):
    directory = save_causal_model(tmp_path / "llama", "llama")
    source = WriterSource.of(str(directory), int8=False, engine="transformers", batch_size=2)
    _write_shard(source, SamplingParams(max_tokens=4), _Shard(0, (Request("Ann"),)))
    assert _open(source.model, source.int8, source.engine).engine == "transformers"


def test_a_writer_is_known_by_all_its_parts(tmp_path):
    directory = save_bart(tmp_path / "writer")
    before = writer_hash(directory), _files(directory)
    save_bart(directory / "scorers" / "entity")
    with_scorer = writer_hash(directory), _files(directory)
    (directory / "rescoring.json").write_text('{"weights": [1.0]}')
    assert len({before[0], with_scorer[0], writer_hash(directory)}) == 3
    assert {"scorers/entity/model.safetensors", "rescoring.json"} <= _files(directory).keys() - before[1].keys()
