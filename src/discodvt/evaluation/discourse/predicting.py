"""Which marker a classifier would put between the arguments of each pair."""

import numpy as np
import torch

from discodvt.data.batches import in_order
from discodvt.evaluation.arrays import Ints
from discodvt.evaluation.discourse.classifier import RelationClassifier
from discodvt.evaluation.discourse.encoding import EncodedPairs, PairReader

PAIRS_PER_BATCH = 256


@torch.no_grad()
def predict(model: RelationClassifier, reader: PairReader, pairs: EncodedPairs) -> Ints:
    """The number of the likeliest marker of each pair, [P]; every marker is as likely as any other beforehand."""
    model.eval()
    found: Ints = np.zeros(len(pairs), dtype=np.int64)
    for rows in in_order(pairs.lengths, PAIRS_PER_BATCH):
        batch = {name: value.to(model.device) for name, value in reader.batch(pairs, rows).items()}
        found[rows] = model(**batch).argmax(dim=-1).cpu().numpy()
    return found


def macro_accuracy(predicted: Ints, labels: Ints) -> float:
    """Mean over the markers there are of the share of their pairs that was found."""
    return float(np.mean([(predicted[labels == marker] == marker).mean() for marker in np.unique(labels)]))
