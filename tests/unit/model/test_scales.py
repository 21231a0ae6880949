"""States and latents of a causal backbone have a common size, however large its norms and small its embeddings are."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from discodvt.model import DiscoDVT


@pytest.fixture
def model() -> DiscoDVT:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=80, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    backbone = LlamaForCausalLM(config)
    torch.nn.init.constant_(backbone.model.norm.weight, 30.0)
    return DiscoDVT.from_backbone(backbone, num_codes=16, bottleneck="bits", code_width=8, conv_channels=8).eval()


def test_the_posteriors_states_have_size_one(model: DiscoDVT) -> None:
    ids = torch.randint(3, 80, (4, 64), generator=torch.Generator().manual_seed(1))
    states = model._read_states(ids, torch.ones_like(ids))
    assert states.square().mean().sqrt().item() == pytest.approx(1, rel=0.1)


def test_relations_are_predicted_from_latents_as_they_were_before_their_scale(model: DiscoDVT) -> None:
    latent = torch.randn(1, 8, 16)
    pooling = torch.eye(2).repeat_interleave(4, dim=1)[None] / 4
    pairs, scale = torch.tensor([[0, 0]]), model.config.latent_scale
    assert scale < 0.2
    plain = model.relation_head(latent * scale, pooling, pairs)
    model.relation_head.scale = 1.0
    torch.testing.assert_close(plain, model.relation_head(latent, pooling, pairs))
