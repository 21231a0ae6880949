"""Checkpoints that are damaged, absurd or something else are refused in one line, before anything is built."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import BartForConditionalGeneration
from unit.writing.toy_writer import MOST_CODES, TOKENS_PER_CODE, save_bart, save_writer

from discodvt.checkpoints import STORYTELLER, Checkpoint, open_tokenizer
from discodvt.errors import BadRequest
from discodvt.lengths import Lengths
from discodvt.model import DiscoDVT
from discodvt.writing import StoryWriter


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return save_writer(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def broken(whole, tmp_path) -> Path:
    return shutil.copytree(whole, tmp_path / "broken")


def changed(file: Path, **values) -> None:
    """Put values where their keys are: beside the latent's sizes, or among those of the language model."""
    found = json.loads(file.read_text())
    for name, value in values.items():
        part = found["backbone_config"] if name in found.get("backbone_config", {}) else found
        part[name] = value
    file.write_text(json.dumps(found))


def write(directory: Path) -> None:
    StoryWriter.from_pretrained(directory).write("Ann", max_tokens=5)


def read(directory: Path) -> None:
    checkpoint = Checkpoint.open(directory)
    checkpoint.tokenizer()
    checkpoint.load(DiscoDVT)


USES = pytest.mark.parametrize("use", [write, read])


@USES
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"decoder_layers": -1}, "decoder_layers is -1"),
        ({"decoder_layers": 1}, "decoder_layers is 1; expected 2, as in the weights"),
        ({"encoder_layers": 10**9}, "encoder_layers is 1000000000"),
        ({"conv_layers": 3}, "conv_layers is 3; expected 2, as in the weights"),
        ({"decoder_attention_heads": 7}, "decoder_attention_heads is 7; expected a divisor of d_model 16"),
        ({"encoder_attention_heads": 0}, "encoder_attention_heads is 0"),
        ({"d_model": "wide"}, 'd_model is "wide"'),
        ({"vocab_size": 10**9}, "vocab_size is 1000000000"),
        ({"max_position_embeddings": 10**9}, "max_position_embeddings is 1000000000"),
    ],
)
def test_sizes_the_weights_do_not_bear_out(broken, use: Callable[[Path], None], wrong, told):
    changed(broken / "config.json", **wrong)
    with pytest.raises(BadRequest, match=told):
        use(broken)


@pytest.mark.parametrize("codes", [-5, 11, 10**9])
def test_another_number_of_codes(broken, codes):
    changed(broken / "config.json", num_codes=codes)
    for use in (write, read):
        with pytest.raises(BadRequest, match=r"num_codes|bottleneck.* is \[\d+"):
            use(broken)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"temperature": "hot"}, 'temperature is "hot"; expected a number of 0 or more'),
        ({"repetition_penalty": -1}, "repetition_penalty is -1"),
        ({"prompt_bias": -2}, "prompt_bias is -2"),
        ({"max_new_tokens": 2.5}, "max_new_tokens is 2.5; expected a whole number of 1 or more"),
        ({"prompt_tokens": 0}, "prompt_tokens is 0"),
    ],
)
def test_generation_settings_that_cannot_be(broken, wrong, told):
    changed(broken / "generation_config.json", **wrong)
    with pytest.raises(BadRequest, match=told):
        write(broken)


@USES
def test_a_tokenizer_that_is_missing_malformed_empty_or_of_another_model(broken, use: Callable[[Path], None]):
    path = broken / "tokenizer.json"
    kept = json.loads(path.read_text())
    vocab = {token: number for token, number in kept["model"]["vocab"].items() if number < 40}
    for text, told in (
        ("{", "no tokenizer in it"),
        ("", "no tokenizer in it"),
        ("{}", "no tokenizer in it"),
        (json.dumps(kept | {"model": kept["model"] | {"vocab": vocab, "merges": []}}), "do not belong together"),
    ):
        path.write_text(text)
        with pytest.raises(BadRequest, match=told):
            use(broken)
    path.unlink()
    with pytest.raises(BadRequest, match=r"no tokenizer\.json"):
        use(broken)


@USES
def test_weights_cut_short(broken, use: Callable[[Path], None]):
    weights = (broken / "model.safetensors").read_bytes()
    for size in (len(weights) - 100, 1000, 4):
        (broken / "model.safetensors").write_bytes(weights[:size])
        with pytest.raises(BadRequest, match="cannot be opened"):
            use(broken)


def test_a_checkpoint_of_another_kind_a_pickle_and_nothing_at_all(whole, broken, tmp_path):
    def refused(source: str | Path, told: str) -> None:
        with pytest.raises(BadRequest, match=told):
            Checkpoint.open(source).load(DiscoDVT)

    refused(save_bart(tmp_path / "bart"), "a bart checkpoint; give a DiscoDVT")
    refused(whole / "prior", "a discodvt-prior checkpoint")
    refused(tmp_path / "nowhere", "no such directory")
    refused("./nowhere", "no such directory")
    (broken / "model.safetensors").rename(broken / "model.bin")
    refused(broken, "model.bin is a pickle, which is never loaded")


def test_weights_that_are_missing_are_not_made_up(tmp_path):
    model = BartForConditionalGeneration.from_pretrained(save_bart(tmp_path))
    kept = {name: weight for name, weight in model.state_dict().items() if "decoder.layers.1.fc2" not in name}
    model.save_pretrained(tmp_path, state_dict=kept)
    with pytest.raises(BadRequest, match=r"lacks the weights model\.decoder\.layers\.1\.fc2\.bias and 1 more"):
        Checkpoint.open(tmp_path).load(BartForConditionalGeneration)


def test_what_is_whole_opens(whole):
    checkpoint = Checkpoint.open(whole)
    assert checkpoint.kind == "discodvt"
    assert checkpoint.prior is not None
    assert checkpoint.prior.kind == "discodvt-prior"
    assert len(open_tokenizer(whole)) == len(checkpoint.tokenizer()) == checkpoint.bare_tokenizer().get_vocab_size()
    weights, model = checkpoint.weights(), checkpoint.load(DiscoDVT, dropout=0.4)
    assert not model.training
    assert model.config.dropout == 0.4
    for name, weight in model.state_dict().items():
        if name in weights:
            assert torch.equal(weights[name], weight)
            assert weights.shape(name) == tuple(weight.shape)
    assert checkpoint.lengths.max_tokens == MOST_CODES * TOKENS_PER_CODE


@pytest.mark.skipif(not STORYTELLER.exists(), reason="the storyteller is not in this tree")
def test_the_lengths_kept_with_the_storyteller():
    lengths = Checkpoint.open(None).lengths
    assert (lengths.prompt_tokens, lengths.min_tokens, lengths.max_tokens) == (48, 40, 512)
    assert (lengths.min_codes, lengths.max_codes, lengths.positions) == (16, 128, 527)


def test_the_papers_lengths_at_paper_scale():
    lengths = Lengths.kept(1024, {}, prior={}, max_codes=64, tokens_per_code=8)
    assert lengths.tokens(None, None) == (100, 512)
    assert lengths.codes(None, None) == (1, 64)
    assert lengths.prompt_tokens == 1022


def test_a_model_keeps_its_own_lengths_and_a_request_comes_first():
    own = {"min_new_tokens": 40, "max_new_tokens": 300, "prompt_tokens": 48}
    lengths = Lengths.kept(520, own, prior={"min_new_tokens": 5}, max_codes=40, tokens_per_code=8)
    assert (lengths.tokens(None, None), lengths.codes(None, None), lengths.prompt_tokens) == (
        (40, 300),
        (5, 40),
        48,
    )
    assert lengths.tokens(None, 30) == (30, 30)
    assert lengths.tokens(None, 520) == (40, 520)
    for wrong in ((None, 521), (301, None)):
        with pytest.raises(BadRequest, match="ask for fewer"):
            lengths.tokens(*wrong)
    with pytest.raises(BadRequest, match="at most 40"):
        lengths.codes(None, 41)


def test_positions_limit_every_length():
    lengths = Lengths.kept(80, {}, prior={}, max_codes=0, tokens_per_code=0)
    assert lengths.tokens(None, None) == (15, 80)
