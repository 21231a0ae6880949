#!/bin/sh
# People against models on the stories at hand: scores, comparisons, discourse and the report.
# DATA has {test,valid}.jsonl.gz; CLASSIFIER is made by `discodvt discourse fit` (without it, no discourse level).
set -e
data=${1:?usage: report.sh DATA [OUT [CLASSIFIER]]}
out=${2:-runs/stories-report}
classifier=$3
python recipes/stories/systems.py "$data" "$out/systems"
human=$out/systems/human.jsonl
other=$out/systems/other-prompt.jsonl
score() { # SYSTEM FOLDER OPTIONS...: scores of a system into FOLDER/SYSTEM
    system=$1 folder=$2
    shift 2
    discodvt evaluate "$out/systems/$system.jsonl" --references "$human" --out "$out/$folder/$system" "$@"
}
for system in human model other-prompt; do
    score $system modern --mode modern
done
score human scores
score other-prompt scores
score model scores --against "$other"
score model against-human --against "$human"
if [ "$classifier" ]; then
    judge() { # SYSTEM OPTIONS...
        system=$1
        shift
        discodvt discourse score "$out/systems/$system.jsonl" --references "$human" --classifier "$classifier" \
            --out "$out/discourse/$system" "$@"
    }
    judge model --against "$other"
    judge other-prompt
fi
set -- "$out"/scores/* "$out"/modern/* "$out"/against-human/*
[ "$classifier" ] && set -- "$@" "$out"/discourse/*
discodvt report "$@" --title "Stories by people and by models" --out "$out/report" --overwrite
