"""Discourse-level evaluation end to end: a tiny classifier that really learns, its controls, files and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from program import run
from transformers import BertConfig, BertModel, BertTokenizer

from discodvt.artefacts import read_manifest
from discodvt.corpus import ANNOTATED_SCHEMA, write_rows
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse import score_stage
from discodvt.evaluation.discourse.classifier import RelationClassifier, open_classifier
from discodvt.evaluation.discourse.fit_stage import fit_classifier
from discodvt.evaluation.discourse.score_stage import score_files

NAMES = ("Ann", "Ben", "Cat", "Dan", "Eve", "Fay")
ENDS = {"because": "was tired", "so": "went home", "before": "lost the key", "and": "sang a song"}
SETTINGS: dict[str, Any] = {
    "epochs": 5.0, "first_epochs": 1.0, "learning_rate": 3e-3, "pairs_per_step": 16, "argument_tokens": 12
}  # fmt: skip


def story(number: int) -> dict[str, object]:
    """Sentences whose second half goes with their marker; the text tiles into its EDUs."""
    edus, relations, text = [], [], ""
    for place, (marker, end) in enumerate(ENDS.items()):
        name = NAMES[(number + place) % len(NAMES)]
        relations += (["unknown"] if place else []) + [f"{marker}_arg1_arg2"]
        for part in (f"{name} saw {NAMES[number % 5]} ", f"{marker} {name} {end}. "):
            edus.append({"start": len(text), "end": len(text) + len(part)})
            text += part
    return {"id": str(number), "prompt": f"prompt {number}", "story": text, "edus": edus, "relations": relations}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("discourse") / "corpus"
    directory.mkdir()
    for split, first, size in (("train", 0, 60), ("valid", 60, 12), ("test", 72, 12)):
        write_rows(directory / f"{split}.parquet", map(story, range(first, first + size)), ANNOTATED_SCHEMA)
    return directory


@pytest.fixture(scope="module")
def classifier(corpus) -> Path:
    out = corpus.parent / "classifier"
    list(fit_classifier(corpus, out, **SETTINGS))
    return out


def score(corpus: Path, classifier: Path, **options: Any) -> dict[str, Any]:
    return score_files(corpus, corpus, classifier, resamples=50, **options)


def test_predictable_markers_are_learned_and_the_controls_fall(corpus, classifier):
    found = score(corpus, classifier)
    assert found["n_pairs"] == 48
    assert found["scores"]["accuracy"]["value"] > 0.9
    assert found["baseline"]["scores"]["accuracy"] == 0.25
    assert found["scores"]["accuracy"]["low"] > 0.5
    torn = score(corpus, classifier, swap_arg2="any")
    assert torn["scores"]["accuracy"]["value"] < 0.5


def test_pairs_are_judged_on_the_device_there_is(corpus, classifier, monkeypatch):
    """The meta device stands for a GPU."""

    def stop(model: RelationClassifier, **inputs: torch.Tensor) -> None:
        assert {each.device.type for each in (model, *inputs.values())} == {"meta"}
        raise InterruptedError

    monkeypatch.setattr(score_stage, "best_device", lambda: torch.device("meta"))
    monkeypatch.setattr(RelationClassifier, "forward", stop)
    with pytest.raises(InterruptedError):
        score(corpus, classifier)


def test_shuffled_labels_teach_nothing(corpus, classifier):
    out = corpus.parent / "shuffled"
    list(fit_classifier(corpus, out, shuffle_labels=True, **SETTINGS))
    assert score(corpus, out)["scores"]["accuracy"]["value"] < 0.6
    assert "shuffled labels" in (out / "README.md").read_text()


def test_a_stopped_fit_goes_on_to_the_same_weights(corpus, classifier):
    out = corpus.parent / "stopped"
    run = fit_classifier(corpus, out, **SETTINGS)
    valid = 0
    for event in run:
        valid += event.kind == "valid"
        if valid == 3 and event.kind == "step":
            break
    run.close()
    assert not (out / "manifest.json").exists()
    list(fit_classifier(corpus, out, **SETTINGS))
    for name in ("model.safetensors", "metrics.jsonl", "README.md"):
        assert (out / name).read_bytes() == (classifier / name).read_bytes()
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in classifier.iterdir())


def test_a_first_set_is_trained_on_before(corpus, tmp_path):
    first = tmp_path / "first.tsv"
    first.write_text("".join(f"{name} ran\the {end}\t{marker}\n" for name in NAMES for marker, end in ENDS.items()))
    settings = SETTINGS | {"epochs": 0.2}
    *_, done = fit_classifier(corpus, tmp_path / "out", first=first, **settings)
    facts = read_manifest(tmp_path / "out", "discourse-fit")["facts"]
    assert facts["pairs"] == {"train": 240, "valid": 48, "first": 24}
    assert facts["steps"] == 3 + 1
    assert "done" in done.message


def test_a_bert_in_a_directory_is_trained_kept_and_scores(corpus, tmp_path):
    texts = [str(story(number)["story"]).lower().replace(".", " .") for number in range(60)]
    words = sorted({word for text in texts for word in text.split()})
    vocabulary = {word: place for place, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    BertTokenizer(vocab=vocabulary).save_pretrained(tmp_path / "bert")
    torch.manual_seed(0)
    shape = BertConfig(vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                       intermediate_size=32, max_position_embeddings=32, initializer_range=0.3)  # fmt: skip
    BertModel(shape).save_pretrained(tmp_path / "bert")
    before = (tmp_path / "bert" / "model.safetensors").read_bytes()
    list(fit_classifier(corpus, tmp_path / "out", encoder=str(tmp_path / "bert"), **SETTINGS))
    assert (tmp_path / "bert" / "model.safetensors").read_bytes() == before
    model, tokenizer = open_classifier(tmp_path / "out")
    assert (model.config.reading, model.typed) == ("pair", True)
    assert tokenizer.tokenize("Ann sang") == ["ann", "sang"]
    was, now = (each.embeddings.word_embeddings.weight.flatten()
                for each in (BertModel.from_pretrained(tmp_path / "bert"), model.encoder))  # fmt: skip
    assert 0.5 < torch.cosine_similarity(was, now, dim=0) < 0.9999  # begun with the checkpoint's weights, and moved
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"Encoder: {tmp_path / 'bert'}" in card
    found = score(corpus, tmp_path / "out")
    assert found["scores"]["accuracy"]["value"] > 0.9
    assert score(corpus, tmp_path / "out", swap_arg2="any")["scores"]["accuracy"]["value"] < 0.5


def test_the_command_writes_what_the_docs_say(corpus, classifier, tmp_path):
    stories = tmp_path / "stories.jsonl"
    stories.write_text(
        "".join(json.dumps({k: story(n)[k] for k in ("id", "prompt", "story")}) + "\n" for n in (72, 73))
    )
    done = run("discourse", "score", stories, "--references", corpus, "--classifier", classifier,
               "--resamples", 20, "--out", tmp_path / "out", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "discourse.json").read_text())
    assert json.loads(done.stdout) == found
    assert found.keys() == {"stories", "seeds", "n_pairs", "names", "scores", "human", "baseline", "shares", "markers",
                            "entropy_bits", "kl_bits", "swap_arg2", "comparison"}  # fmt: skip
    assert (found["stories"], found["human"]["stories"]) == (2, 12)
    assert found["shares"]["human"] == {"concession": 0, "causal": 0.5, "temporal": 0.25, "conjunction": 0.25}
    assert found["entropy_bits"]["human"] == 1.5
    assert found["markers"]["human"]["so"] == 0.25
    assert set(found["scores"]["accuracy"]) >= {"value", "low", "high", "n", "signature", "direction"}


def test_two_systems_on_the_same_prompts_are_compared(corpus, classifier):
    found = score(corpus, classifier, against=corpus)
    assert found["comparison"]["accuracy"]["difference"] == 0


def test_the_baseline_of_several_seeds_is_over_the_markers_their_accuracy_is_over(corpus, classifier, tmp_path):
    rows = [story(number) for number in range(72, 84)]
    for row in rows:
        row["relations"] = ["unknown" if "before" in label else label for label in row["relations"]]
    write_rows(tmp_path / "other.parquet", rows, ANNOTATED_SCHEMA)
    found = score_files([corpus / "test.parquet", tmp_path / "other.parquet"], corpus, classifier, resamples=20)
    assert "macro-accuracy:so+because+and|" in found["scores"]["accuracy"]["signature"]
    assert found["baseline"]["scores"].keys() == {name for name in found["names"] if name.startswith("accuracy")}
    assert found["baseline"]["scores"]["accuracy"] == pytest.approx(1 / 3)


def test_wrong_requests_end_in_one_clear_line(corpus, classifier, tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    unmarked = {"edus": [{"start": 0, "end": 9}], "relations": [], "story": "It is so.", "prompt": "p"}
    for split in ("train", "valid", "test"):
        write_rows(plain / f"{split}.parquet", [unmarked | {"id": str(n)} for n in range(3)], ANNOTATED_SCHEMA)
    with pytest.raises(BadRequest, match=r"train.parquet: no marker pairs"):
        list(fit_classifier(plain, tmp_path / "out", **SETTINGS))
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadRequest, match="no marker pairs in its 3 stories"):
        score_files(plain, corpus, classifier, out=tmp_path / "scores", resamples=10)
    assert not (tmp_path / "scores").exists()
    (tmp_path / "one.jsonl").write_text(json.dumps({"id": "1", "story": story(1)["story"]}))
    with pytest.raises(BadRequest, match=r"one.jsonl: intervals need more than one story"):
        score_files(tmp_path / "one.jsonl", corpus, classifier, out=tmp_path / "scores", resamples=10)
    with pytest.raises(BadRequest, match=r"expected the output of `discourse-fit`|not made by discodvt"):
        score_files(corpus, corpus, corpus, resamples=10)
    with pytest.raises(BadRequest, match=r"do not fill one step of 1000; .*`pairs_per_step`"):
        list(fit_classifier(corpus, tmp_path / "out", **SETTINGS | {"pairs_per_step": 1000, "epochs": 1.0}))
