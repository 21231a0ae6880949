#!/bin/sh
# The storyteller that ships, from raw text to a writer, and what it is measured against.
# usage: recipes/nano/run.sh DATA    (DATA has tiny/ and tales/: see src/discodvt/assets/storyteller/README.md)
set -e
mkdir -p runs/nano
cat "$1/tiny/train.jsonl.gz" "$1/tales/tales.jsonl.gz" > runs/nano/train.jsonl.gz
discodvt prepare jsonl runs/nano/corpus --prompt-from opening-or-title --max-words 280 \
    --train runs/nano/train.jsonl.gz --valid "$1/tiny/valid.jsonl.gz" --test "$1/tiny/test.jsonl.gz"
discodvt annotate runs/nano/corpus runs/nano/annotated --workers 2
for stage in backbone first-codes reconstruct prior; do
    discodvt train "recipes/nano/$stage.toml" --resume
done

# The same steps without a plan, and without the relation loss.
discodvt train recipes/nano/seq2seq.toml --resume --set out=runs/nano/first-seq2seq --set model.init=runs/nano/backbone \
    --set run.steps=1600 --set optimizer.learning_rate=1e-3
discodvt train recipes/nano/seq2seq.toml --resume
discodvt train recipes/nano/first-codes.toml --resume --set out=runs/nano/first-no-relations --set loss.relation=0
discodvt train recipes/nano/reconstruct.toml --resume --set out=runs/nano/no-relations \
    --set model.init=runs/nano/first-no-relations --set loss.relation=0

discodvt codes measure runs/nano/writer runs/nano/annotated runs/nano/measured \
    --against runs/nano/seq2seq --without-relations runs/nano/no-relations
discodvt codes study runs/nano/writer runs/nano/annotated runs/nano/codes
python recipes/nano/compare.py runs/nano/writer runs/nano/seq2seq runs/nano/annotated runs/nano/judge --temperature 0.7 --repetition-penalty 1.08
