#!/bin/sh
# The storyteller that ships, from raw text to a writer, and what it is measured against.
# usage: recipes/nano/run.sh DATA    (DATA has tiny/ and tales/: see src/discodvt/assets/storyteller/README.md)
set -e
mkdir -p runs/nano
cat "$1/tiny/train.jsonl.gz" "$1/tales/tales.jsonl.gz" > runs/nano/train.jsonl.gz
discodvt prepare jsonl runs/nano/corpus --prompt-from opening-or-title --max-words 280 \
    --train runs/nano/train.jsonl.gz --valid "$1/tiny/valid.jsonl.gz" --test "$1/tiny/test.jsonl.gz"
discodvt annotate runs/nano/corpus runs/nano/annotated --workers 2
for stage in backbone reconstruct prior seq2seq no-relations; do
    discodvt train "recipes/nano/$stage.toml" --resume
done
discodvt codes measure runs/nano/writer runs/nano/annotated runs/nano/measured \
    --against runs/nano/seq2seq --without-relations runs/nano/no-relations
discodvt codes study runs/nano/writer runs/nano/annotated runs/nano/codes
python recipes/nano/judge.py runs/nano/writer runs/nano/seq2seq runs/nano/annotated runs/nano/judge
