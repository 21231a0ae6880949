"""`discodvt prepare` as a user runs it: every source, wrong input, a killed run, and memory that stays put."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import program
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline.toy_corpus import contents

from discodvt.corpus import Example, read_examples, split_files

run = partial(program.run, "prepare")


def refused(*words: object) -> str:
    """The one line of a wrong request."""
    return program.refused(run(*words))


def corpus(directory: Path) -> dict[str, list[Example]]:
    return {split: list(read_examples(path)) for split, path in split_files(directory).items()}


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def many(path: Path, count: int, words: int = 200) -> Path:
    with path.open("w") as file:
        for i in range(count):
            file.write(json.dumps({"prompt": f"Prompt {i}", "story": f"Story {i}. " + f"w{i % 97} " * words}) + "\n")
    return path


def test_the_program_itself(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"prompt": "A fox", "story": "It ran home."}])
    command = [sys.executable, "-m", "discodvt", "prepare", "jsonl", str(path), str(tmp_path / "out"), "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["all"] == {"stories": 1, "input_words": 2.0, "output_words": 3.0}
    assert answer.stderr == ""


def test_wikiplots(tmp_path: Path) -> None:
    (tmp_path / "titles").write_text("".join(f"Title {i}\n" for i in range(300)))
    (tmp_path / "plots").write_text("".join(f"One {i}.\nTwo.\n<EOS>\n" for i in range(300)))
    answer = run("wikiplots", tmp_path, tmp_path / "out")
    assert answer.returncode == 0
    for heading in ("Input len.", "Output len.", "Train", "Val", "Test", "300 read, 300 kept; dropped: nothing"):
        assert heading in answer.stdout
    found = corpus(tmp_path / "out")
    assert [len(found[split]) for split in ("train", "valid", "test")] == pytest.approx([270, 15, 15], abs=15)
    everything = sorted(
        (story for stories in found.values() for story in stories), key=lambda s: int(s.id.split("-")[1])
    )
    assert everything[1] == Example(id="wikiplots-2", prompt="Title 1", story="One 1. Two.")


def test_writingprompts(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.wp_source").write_text(f"[ WP ] {split} café\n", encoding="utf-8")
        (tmp_path / f"{split}.wp_target").write_text(f"It {split} . <newline> End .\n", encoding="utf-8")
    assert run("writingprompts", tmp_path, tmp_path / "out").returncode == 0
    assert run("writingprompts", tmp_path, tmp_path / "bare", "--strip-tags").returncode == 0
    assert corpus(tmp_path / "out")["valid"] == [Example("valid-1", "[ WP ] valid cafe", "It valid . End .")]
    assert corpus(tmp_path / "bare")["test"][0].prompt == "test cafe"


def test_books(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two three\n" * 50)
    assert (
        run("books", tmp_path / "a.txt", tmp_path / "out", "--segment-length", 40, "--no-deduplicate").returncode == 0
    )
    ((stories,)) = corpus(tmp_path / "out").values()
    assert [len(story.story.split()) for story in stories] == [40, 40, 40]
    assert "no story was read" in refused("books", tmp_path / "a.txt", tmp_path / "none")


def test_books_by_subwords(tmp_path: Path, shared: Path) -> None:
    (tmp_path / "a.txt").write_text("an antidisestablishmentarian fox\n" * 90)
    answer = run("books", tmp_path, tmp_path / "out", "--tokenizer", shared / "tokenizer" / "bart", "--no-deduplicate")
    assert answer.returncode == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["config"]["unit"], manifest["config"]["segment_length"]) == ("subwords", 512)
    assert sorted(manifest["inputs"]) == ["a.txt", "merges.txt", "vocab.json"]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_tables_with_given_splits(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for split in ("train", "valid", "test"):
        row = {"title": f"T {split}", "text": f"It {split}. Then, it slept."}
        if kind == "jsonl":
            (source / f"{split}.jsonl.zst").write_bytes(
                pa.compress(json.dumps(row).encode(), codec="zstd", asbytes=True)
            )
        elif kind == "csv":
            text = f'title,text\n{row["title"]},"{row["text"]}"\n'
            (source / f"{split}.csv.gz").write_bytes(gzip.compress(text.encode()))
        else:
            pq.write_table(pa.Table.from_pylist([row]), source / f"{split}.parquet")
    options = ("--story-column", "text", "--prompt-from", "title")
    assert run(kind, source, tmp_path / "out", *options).returncode == 0
    assert corpus(tmp_path / "out")["valid"] == [Example("valid-1", "T valid", "It valid. Then, it slept.")]
    train, test = (next(source.glob(f"{split}.*")) for split in ("train", "test"))
    first = ("--story-column", "text", "--prompt-from", "first-sentence")
    assert run(kind, "--train", test, "--test", train, tmp_path / "swapped", *first).returncode == 0
    assert corpus(tmp_path / "swapped") == {"test": [Example("test-1", "It train.", "Then, it slept.")]}


def test_hub_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'discodvt[hub]'" in refused("hf", "some/dataset", tmp_path / "out")
    assert "expected train=NAME" in refused("hf", "some/dataset", tmp_path / "out", "--split-map", "x=y")


def test_shared_corpora(tmp_path: Path, shared: Path) -> None:
    data = shared / "data"
    tiny = run("jsonl", data / "tiny", tmp_path / "tiny", "--prompt-from", "first-sentence", "--limit", 50, "--json")
    assert json.loads(tiny.stdout)["splits"]["valid"]["stories"] == 50
    assert corpus(tmp_path / "tiny")["test"][0].prompt == "Once upon a time, there was a little boy named Tom."
    tales = run("jsonl", data / "tales" / "tales.jsonl.gz", tmp_path / "tales", "--prompt-from", "title", "--json")
    assert json.loads(tales.stdout)["kept"] == 1103


def test_wrong_requests(tmp_path: Path) -> None:
    out = tmp_path / "out"
    good = write_jsonl(tmp_path / "good.jsonl", [{"prompt": "p", "story": "It ran."}])
    bad = tmp_path / "bad.jsonl"
    assert "none.jsonl: no such file" in refused("jsonl", tmp_path / "none.jsonl", out)
    bad.touch()
    assert "bad.jsonl: the file is empty" in refused("jsonl", bad, out)
    assert "no column `text`; it has prompt, story" in refused("jsonl", good, out, "--story-column", "text")
    bad.write_bytes(good.read_bytes() + b'{"prompt": "\xff"}')
    assert "bad.jsonl:2: not UTF-8 at byte" in refused("jsonl", bad, out)
    bad.write_bytes(good.read_bytes() + b'{"prompt": ')
    assert "bad.jsonl:2: not JSON" in refused("jsonl", bad, out)
    bad.write_bytes(good.read_bytes() + b'{"prompt": "p", "story": null}')
    assert "bad.jsonl:2: null in column `story`" in refused("jsonl", bad, out)
    packed = tmp_path / "bad.jsonl.gz"
    packed.write_bytes(gzip.compress(os.urandom(4000).hex().encode())[:-100])
    assert "bad.jsonl.gz:1: truncated or corrupt" in refused("jsonl", packed, out)
    (tmp_path / "titles").write_text("a\nb\n")
    (tmp_path / "plots").write_text("a\n<EOS>\n")
    assert "titles: 2 titles, but" in refused("wikiplots", tmp_path, out)
    (tmp_path / "train.wp_source").write_text("a\nb\n")
    (tmp_path / "train.wp_target").write_text("a\n")
    assert "train.wp_target: 1 lines, but" in refused("writingprompts", tmp_path, out)
    assert "no story is left" in refused("jsonl", good, out, "--min-words", 9)
    assert "expected three shares" in refused("jsonl", good, out, "--split", "80/20")
    assert run("jsonl", good, out).returncode == 0
    assert "--overwrite" in refused("jsonl", good, out, "--seed", 1)
    assert "a file is in the way" in refused("jsonl", good, bad)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "notes").touch()
    assert "not made by discodvt" in refused("jsonl", good, tmp_path / "theirs", "--overwrite")


def test_the_same_run_twice(tmp_path: Path) -> None:
    source = many(tmp_path / "a.jsonl", 50)
    assert run("jsonl", source, tmp_path / "out").returncode == 0
    first = contents(tmp_path / "out")
    again = run("jsonl", source, tmp_path / "out")
    assert (again.returncode, "already complete" in again.stdout) == (0, True)
    assert json.loads(run("jsonl", source, tmp_path / "out", "--json").stdout)["already_complete"]
    assert run("jsonl", source, tmp_path / "other").returncode == 0
    assert run("jsonl", source, tmp_path / "out", "--overwrite").returncode == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "other") == first


def test_killed_and_run_again(tmp_path: Path) -> None:
    source, out = many(tmp_path / "a.jsonl", 6_000), tmp_path / "out"
    command = [sys.executable, "-m", "discodvt", "prepare", "jsonl", str(source), str(out)]
    process = subprocess.Popen(command)
    while not (out / "train.parquet.partial").exists():
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    left = {path.name for path in out.iterdir()}
    assert "stage.json" in left
    assert not left & {"manifest.json", "train.parquet"}
    assert "holds an unfinished `prepare`" in refused("jsonl", source, out, "--seed", 1)
    assert run("jsonl", source, out).returncode == 0
    assert run("jsonl", source, tmp_path / "whole").returncode == 0
    assert contents(out) == contents(tmp_path / "whole")


PEAK = """
import sys
from pathlib import Path
from discodvt.corpus import TabularFiles, prepare
prepare(TabularFiles("jsonl", [Path(sys.argv[1])]), Path(sys.argv[2]))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    peaks = []
    for count in (2_000, 20_000):
        source = many(tmp_path / f"{count}.jsonl", count)
        command = [sys.executable, "-c", PEAK, str(source), str(tmp_path / f"out{count}")]
        peaks.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    assert peaks[1] < 1.1 * peaks[0], f"{peaks} kB"
