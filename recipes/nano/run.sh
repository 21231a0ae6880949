#!/bin/sh
# The storyteller that ships: corpus directory in (train/valid/test.parquet, with prompts), writer out.
# usage: recipes/nano/run.sh CORPUS
set -e
discodvt annotate "$1" runs/nano/annotated
for stage in pretrain reconstruct prior seq2seq; do
    discodvt train "recipes/nano/$stage.toml" --resume
done
