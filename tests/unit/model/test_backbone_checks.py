"""What a causal language model must be able to do before it is trained as a backbone."""

import pytest
import torch
from torch.nn import functional as F
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPTNeoConfig,
    GraniteConfig,
    LlamaConfig,
    MambaConfig,
    PhiConfig,
)

from discodvt.config import NewBackbone
from discodvt.data.subwords import train_tokenizer
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT
from discodvt.model.backbones import new_backbone
from discodvt.model.prior import new_prior
from discodvt.training.weights import language_model

SIZES = {"vocab_size": 300, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
ENDS = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
PLAN = {"num_codes": 4, "code_width": 8, "conv_channels": 8, "relation_width": 4, "num_relations": 3}


@pytest.fixture
def tokenizer():
    return train_tokenizer(["Once there was a fox. He lost his hat."], 300)


def settings(directory, config, **more) -> NewBackbone:
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    return NewBackbone(init=str(directory), **more)


def test_a_model_whose_logits_are_made_otherwise_is_refused_by_every_stage(tmp_path, tokenizer):
    granite = GraniteConfig(**SIZES, **ENDS, intermediate_size=16, logits_scaling=8.0)
    with pytest.raises(BadRequest, match="a granite model makes its logits in a way that is not supported"):
        language_model(settings(tmp_path, granite), tokenizer, None)


def test_a_model_of_other_layers_is_refused_in_one_line(tmp_path, tokenizer):
    mamba = MambaConfig(vocab_size=300, hidden_size=16, num_hidden_layers=2, state_size=4, **ENDS)
    with pytest.raises(BadRequest, match="a mamba model"):
        DiscoDVT.from_backbone(AutoModelForCausalLM.from_config(mamba), **PLAN)


def test_a_posterior_that_keeps_its_mask_is_told():
    shape = {"vocab_size": 300, "hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_position_embeddings": 64}
    neo = GPTNeoConfig(**shape, **ENDS, attention_types=[[["global"], 2]])
    with pytest.warns(UserWarning, match="the posterior of a gpt_neo model reads left to right"):
        DiscoDVT.from_backbone(AutoModelForCausalLM.from_config(neo), **PLAN)


def test_dropout_is_set_where_a_model_has_it(tmp_path, tokenizer):
    llama = LlamaConfig(**SIZES, **ENDS, intermediate_size=16)
    assert language_model(settings(tmp_path, llama, dropout=0.3), tokenizer, None).config.attention_dropout == 0.3
    shape = {"width": 8, "encoder_layers": 1, "decoder_layers": 1, "heads": 1, "ffn_width": 8, "positions": 32}
    assert language_model(NewBackbone(shape=shape, dropout=0.3), tokenizer, None).config.dropout == 0.3


def test_an_output_bias_learns():
    torch.manual_seed(0)
    phi: torch.nn.Module = AutoModelForCausalLM.from_config(PhiConfig(**SIZES, **ENDS, intermediate_size=16))
    states, labels = torch.randn(2, 5, 16), torch.randint(300, (2, 5))
    (new_backbone(phi.config).summed_loss(phi, states, labels) / 3).backward()
    ours = phi.lm_head.bias.grad.clone()
    phi.zero_grad()
    (F.cross_entropy(phi.lm_head(states).flatten(0, 1), labels.flatten(), reduction="sum") / 3).backward()
    torch.testing.assert_close(ours, phi.lm_head.bias.grad)


def test_codes_are_bounded_in_training_as_they_are_drawn():
    torch.manual_seed(0)
    sizes = {**SIZES, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 16}
    gemma = Gemma2Config(**sizes, **ENDS, final_logit_softcapping=1e-3, attn_implementation="eager")
    prior = new_prior(DiscoDVT.from_backbone(AutoModelForCausalLM.from_config(gemma), **PLAN), max_codes=8)
    ids = torch.tensor([[5, 6]])
    logits = prior(ids, torch.ones_like(ids), decoder_input_ids=torch.tensor([[4]])).logits
    assert logits[..., :4].abs().max() <= 1e-3
