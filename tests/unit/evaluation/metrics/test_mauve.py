"""MAUVE by its own package, in the features of a small local model; skipped where the package is not installed."""

import json

import numpy as np
import pytest
import torch
from tiny_bart import tiny_bart
from transformers import BartModel, GPT2Config, GPT2Model

from discodvt.checkpoints import open_tokenizer
from discodvt.data.subwords import train_tokenizer
from discodvt.errors import BadRequest
from discodvt.evaluation.evaluate_files import evaluate_files
from discodvt.evaluation.metrics import mauve
from discodvt.evaluation.metrics.mauve import features
from discodvt.evaluation.scores import evaluate

HUMAN = [f"The fox ran home {n} times because it rained, and so he was late again." for n in range(60)]
STRANGE = [f"bill {n} {n + 1} {n + 2} total 7 7 7 7 7 due {n}" for n in range(60)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A GPT-2 and a BART of random weights; neither is called so, as the package would have it."""
    root = tmp_path_factory.mktemp("models")
    tokenizer = train_tokenizer([*HUMAN, *STRANGE], 320)
    torch.manual_seed(0)
    GPT2Model(GPT2Config(vocab_size=len(tokenizer), n_positions=32, n_embd=16, n_layer=1, n_head=2)).save_pretrained(
        root / "reader"
    )
    BartModel(tiny_bart(len(tokenizer), positions=32)).save_pretrained(root / "both")
    for name in ("reader", "both"):
        tokenizer.save_pretrained(root / name)
    return root


@pytest.mark.parametrize("name", ["reader", "both"])
def test_features_are_the_last_tokens_whatever_stands_beside_a_text(models, name):
    together = features(str(models / name), (HUMAN[0], "A fox.", STRANGE[3] * 9))
    assert together.shape == (3, 16)
    alone = features(str(models / name), ("A fox.",))
    np.testing.assert_allclose(together[1], alone[0], atol=1e-5)
    cut = features(str(models / name), (STRANGE[3] * 20,))  # beyond the model's positions
    if name == "reader":  # a decoder's last state knows only what came before, and that was cut alike
        np.testing.assert_allclose(together[2], cut[0], atol=1e-5)


def test_features_are_taken_on_the_device_there_is(models, monkeypatch):
    """The meta device stands for a GPU."""

    def stop(model: GPT2Model, **inputs: torch.Tensor) -> None:
        assert {each.device.type for each in (model, *inputs.values())} == {"meta"}
        raise InterruptedError

    monkeypatch.setattr(mauve, "best_device", lambda: torch.device("meta"))
    monkeypatch.setattr(GPT2Model, "forward", stop)
    with pytest.raises(InterruptedError):
        features(str(models / "reader"), ("A fox that is far away.",))


def test_a_model_that_cannot_be_opened_is_said(tmp_path):
    with pytest.raises(BadRequest, match=r"no config\.json"):
        features(str(tmp_path), ("A fox.",))


@pytest.fixture
def package():
    return pytest.importorskip("mauve", reason="mauve-text is not installed (pip install 'discodvt[mauve]')")


def test_features_are_those_the_package_takes(models, package):
    from mauve.utils import featurize_tokens_from_model

    texts = (HUMAN[0], "A fox.")
    tokens = [torch.tensor([ids]) for ids in open_tokenizer(models / "reader")(list(texts))["input_ids"]]
    theirs = featurize_tokens_from_model(GPT2Model.from_pretrained(models / "reader").eval(), tokens, batch_size=1)
    np.testing.assert_allclose(features(str(models / "reader"), texts), theirs, atol=1e-5)


def test_stories_like_the_references_score_higher(models, package, tmp_path):
    options = {"mode": "modern", "resamples": 0, "mauve_model": str(models / "reader")}
    alike = evaluate(HUMAN[::-1], HUMAN, **options)["MAUVE"]
    strange = evaluate(STRANGE, HUMAN, **options)["MAUVE"]
    assert alike.value > 0.95
    assert strange.value < 0.2
    assert (alike.low, alike.high, alike.n) == (None, None, 60)
    assert "features:last-token|buckets:6|seed:0|version:" in alike.signature
    files = []
    for name, texts in (("a", STRANGE), ("b", HUMAN[::-1]), ("r", HUMAN)):
        lines = (json.dumps({"id": str(n), "story": text}) for n, text in enumerate(texts))
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_text("\n".join(lines))
    compared = evaluate_files(files[0], files[2], against=files[1], **options)["comparison"]["MAUVE"]
    assert compared["difference"] == pytest.approx(strange.value - alike.value)
    assert (compared["p_t_test"], compared["stars"]) == (None, "")
