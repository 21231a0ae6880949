#!/bin/sh
# All stages from the data directory to the pipeline that ships in OUT/parser: sh train.sh DATA OUT
set -eu
export OMP_NUM_THREADS=1
data=$1
out=$2
here=$(dirname "$0")
gold=$out/corpus/en_ewt-ud
mkdir -p "$out/corpus" "$out/trees/early" "$out/trees/late"

silver() { # silver FILE EPOCH SEED: prose parsed by the teacher as it was after an epoch
    python "$here/silver.py" "$data" "$out/teacher/epoch-$2.pt" "$1" --seed "$3"
}

student() { # student NAME CONFIG START TRAIN STEPS DECAY RATE WORDS SEED: STEPS of a linear decay over DECAY steps
    python -m spacy train "$here/$2" -o "$out/$1" --paths.start "$3" --paths.train "$4" --paths.dev "$gold-dev.spacy" \
        --training.max_steps "$5" --training.optimizer.learn_rate.total_steps "$6" \
        --training.optimizer.learn_rate.initial_rate "$7" --training.batcher.size "$8" --system.seed "$9"
}

# Treebank, vectors, teacher
for part in train dev test; do
    python -m spacy convert "$data/treebank/en_ewt-ud-$part.conllu" "$out/corpus" -c conllu -n 10
done
python "$here/vectors.py" "$data" "$gold-train.spacy" "$out/vectors"
python "$here/base.py" "$out/vectors/vectors.txt" "$out/base"
python "$here/teacher.py" "$data/treebank/en_ewt-ud-train.conllu" "$data/treebank/en_ewt-ud-dev.conllu" "$out/teacher"

# Silver trees: early ones to get going, late (better) ones for the rest, beside three copies of the gold trees
for seed in 1 2; do silver "$out/trees/early/silver$seed.spacy" 1 "$seed"; done
for seed in 11 12; do silver "$out/trees/late/silver$seed.spacy" 4 "$seed"; done
cp "$gold-train.spacy" "$out/trees/early/gold.spacy"
for copy in 1 2 3; do cp "$gold-train.spacy" "$out/trees/late/gold$copy.spacy"; done

# Student
student warm config.cfg "$out/base" "$gold-train.spacy" 900 1800 0.001 1000 0
student early1 continue.cfg "$out/warm/model-best" "$out/trees/early" 800 8000 0.001 1000 0
student early2 continue.cfg "$out/early1/model-best" "$out/trees/early" 1200 40000 0.001 400 0
student tuned continue.cfg "$out/early2/model-best" "$gold-train.spacy" 1600 1600 0.001 400 0
student late continue.cfg "$out/tuned/model-best" "$out/trees/late" 5000 5000 0.001 400 0
student gold continue.cfg "$out/tuned/model-best" "$gold-train.spacy" 4000 4000 0.001 400 0
python "$here/soup.py" "$out/late/model-best" "$out/gold/model-best" "$out/soup"
student last1 continue.cfg "$out/soup" "$out/trees/late" 2000 2000 0.0007 400 1
student last2 continue.cfg "$out/soup" "$out/trees/late" 2200 2200 0.0007 400 2
python "$here/soup.py" "$out/late/model-best" "$out/gold/model-best" "$out/last1/model-last" "$out/last2/model-last" "$out/soup4"
for seed in 3 4; do student "long$seed" continue.cfg "$out/soup4" "$out/trees/late" 6000 6000 0.001 400 "$seed"; done
python "$here/soup.py" "$out/long3/model-best" "$out/long4/model-best" "$out/final"

# Scores, speed next to the stock configuration, and the directory that ships
python -m spacy init config "$out/stock.cfg" -l en -p tagger,parser -o efficiency --force
python -m spacy train "$out/stock.cfg" -o "$out/stock" --paths.train "$gold-train.spacy" --paths.dev "$gold-dev.spacy"
python "$here/evaluate.py" "$out/final" "$out/stock/model-best" "$gold-dev.spacy" "$gold-test.spacy" \
    "$data/stories/valid.jsonl.gz" "$out/scores.json"
python "$here/package.py" "$out/final" "$out/scores.json" "$out/parser"
