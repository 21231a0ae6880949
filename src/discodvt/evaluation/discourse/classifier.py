"""The relation classifier: an encoder reads two arguments, a linear layer names the marker between them (section 4.6).

Features are those of InferSent (Conneau et al. 2017): [u; v; |u - v|; u * v] of the two arguments' vectors, each the
mean of its tokens' states. The encoder reads both as one sequence (`pair`: pretrained ones, as the paper's BERT) or
each alone (`twin`: better for small ones from scratch). `PairReader` turns marker pairs into its inputs, and `predict`
names the likeliest marker of each.

Where the encoder comes from: `small` is trained from scratch, with a BPE of its own; a DiscoDVT gives its posterior;
any other checkpoint (a directory or Hub id, safetensors only) its encoder.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from discodvt.checkpoints import Checkpoint
from discodvt.data.batches import Rows, in_order, padded
from discodvt.data.subwords import as_input, train_tokenizer
from discodvt.data.tokens import Ints, Ragged
from discodvt.discourse.labels import MARKERS
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.marker_pairs import Pair
from discodvt.evaluation.encoder import encoder_of, open_encoder
from discodvt.evaluation.metric import Ints as Labels
from discodvt.model import DiscoDVTConfig
from discodvt.model.backbones import masked_mean
from discodvt.training.weights import bart_config

Reading: TypeAlias = Literal["pair", "twin"]
SMALL = "small"  # the encoder trained from scratch
SMALL_VOCABULARY = 8192
# Two layers of width 128: what one core trains in minutes. A decoder is named, but no part of the classifier.
SMALL_SHAPE = {"width": 128, "encoder_layers": 2, "decoder_layers": 1, "heads": 4, "ffn_width": 256}
PAIRS_PER_BLOCK = 4096
PAIRS_PER_BATCH = 256
_MARKER_IDS = {marker: place for place, marker in enumerate(MARKERS)}


class RelationClassifierConfig(PreTrainedConfig):
    """The encoder's own configuration, how it reads a pair, and how many subwords of each argument."""

    model_type = "discodvt-relations"

    encoder: dict[str, Any] | None = None
    reading: str = "pair"
    argument_tokens: int = 64

    @classmethod
    def around(cls, encoder: PreTrainedConfig, *, reading: Reading, argument_tokens: int) -> "RelationClassifierConfig":
        """The configuration of a classifier of the ten markers with such an encoder."""
        return cls(
            encoder=encoder.to_dict(),
            reading=reading,
            argument_tokens=argument_tokens,
            id2label=dict(enumerate(MARKERS)),
            label2id={marker: place for place, marker in enumerate(MARKERS)},
        )


AutoConfig.register(RelationClassifierConfig.model_type, RelationClassifierConfig, exist_ok=True)


class RelationClassifier(PreTrainedModel):
    """Two arguments in, a logit for each marker out."""

    config: RelationClassifierConfig
    config_class = RelationClassifierConfig
    _supports_sdpa = True

    def __init__(self, config: RelationClassifierConfig) -> None:
        super().__init__(config)
        shape: Any = AutoConfig.for_model(**(config.encoder or {}))
        self.encoder = encoder_of(AutoModel.from_config(shape))
        self.head = nn.Linear(4 * shape.hidden_size, len(MARKERS))
        self.typed = config.reading == "pair" and getattr(shape, "type_vocab_size", 0) > 1
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, sides: Tensor) -> Tensor:
        """Logits [B, markers]. `sides` is 1 on the tokens of Arg1, 2 on those of Arg2; all three are [R, T].

        A pair is one row; of twins the first B rows are the Arg1s, the second B the Arg2s.
        """
        types = {"token_type_ids": (sides == 2).long()} if self.typed else {}
        outputs = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types)
        u, v = (masked_mean(outputs.last_hidden_state, sides == side) for side in (1, 2))  # [R, D] each
        if self.config.reading == "twin":
            half = len(sides) // 2
            u, v = u[:half], v[half:]
        logits: Tensor = self.head(torch.cat([u, v, (u - v).abs(), u * v], dim=-1))
        return logits

    def _init_weights(self, module: nn.Module) -> None:
        """The head keeps PyTorch's initialization; the encoder initializes itself."""
        if module is self.head:
            self.head.reset_parameters()


def build_classifier(
    source: str, texts: Iterable[str], *, argument_tokens: int, seed: int
) -> tuple[RelationClassifier, PreTrainedTokenizerBase]:
    """A classifier around the encoder of `source`, its head untrained; `texts` are for the subwords of `small`."""
    torch.manual_seed(seed)
    if source == SMALL:
        tokenizer = train_tokenizer(texts, SMALL_VOCABULARY)
        small = bart_config(tokenizer, positions=argument_tokens + 2, **SMALL_SHAPE)
        config = RelationClassifierConfig.around(small, reading="twin", argument_tokens=argument_tokens)
        return RelationClassifier(config), tokenizer
    checkpoint = Checkpoint.open(source)
    encoder, tokenizer = open_encoder(checkpoint), checkpoint.tokenizer()
    reading: Reading = "twin" if encoder.part_of == DiscoDVTConfig.model_type else "pair"
    _check(source, encoder.config, tokenizer, argument_tokens + 2 if reading == "twin" else 2 * argument_tokens + 3)
    config = RelationClassifierConfig.around(encoder.config, reading=reading, argument_tokens=argument_tokens)
    model = RelationClassifier(config)
    model.encoder.load_state_dict(encoder.model.state_dict())
    return model, tokenizer


def _check(source: str, encoder: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, needed: int) -> None:
    """Refuse an encoder that cannot read pairs of this length."""
    positions = getattr(encoder, "max_position_embeddings", None)
    if positions is not None and needed > positions:
        raise BadRequest(
            f"{source}: has {positions} positions, {needed} are needed; set `argument_tokens` lower",
            parameter="argument_tokens",
        )
    if None in (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id):
        raise BadRequest(f"{source}: its tokenizer lacks a start, separating or padding token; give another encoder")


def open_classifier(
    directory: Path, *, device: torch.device | str = "cpu"
) -> tuple[RelationClassifier, PreTrainedTokenizerBase]:
    """A classifier as `discodvt discourse fit` leaves it, in eval mode; one of other markers is refused."""
    checkpoint = Checkpoint.open(directory).require(RelationClassifierConfig.model_type)
    model: RelationClassifier = checkpoint.load(RelationClassifier, device=device)
    labels = tuple((model.config.id2label or {}).values())
    if labels != MARKERS:
        found = ", ".join(map(str, labels))
        raise BadRequest(f"{directory}: a classifier of {found}; expected {', '.join(MARKERS)}; fit it again")
    return model, checkpoint.tokenizer()


@dataclass(frozen=True, slots=True)
class EncodedPairs:
    """Pair i: subwords `first[i]` of Arg1 and `second[i]` of Arg2, without specials, and the number of its marker."""

    first: Ragged
    second: Ragged
    labels: NDArray[np.int64]  # [P]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> Rows:
        return self.first.lengths + self.second.lengths


@dataclass(frozen=True, slots=True)
class PairReader:
    """Turns pairs into what one classifier reads: its subwords, its specials, one row a pair or two."""

    tokenizer: PreTrainedTokenizerBase
    reading: str
    argument_tokens: int  # kept of each argument, from its beginning

    def encode(self, pairs: Iterable[Pair]) -> EncodedPairs:
        """Tokenise pairs as they come, a block at a time."""
        stream = iter(pairs)
        first: list[Ints] = []
        second: list[Ints] = []
        labels: list[int] = []
        while block := list(islice(stream, PAIRS_PER_BLOCK)):
            first += self._subwords([pair.arg1 for pair in block])
            second += self._subwords([pair.arg2 for pair in block])
            labels += [_MARKER_IDS[pair.marker] for pair in block]
        return EncodedPairs(Ragged.of(first), Ragged.of(second), np.array(labels, dtype=np.int64))

    def batch(self, pairs: EncodedPairs, rows: Rows) -> dict[str, Tensor]:
        """Inputs of `RelationClassifier.forward` for some pairs."""
        start, end = [self.tokenizer.cls_token_id], [self.tokenizer.sep_token_id]
        firsts = [np.concatenate([start, pairs.first[row], end]).astype(np.int32) for row in rows]
        seconds = [np.concatenate([start, pairs.second[row], end]).astype(np.int32) for row in rows]
        if self.reading == "twin":
            ids, mask = padded([*firsts, *seconds], self.tokenizer.pad_token_id)
            sides = mask.clone()
            sides[len(rows) :] *= 2
        else:
            joined = [np.concatenate([one, two[1:]]) for one, two in zip(firsts, seconds, strict=True)]
            ids, mask = padded(joined, self.tokenizer.pad_token_id)
            ends = torch.tensor([len(one) for one in firsts])[:, None]
            sides = mask * torch.where(torch.arange(mask.shape[1]) < ends, 1, 2)
        return {"input_ids": ids, "attention_mask": mask, "sides": sides}

    def _subwords(self, texts: list[str]) -> list[Ints]:
        backend = self.tokenizer.backend_tokenizer
        encoded = backend.encode_batch([as_input(text) for text in texts], add_special_tokens=False)
        return [np.array(each.ids[: self.argument_tokens], dtype=np.int32) for each in encoded]


@torch.no_grad()
def predict(model: RelationClassifier, reader: PairReader, pairs: EncodedPairs) -> Labels:
    """The number of the likeliest marker of each pair, [P]; every marker is as likely as any other beforehand."""
    model.eval()
    found: Labels = np.zeros(len(pairs), dtype=np.int64)
    for rows in in_order(pairs.lengths, PAIRS_PER_BATCH):
        batch = {name: value.to(model.device) for name, value in reader.batch(pairs, rows).items()}
        found[rows] = model(**batch).argmax(dim=-1).cpu().numpy()
    return found


def shuffled(pairs: EncodedPairs, *, seed: int) -> EncodedPairs:
    """The same pairs with one another's markers: a classifier trained on them must fall to chance."""
    return replace(pairs, labels=np.random.default_rng(seed).permutation(pairs.labels))
