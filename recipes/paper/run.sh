#!/bin/sh
# The paper, stage by stage, on one or more GPUs. BOOKS, PLOTS and PROMPTS are the raw corpora (docs/training.md).
# For several GPUs, put `accelerate launch -m` in the place of `python -m`.
set -e
launch="${LAUNCH:-python -m}"
discodvt prepare books "$BOOKS" runs/paper/books
discodvt prepare wikiplots "$PLOTS" runs/paper/wikiplots-corpus
discodvt prepare writingprompts "$PROMPTS" runs/paper/writingprompts-corpus
$launch discodvt train recipes/paper/warm-start.toml --resume
for corpus in wikiplots writingprompts; do
    discodvt annotate "runs/paper/$corpus-corpus" "runs/paper/$corpus-annotated"
    $launch discodvt train "recipes/paper/$corpus.toml" --resume
    $launch discodvt train "recipes/paper/$corpus-prior.toml" --resume
done
