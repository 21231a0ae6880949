#!/bin/sh
# The grid of this folder in the order in which its parts are wanted; what is finished is skipped, so it can be repeated.
# A report is written after each part, of what is complete by then. "$@" goes to every `discodvt grid`.
here=$(dirname "$0")
main="--only Seq2Seq --only BART --only BART-LM --only BART-CVAE --only DiscoDVT"
for part in "$main --seed 0" "$main" "$main --only AR" ""; do
    # shellcheck disable=SC2086 # words of options
    python -m discodvt grid "$here/grid.toml" $part "$@" || [ $? -ne 130 ] || exit 130 # Ctrl-C ends all parts
done
