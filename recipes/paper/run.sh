#!/bin/sh
# The paper, stage by stage, on one or more GPUs: corpora, training, stories to 1,000 test prompts, their scores.
# BOOKS, PLOTS and PROMPTS are the raw corpora (docs/corpora.md), BART a directory with BART's tokenizer.
# For several GPUs, set LAUNCH="accelerate launch -m".
set -e
launch="${LAUNCH:-python -m}"
discodvt prepare books "$BOOKS" runs/paper/books --tokenizer "$BART"
discodvt prepare wikiplots "$PLOTS" runs/paper/wikiplots-corpus
discodvt prepare writingprompts "$PROMPTS" runs/paper/writingprompts-corpus
$launch discodvt train recipes/paper/warm-start.toml --resume
for corpus in wikiplots writingprompts; do
    discodvt annotate "runs/paper/$corpus-corpus" "runs/paper/$corpus-annotated"
    $launch discodvt train "recipes/paper/$corpus.toml" --resume
    $launch discodvt train "recipes/paper/$corpus-prior.toml" --resume
    asked=runs/paper/$corpus-asked.parquet stories=runs/paper/$corpus-stories.jsonl
    python -c "import sys, pyarrow.parquet as pq; pq.write_table(pq.read_table(sys.argv[1])[:1000], sys.argv[2])" \
        "runs/paper/$corpus-annotated/test.parquet" "$asked"
    discodvt generate --prompts "$asked" --model "runs/paper/$corpus-writer" --output "$stories"
    discodvt evaluate "$stories" --references "$asked" --out "runs/paper/$corpus-scores"
done
