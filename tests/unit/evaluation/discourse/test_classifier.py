"""The relation classifier: what it reads, where its encoder comes from, what it refuses."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_bart import tiny_bart
from transformers import BertConfig, BertModel

from discodvt.data.subwords import train_tokenizer
from discodvt.data.tokens import Ragged
from discodvt.discourse import MARKERS
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.classifier import (
    EncodedPairs,
    PairReader,
    RelationClassifier,
    build_classifier,
    open_classifier,
)
from discodvt.evaluation.discourse.classifier_training import Phase, RelationObjective
from discodvt.evaluation.discourse.marker_pairs import Pair
from discodvt.model import DiscoDVT

PAIRS = [
    Pair("she ran home", "it rained", "because"),
    Pair("he slept through the whole of that long night", "he was tired", "so"),
    Pair("they sang", "the sun went down behind the hills and the owls woke", "as"),
]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([text for pair in PAIRS for text in pair[:2]], 300)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory, tokenizer):
    """A DiscoDVT and a BERT with the same subwords."""
    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("encoders")
    DiscoDVT.from_bart(tiny_bart(len(tokenizer))).save_pretrained(root / "discodvt")
    bert = BertConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                      intermediate_size=16, max_position_embeddings=64, pad_token_id=1)  # fmt: skip
    BertModel(bert).save_pretrained(root / "bert")
    for name in ("discodvt", "bert"):
        tokenizer.save_pretrained(root / name)
    return root


def build(source, tokens: int = 12) -> tuple[RelationClassifier, PairReader]:
    model, tokenizer = build_classifier(str(source), [], argument_tokens=tokens, seed=0)
    return model.eval(), PairReader(tokenizer, model.config.reading, tokens)


@pytest.mark.parametrize(("name", "reading"), [("discodvt", "twin"), ("bert", "pair")])
def test_a_pair_is_judged_alike_alone_and_among_longer_ones(checkpoints, name, reading):
    model, reader = build(checkpoints / name)
    assert model.config.reading == reading
    encoded = reader.encode(PAIRS)
    with torch.no_grad():
        together = model(**reader.batch(encoded, np.arange(3)))
        alone = model(**reader.batch(encoded, np.array([0])))
    assert together.shape == (3, len(MARKERS))
    torch.testing.assert_close(together[:1], alone, atol=1e-5, rtol=1e-4)
    turned = reader.encode([pair._replace(arg1=pair.arg2, arg2=pair.arg1) for pair in PAIRS])
    assert not torch.allclose(model(**reader.batch(turned, np.arange(3))), together)


def test_a_discodvt_gives_its_posterior_and_not_its_generators_encoder(checkpoints):
    model, _ = build(checkpoints / "discodvt")
    whole = DiscoDVT.from_pretrained(checkpoints / "discodvt")
    with torch.no_grad():
        whole.posterior.embed_tokens.weight.add_(1.0)
    whole.save_pretrained(checkpoints / "discodvt")
    again, _ = build(checkpoints / "discodvt")
    difference = again.encoder.embed_tokens.weight - model.encoder.embed_tokens.weight
    torch.testing.assert_close(difference, torch.ones_like(difference))


def test_arguments_are_cut_and_sides_marked(checkpoints):
    _, reader = build(checkpoints / "bert", tokens=4)
    encoded = reader.encode(PAIRS)
    assert encoded.first.lengths.max() == encoded.second.lengths.max() == 4
    batch = reader.batch(encoded, np.array([1]))
    assert batch["sides"].tolist() == [[1] * 6 + [2] * 5]  # <s> and </s> go with Arg1, the last </s> with Arg2


def test_a_classifier_reopens_as_it_was_saved(tmp_path, checkpoints):
    model, reader = build(checkpoints / "bert")
    model.save_pretrained(tmp_path)
    reader.tokenizer.save_pretrained(tmp_path)
    reopened, tokenizer = open_classifier(tmp_path)
    batch = reader.batch(reader.encode(PAIRS), np.arange(3))
    torch.testing.assert_close(reopened(**batch), model(**batch))
    assert len(tokenizer) == len(reader.tokenizer)
    config = json.loads((tmp_path / "config.json").read_text())
    config["id2label"]["0"] = "however"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadRequest, match=r"a classifier of however, so, .*; fit it again"):
        open_classifier(tmp_path)


def test_encoders_that_cannot_be_used_are_refused(tmp_path, checkpoints):
    with pytest.raises(BadRequest, match="64 positions, 83 are needed; set `argument_tokens` lower"):
        build(checkpoints / "bert", tokens=40)
    with pytest.raises(BadRequest, match=r"no config\.json"):
        build(tmp_path)
    with pytest.raises(BadRequest, match="no such directory"):
        build(tmp_path / "nowhere" / "at" / "all")
    torn = checkpoints / "bert-without-some-weights"
    shutil.copytree(checkpoints / "bert", torn)
    weights = load_file(torn / "model.safetensors")
    del weights["encoder.layer.0.output.dense.weight"]
    save_file(weights, torn / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadRequest, match=r"it lacks the weights encoder.layer.0.output.dense.weight; give"):
        build(torn)


def test_rare_markers_are_drawn_more_often_and_the_loss_knows():
    labels = np.array([7] * 900 + [0] * 100)  # `and`, `although`
    rows = Ragged.of([np.array([5], dtype=np.int32)] * 1000)
    phase = Phase(EncodedPairs(rows, rows, labels), epochs=2, pairs_per_step=10, seed=0)
    drawn = np.bincount(labels[phase.drawn], minlength=10)
    assert drawn[[7, 0]].tolist() == [1500, 500]  # square roots of 900 and 100
    assert len(np.unique(phase.drawn[labels[phase.drawn] == 0])) == 100
    assert phase.log_shares.exp()[[7, 0]].tolist() == pytest.approx([0.75, 0.25], abs=0.01)
    assert torch.isfinite(phase.log_shares).all()


def test_macro_accuracy_of_the_most_frequent_marker_is_one_over_the_markers():
    markers = torch.zeros(2, len(MARKERS), dtype=torch.long)
    markers[0, [7, 0, 1]] = torch.tensor([90, 5, 5])  # pairs of each
    markers[1, 7] = 90  # found
    assert RelationObjective.figures(None, {"markers": markers}) == {"macro_accuracy": pytest.approx(1 / 3)}
