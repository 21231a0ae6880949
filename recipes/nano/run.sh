#!/bin/sh
# The storyteller that ships, from raw text to a writer, and what it is measured against.
# usage: recipes/nano/run.sh DATA SAMPLER    (DATA has tiny/ and tales/; SAMPLER is the folder of the story model's
# weights.npz and sample.py: see src/discodvt/assets/storyteller/README.md)
set -e
data=$1 sampler=$2 here=$(dirname "$0")
mkdir -p runs/nano
python "$here/backbone.py" "$sampler/weights.npz" runs/nano/backbone \
    --words-of "$data/tales/tales.jsonl.gz" --at-least 60 --positions 576
[ -e runs/nano/more.jsonl ] || python "$here/more_stories.py" "$sampler" runs/nano/more.jsonl --seed 11 --minutes 30
python "$here/data.py" "$data" runs/nano/raw --more runs/nano/more.jsonl
discodvt prepare jsonl runs/nano/corpus --train runs/nano/raw/train.jsonl --valid runs/nano/raw/valid.jsonl \
    --test runs/nano/raw/test.jsonl
discodvt annotate runs/nano/corpus runs/nano/annotated --workers 2
for stage in codes reconstruct prior weak-plans; do
    discodvt train "$here/$stage.toml" --resume
done
[ -e runs/nano/weak-plans/prior ] || cp -r runs/nano/writer/prior runs/nano/weak-plans/

# The same backbone and data without a plan.
discodvt train "$here/seq2seq.toml" --resume

discodvt codes measure runs/nano/weak-plans runs/nano/annotated runs/nano/measured --against runs/nano/seq2seq
discodvt codes study runs/nano/weak-plans runs/nano/annotated runs/nano/meanings
