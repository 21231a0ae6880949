"""The generate command on a tiny random writer: files killed and resumed, JSON, pages, plans, wrong requests."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import program
import pytest
import torch
from pipeline.toy_corpus import story
from tiny_bart import tiny_bart
from transformers import BartForConditionalGeneration

from discodvt.data.subwords import train_tokenizer
from discodvt.executors import local
from discodvt.model import DiscoDVT, PlanPrior, PlanPriorConfig
from discodvt.writing import sharded
from discodvt.writing.generate_stage import StoriesFile, read_stories

PROMPTS = ("A day with Ann", "A day with Ben", "The fox's hat")
SHORT = ("--min-tokens", 8, "--max-tokens", 40, "--max-codes", 4)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """`writer`, `bare` (no prior) and `bart` (no plan), with random weights."""
    directory = tmp_path_factory.mktemp("models")
    tokenizer = train_tokenizer((str(story(number)["story"]) for number in range(40)), 300)
    torch.manual_seed(0)
    shape = tiny_bart(300)
    bart = BartForConditionalGeneration(shape)
    plain = [bool(re.fullmatch(r"Ġ[A-Za-z]+|\.", token)) for token in tokenizer.convert_ids_to_tokens(range(300))]
    bart.final_logits_bias[0, ~torch.tensor(plain)] = -1e4  # words and full stops: what random weights say is printable
    bart.final_logits_bias[0, tokenizer.eos_token_id] = 0.5
    model = DiscoDVT.from_bart(bart, num_codes=16, code_width=8, conv_channels=8, relation_width=8)
    prior = PlanPrior(PlanPriorConfig.from_backbone_config(shape, num_codes=16, max_codes=8))
    for name, saved in (("writer", model), ("bare", model), ("bart", bart)):
        saved.save_pretrained(directory / name)
        tokenizer.save_pretrained(directory / name)
    prior.save_pretrained(directory / "writer" / "prior")
    return directory


@pytest.fixture
def run(models):
    """Run the command in this process; its exit code, standard output and standard error."""

    def command(*arguments: object, model: str | Path = "writer") -> tuple[int, str, str]:
        result = program.run("generate", "--model", models / model, *arguments)
        return result.returncode, result.stdout, result.stderr

    return command


@pytest.fixture
def refused(run):
    def check(message: str, *arguments: object, model: str | Path = "writer") -> None:
        code, out, err = run(*arguments, model=model)
        assert (code, out) == (2, ""), err
        assert re.fullmatch(f"discodvt: [^\n]*{message}[^\n]*\n", err), err

    return check


def test_stories_to_prompts_as_json_lines_and_nothing_else(run):
    code, out, err = run(*PROMPTS[:2], "-n", 2, "--json", "--seed", 5, *SHORT)
    assert (code, err) == (0, "")
    records = [json.loads(line) for line in out.split("\n")[:-1]]
    assert [record["id"] for record in records] == ["1#1", "1#2", "2#1", "2#2"]
    assert [record["prompt"] for record in records] == [PROMPTS[0]] * 2 + [PROMPTS[1]] * 2
    assert {record["model"] for record in records} == {"writer"}
    assert {record["seed"] for record in records} == {5}
    assert records[0]["story"] != records[1]["story"]
    for record in records:
        assert 1 <= len(record["plan"]) <= 4
        assert "".join(record["story"][start:end] for _, start, end in record["segments"]) == record["story"]


def test_a_story_is_the_same_alone_and_among_others(run):
    many = [json.loads(line) for line in run(*PROMPTS, "--json", "--batch-size", 2, *SHORT)[1].splitlines()]
    text = run(PROMPTS[0], *SHORT)[1]
    assert text.rstrip("\n") == many[0]["story"].rstrip("\n")
    one_by_one = run(*PROMPTS, "--json", "--batch-size", 1, *SHORT)[1]
    assert [json.loads(line) for line in one_by_one.splitlines()] == many


def test_killed_while_a_line_is_written_and_resumed(run, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("".join(f"A day with {number}\n" for number in range(12)))
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    request = ("--prompts", prompts, "-n", 2, *SHORT)
    assert run(*request, "--output", whole)[0] == 0

    def torn(self: StoriesFile, record) -> None:
        line = record.as_line().encode()
        self.output.append(line if record.id != "5#1" else line[: len(line) // 2])
        if record.id == "5#1":
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        StoriesFile.add = torn
        run(*request, "--output", killed)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert len(killed.read_bytes().split(b"\n")) == 9  # eight stories and half a line
    code, _, err = run(*request, "--output", killed, "--batch-size", 5)
    assert (code, "24 stories" in err) == (0, True)
    assert killed.read_bytes() == whole.read_bytes()
    assert (tmp_path / "killed.jsonl.manifest.json").exists()
    assert not (tmp_path / "killed.jsonl.stage.json").exists()


def test_another_request_for_a_file_is_refused(run, refused, tmp_path):
    path = tmp_path / "stories.jsonl"
    assert run(*PROMPTS, "--output", path, *SHORT)[0] == 0
    before = path.read_bytes()
    printed = run(*PROMPTS, "--output", path, "--json", *SHORT)[1]
    assert printed.encode() == before  # nothing is written again; --json prints what is there
    refused(r"another config \(prompts: .*--overwrite", *PROMPTS[:2], "--output", path, *SHORT)
    refused("seed: 0 there, 1 asked for", *PROMPTS, "--output", path, "--seed", 1, *SHORT)
    refused("top_p: .* there, 0.5 asked for", *PROMPTS, "--output", path, "--top-p", 0.5, *SHORT)
    refused("model: .*; model_files", *PROMPTS, "--output", path, *SHORT, model="bart")
    assert path.read_bytes() == before
    assert run(*PROMPTS, "--output", path, "--seed", 1, "--overwrite", *SHORT)[0] == 0
    assert [record.seed for record in read_stories(path)] == [1, 1, 1]


def test_given_plans_and_plans_taken_from_files(run, tmp_path):
    told = json.loads(run(PROMPTS[0], "--json", "--plan", "3, 1 2", *SHORT)[1])
    assert told["plan"] == [3, 1, 2]
    path = tmp_path / "stories.jsonl"
    assert run(*PROMPTS, "--output", path, *SHORT)[0] == 0
    kept = list(read_stories(path))
    again = json.loads(run(PROMPTS[0], "--json", "--plan-from", f"{path}#3", *SHORT)[1])
    assert tuple(again["plan"]) == kept[2].plan
    (tmp_path / "story.txt").write_text(str(story(1)["story"]))
    posterior = json.loads(run(PROMPTS[0], "--json", "--plan-from", tmp_path / "story.txt", *SHORT)[1])
    assert posterior["plan"]
    assert all(0 <= code < 16 for code in posterior["plan"])
    assert json.loads(run(PROMPTS[0], "--json", "--plan", "1 2", *SHORT, model="bare")[1])["plan"] == [1, 2]


def test_plan_view_page_and_a_model_without_plans(run, tmp_path):
    code, out, err = run(PROMPTS[2], "--show-plan", "--plan", "3 11", "--html", tmp_path / "page.html", *SHORT)
    assert code == 0, err
    assert out.startswith("The fox's hat\n\n[3] ")
    assert "[11] " in out
    assert "2 codes · " in out
    assert 'data-tip="code 11"' in (tmp_path / "page.html").read_text(encoding="utf-8")
    code, out, err = run(PROMPTS[2], "--show-plan", *SHORT, model="bart")
    assert code == 0, err
    assert "[" not in out.splitlines()[0]
    assert "codes" not in out.splitlines()[-1]


def test_a_very_long_prompt_is_cut_with_a_warning(run):
    code, out, err = run("fox " * 100_000, *SHORT)
    assert code == 0
    assert out.strip()
    assert re.fullmatch(r"warning: [^\n]*cut[^\n]*\n", err), err


def test_ctrl_c_says_whether_stories_are_kept(run, monkeypatch, tmp_path):
    from discodvt.writing import StoryWriter

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(StoryWriter, "write_many", interrupted)
    code, _, err = run(PROMPTS[0], *SHORT)
    assert (code, err) == (130, "discodvt: interrupted; no story is kept, with --output FILE.jsonl they are\n")
    code, _, err = run(PROMPTS[0], "--output", tmp_path / "stories.jsonl", *SHORT)
    assert code == 130
    assert "what is written is kept" in err


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("tokenizer.json", None, "no tokenizer.json in it"),
        ("tokenizer.json", "", "no tokenizer in it"),
        ("tokenizer.json", '{"version": ', "no tokenizer in it"),
        ("config.json", {"decoder_layers": -1}, "decoder_layers is -1; expected"),
        (
            "config.json",
            {"backbone_config": {"d_model": 16, "decoder_attention_heads": 7}},
            "decoder_attention_heads is 7; expected a divisor",
        ),
        ("generation_config.json", {"temperature": "hot"}, 'temperature is "hot"; expected a number'),
        ("prior/config.json", {"decoder_layers": 10**9}, "decoder_layers is 1000000000; expected"),
    ],
)
def test_a_damaged_model_is_one_line(refused, models, tmp_path, file, change, message):
    shutil.copytree(models / "writer", tmp_path / "damaged")
    path = tmp_path / "damaged" / file
    if change is None:
        path.unlink()
    elif isinstance(change, str):
        path.write_text(change)
    else:
        path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | change))
    refused(message, PROMPTS[0], model=tmp_path / "damaged")


def test_wrong_requests(refused, models, tmp_path):
    refused("give a prompt")
    refused("a prompt and --prompts", PROMPTS[0], "--prompts", tmp_path / "prompts.txt")
    refused("1,000,000,000 stories", PROMPTS[0], "-n", 1_000_000_000)
    refused("both", PROMPTS[0], "--output", tmp_path / "a.jsonl", "--html", tmp_path / "a.jsonl")
    refused("prompt 2: .*empty", PROMPTS[0], " ")
    refused("prompts.txt: no such file", "--prompts", tmp_path / "prompts.txt")
    refused("-n 0: ", PROMPTS[0], "-n", 0)
    refused("--plan and --plan-from", PROMPTS[0], "--plan", "1", "--plan-from", "x.txt")
    refused("'x' is no code", PROMPTS[0], "--plan", "1 x")
    refused("positions", PROMPTS[0], "--plan", "1 " * 100)
    refused("--min-tokens 30 is above --max-tokens 20", PROMPTS[0], "--min-tokens", 30, "--max-tokens", 20)
    refused("--min-codes 5 is above --max-codes 4", PROMPTS[0], "--min-codes", 5, "--max-codes", 4)
    refused("--top-p 1.5: ", PROMPTS[0], "--top-p", 1.5)
    refused("--max-tokens 65: the model has .*64 positions", PROMPTS[0], "--max-tokens", 65)
    refused("--plan: code 16 ", PROMPTS[0], "--plan", "1 16")
    refused("nowhere", PROMPTS[0], model="nowhere")
    refused("prior", PROMPTS[0], model="bare")
    refused("plan", PROMPTS[0], "--plan", "1 2", model="bart")
    refused("cannot be written", PROMPTS[0], "--output", Path("/dev/null/stories.jsonl"))
    refused("not a file", PROMPTS[0], "--output", tmp_path)
    refused("no such directory", PROMPTS[0], "--html", tmp_path / "none" / "page.html")
    refused("16", PROMPTS[0], "--plan", "99", "--output", tmp_path / "stories.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("warm_workers")
def test_workers_write_what_one_process_writes_and_either_goes_on_from_the_other(run, refused, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("".join(f"A day with {number}\n" for number in range(150)))
    request = ("--prompts", prompts, *SHORT)
    whole, shared, begun = (tmp_path / f"{name}.jsonl" for name in ("whole", "shared", "begun"))
    assert run(*request, "--output", whole)[0] == 0

    def kept(path: Path) -> tuple[bytes, bytes]:
        return path.read_bytes(), path.with_name(path.name + ".manifest.json").read_bytes()

    code, _, err = run(*request, "--output", shared, "--workers", 2)
    assert (code, err.startswith("150 stories in ")) == (0, True)
    assert kept(shared) == kept(whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    request_file = json.loads(kept(whole)[1])
    begun.write_bytes(b"".join(lines[:70]) + lines[70][:9])  # one process, killed in its 71st line
    begun.with_name("begun.jsonl.stage.json").write_text(json.dumps(request_file))
    shards = tmp_path / "begun.jsonl.shards"
    shards.mkdir()
    (shards / "0123456789abcdef-000000064.jsonl").write_text("of another request\n")
    assert run(*request, "--output", begun, "--workers", 2)[0] == 0
    assert kept(begun) == kept(whole)
    assert not shards.exists()
    refused("--workers: for stories kept in a file; give an --output", *PROMPTS, "--workers", 2)


def test_a_poisonous_shard_is_named_the_others_are_kept_and_the_next_run_writes_only_it(run, tmp_path, monkeypatch):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("".join(f"A day with {number}\n" for number in range(150)))
    whole, path = tmp_path / "whole.jsonl", tmp_path / "stories.jsonl"
    assert run("--prompts", prompts, *SHORT, "--output", whole)[0] == 0
    write, written = sharded._write_shard, []

    def poisoned(source, params, shard):
        written.append(shard.first)
        if shard.first == 64 and len(written) < 6:
            raise ValueError("bad luck")
        return write(source, params, shard)

    monkeypatch.setattr(sharded, "_write_shard", poisoned)
    monkeypatch.setattr(local, "LocalProcesses", lambda workers: local.ThisProcess())
    code, _, err = run("--prompts", prompts, *SHORT, "--output", path, "--workers", 2)
    assert code == 1
    assert "1 shard failed 3 times: stories 65 to 128 (ValueError: bad luck)" in err
    assert path.read_bytes() == b"".join(whole.read_bytes().splitlines(keepends=True)[:64])
    assert sorted(written) == [0, 64, 64, 64, 128]
    assert run("--prompts", prompts, *SHORT, "--output", path, "--workers", 2)[0] == 0
    assert sorted(written) == [0, 64, 64, 64, 64, 128]
    assert path.read_bytes() == whole.read_bytes()
