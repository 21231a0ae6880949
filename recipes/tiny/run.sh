#!/bin/sh
# From raw text to a writer on a laptop CPU, in minutes: every stage, nothing worth reading at the end.
set -e
mkdir -p runs/tiny
python recipes/tiny/stories.py 600 > runs/tiny/stories.jsonl
discodvt prepare jsonl runs/tiny/stories.jsonl runs/tiny/corpus
discodvt annotate runs/tiny/corpus runs/tiny/annotated
for stage in pretrain warm-start reconstruct prior seq2seq; do
    discodvt train "recipes/tiny/$stage.toml" --resume
done
