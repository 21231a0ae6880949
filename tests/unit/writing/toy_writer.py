"""Small random writers in directories as training leaves them; loud enough that every mistake shows."""

from pathlib import Path

import torch
from transformers import BartConfig, BartForConditionalGeneration

from discodvt.data.subwords import train_tokenizer
from discodvt.model import DiscoDVT, PlanPrior, PlanPriorConfig

TEXTS = [
    "Once there was a fox. He lost his hat, and he cried!",
    "Ann saw a café. “Oh,” she said. The naïve dog ran home 🦊.",
]
CODES, MOST_CODES, TOKENS_PER_CODE = 12, 9, 4


def _shape(vocabulary: int) -> BartConfig:
    return BartConfig(
        vocab_size=vocabulary,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=80,
        init_std=0.3,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
    )


def save_writer(
    directory: Path, *, prior: bool = True, dtype: torch.dtype = torch.float32, bottleneck: str = "gumbel"
) -> Path:
    """A DiscoDVT and, if wanted, its prior."""
    torch.manual_seed(0)
    codes = 16 if bottleneck == "bits" else CODES
    tokenizer = train_tokenizer(TEXTS, 320)
    shape = _shape(len(tokenizer))
    sizes = {"code_width": 8, "conv_channels": 8, "conv_layers": 2, "relation_width": 4, "num_relations": 3}
    model = DiscoDVT.from_bart(shape, num_codes=codes, bottleneck=bottleneck, **sizes)
    with torch.no_grad():
        model.up.projection.weight.normal_(std=3.0)
        model.generator.final_logits_bias.normal_(std=0.5)
    model.to(dtype).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    if prior:
        config = PlanPriorConfig.from_backbone_config(shape, num_codes=codes, max_codes=MOST_CODES)
        PlanPrior(config).to(dtype).save_pretrained(directory / "prior")
    return directory


def save_bart(directory: Path) -> Path:
    """A plain BART, as the `seq2seq` stage leaves it."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer(TEXTS, 320)
    BartForConditionalGeneration(_shape(len(tokenizer))).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
