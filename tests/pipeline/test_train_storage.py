"""Training from and to `s3://`: the very files of a local run, killed at a step and while a state is put; and the
stages around it whose libraries take local names (tokenize, merge, codes measure, report)."""

import signal
from pathlib import Path

import pytest
from pipeline.toy_corpus import contents
from pipeline.toy_models import FOUR_STEPS, LORA, toy_recipe
from pipeline.toy_runs import stories
from pipeline.toy_store import BUCKET, Store, held
from program import Started, refused, run

from discodvt import mirrored, remote_lock, storage
from discodvt.artefacts import MANIFEST
from discodvt.corpus import row_count
from discodvt.storage import RemotePath, locate
from discodvt.training.assembly import Recipe
from discodvt.training.run import train

pytestmark = pytest.mark.usefixtures("quick_locks")


@pytest.fixture(scope="module")
def there(home: Path, store: Store) -> Path:
    """Corpus and models in the store."""
    for name in ("corpus", "bart", "bart-plan", "llama"):
        store.put_all(home / name, f"home/{name}")
    return locate(f"s3://{BUCKET}/home")


def of_store(home: Path, there: Path, stage: str, init: str, *values: str) -> Recipe:
    given = (f"data.corpus={there}/corpus", f"model.init={there}/{init}", *values)
    return toy_recipe(home, stage, init, *given)


def test_a_killed_run_is_resumed_from_the_store(
    home: Path, there: Path, place: RemotePath, store: Store, tmp_path: Path
) -> None:
    recipe = of_store(home, there, "reconstruct", "bart")
    list(train(recipe, tmp_path / "here"))
    values = (f"data.corpus={there}/corpus", f"model.init={there}/bart", *FOUR_STEPS)
    settings = [f"--set={value}" for value in values]
    words = ("train", home / "reconstruct.toml", *settings, "--out", place / "run")
    assert Started(tmp_path / "log", *words, kill_at=4).end() == -signal.SIGKILL
    state = held(place / "run")
    assert {"last-0000002/optimizer.safetensors", "stage.json", mirrored.INDEX} <= state.keys()
    assert MANIFEST not in state
    assert not any(name.startswith("tokens/") for name in state)
    store.fail_every = 5
    try:
        notes = [event.message for event in train(recipe, place / "run", resume=True) if event.kind == "note"]
    finally:
        store.fail_every = 0
    assert notes[-1] == f"{place}/run: done"
    assert held(place / "run") == contents(tmp_path / "here")
    again = list(train(recipe, place / "run", resume=True))
    assert [event.message for event in again] == [f"{place}/run: complete already, nothing to resume"]
    assert not list((tmp_path / "cache").rglob("*.safetensors"))  # nothing stays on this machine


def test_a_state_that_was_put_in_part_is_no_state(
    home: Path, there: Path, place: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second state breaks off after its first new file; the run goes on from the first one."""
    recipe = of_store(home, there, "seq2seq", "bart", "run.save_every_steps=1", "run.log_every_steps=1")
    list(train(recipe, tmp_path / "here"))
    put, states = mirrored.upload, []

    def break_off(local: Path, target: RemotePath) -> None:
        states.append(target)
        if "last-0000002" in str(target):
            raise KeyboardInterrupt
        put(local, target)

    monkeypatch.setattr(mirrored, "upload", break_off)
    with pytest.raises(KeyboardInterrupt):
        list(train(recipe, place / "run"))
    monkeypatch.setattr(mirrored, "upload", put)
    before = held(place / "run")
    assert any(name.startswith("last-0000001/") for name in before)
    metrics = (place / "run" / "metrics.jsonl").read_text()
    (place / "run" / "metrics.jsonl").write_text(metrics + '{"step": 1, "of a state": "that never was"}\n')
    resumed = list(train(recipe, place / "run", resume=True))
    assert next(event.step for event in resumed if event.kind == "step") == 2
    assert held(place / "run") == contents(tmp_path / "here")


def test_what_is_there_is_refused_or_replaced(home: Path, there: Path, place: RemotePath, store: Store) -> None:
    recipe = of_store(home, there, "seq2seq", "bart", "run.steps=2")
    (place / "other" / "letter.txt").write_text("dear")
    path, values = home / "seq2seq.toml", [f"--set=data.corpus={there}/corpus", f"--set=model.init={there}/bart"]
    words = ("train", path, *values, "--set=run.steps=2", "--out")
    refused(run(*words, place / "other"), f"{place}/other: not empty and not made by discodvt")
    list(train(recipe, place / "run"))
    before = held(place / "run")
    refused(run(*words, place / "run"), f"{place}/run: holds a finished run", "--overwrite")
    refused(run(*words, place / "run", "--overwrite", "--set=model.init=s3://stories/none"), "stories/none")
    assert held(place / "run") == before  # a wrong request leaves all as it was
    with remote_lock.held(place / "run" / ".lock", "it"):
        refused(run(*words, place / "run", "--resume"), f"{place}/run: in use by another run")
    list(train(of_store(home, there, "seq2seq", "bart", "run.steps=2", "seed=7"), place / "run", overwrite=True))
    after = held(place / "run")
    assert after.keys() == before.keys()
    assert after["model.safetensors"] != before["model.safetensors"]


def test_lora_names_its_base_in_the_store_and_is_merged_there(
    home: Path, there: Path, place: RemotePath, tmp_path: Path
) -> None:
    list(train(of_store(home, there, "seq2seq", "llama", *LORA, "run.steps=2"), place / "run"))
    assert f'"base": "{there}/llama"' in (place / "run" / "base.json").read_text()
    for out in (place / "whole", tmp_path / "whole"):
        done = run("merge", place / "run", out)
        assert done.returncode == 0, done.stderr
    assert held(place / "whole") == contents(tmp_path / "whole")


def test_tokens_made_in_the_store_are_trained_on(home: Path, there: Path, place: RemotePath, tmp_path: Path) -> None:
    of_store(home, there, "seq2seq", "bart")
    values = [f"--set=data.corpus={there}/corpus", f"--set=model.init={there}/bart"]
    for out in (place / "tokens", tmp_path / "tokens"):
        done = run("tokenize", home / "seq2seq.toml", out, *values)
        assert done.returncode == 0, done.stderr
    assert held(place / "tokens") == contents(tmp_path / "tokens")
    for tokens, out in ((place / "tokens", "there"), (tmp_path / "tokens", "here")):
        list(train(of_store(home, there, "seq2seq", "bart", "run.steps=2", f"data.tokens={tokens}"), tmp_path / out))
    models = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("there", "here")]
    assert models[0] == models[1]
    shard = place / "tokens" / "train" / "000000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-8])
    storage.local_copy.cache_clear()  # a process copies once
    refused(
        run("train", home / "seq2seq.toml", *values, f"--set=data.tokens={place}/tokens", "--out", tmp_path / "cut"),
        "000000.safetensors: cut short",
    )


@pytest.mark.usefixtures("impatient_probe")
def test_codes_and_reports_from_and_to_the_store(
    home: Path, there: Path, place: RemotePath, store: Store, tmp_path: Path
) -> None:
    assert row_count(there / "corpus" / "valid.parquet") == 8
    for source, out in ((home, tmp_path), (there, place)):
        words = (source / "bart-plan", source / "corpus", out / "measured", "--split", "valid", "--resamples", 20)
        done = run("codes", "measure", *words)
        assert done.returncode == 0, done.stderr
    assert held(place / "measured") == contents(tmp_path / "measured")
    told = [stories(tmp_path / f"{seed}.jsonl", seed) for seed in (1, 2)]
    for number, path in enumerate(told):
        out = tmp_path / f"scores-{number}"
        scored = run("evaluate", path, "--references", told[0], "--resamples", 20, "--out", out)
        assert scored.returncode == 0, scored.stderr
        store.put_all(out, f"{place.name}/{out.name}")
    for out in (place, tmp_path):
        done = run("report", f"human={out}/scores-0", f"ours={out}/scores-1", "--out", out / "report", "--title", "it")
        assert done.returncode == 0, done.stderr
    assert held(place / "report") == contents(tmp_path / "report")
