#!/bin/sh
# A storyteller that has learned to go on from the middle of a story, for `discodvt generate --words`; after run.sh.
# usage: recipes/nano/windows.sh BOOKS    (a .jsonl file of books with titles, or a directory of books)
# A window has the model's 512 subwords, its tail the 48 a long story is written with (src/discodvt/writing/long_story.py).
set -e
here=$(dirname "$0")
discodvt prepare books "$1" runs/nano/windows-corpus --tokenizer runs/nano/backbone --segment-length 512 --tail 48
discodvt annotate runs/nano/windows-corpus runs/nano/windows-annotated --workers 2
discodvt train "$here/windows.toml" --resume
discodvt train "$here/prior.toml" --set data.corpus=runs/nano/windows-annotated --set data.max_train_stories=20000 \
    --set model.init=runs/nano/windows --out runs/nano/windows-writer --resume
