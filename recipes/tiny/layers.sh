#!/bin/sh
# The effect of the number of CNN layers (appendix A.1): a writer for each, its codes measured, its stories scored.
# usage: sh recipes/tiny/layers.sh [LAYERS...], after recipes/tiny/run.sh
set -e
out=runs/tiny/layers
corpus=runs/tiny/annotated
mkdir -p "$out/stories"
for layers in ${*:-1 2 3}; do
    name=cnn-$layers
    discodvt train recipes/tiny/warm-start.toml --set model.conv_layers="$layers" --out "$out/warm-start/$name" --resume
    discodvt train recipes/tiny/reconstruct.toml --set model.init="$out/warm-start/$name" \
        --out "$out/reconstruct/$name" --resume
    discodvt train recipes/tiny/prior.toml --set model.init="$out/reconstruct/$name" --out "$out/writer/$name" --resume
    discodvt codes measure "$out/writer/$name" "$corpus" "$out/measured/$name"
    discodvt generate --prompts "$corpus/test.parquet" --model "$out/writer/$name" --output "$out/stories/$name.jsonl"
    discodvt evaluate "$out/stories/$name.jsonl" --references "$corpus" --out "$out/scores/$name"
done
discodvt codes compare "$out"/measured/* --csv "$out/layers.csv" --plot "$out/utilisation.svg"
discodvt report "$out"/measured/* "$out"/scores/* --title "The number of CNN layers" --out "$out/report" --overwrite
