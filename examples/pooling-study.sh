#!/bin/bash
# What a classifier should read: the first token or the mean of the tokens. One fine-tuning for each pooling,
# seed and set of data; what is there already is not made again, so it may be stopped and started at will. Each DATA is your own, a file
# or folder, or glue=TASK=FOLDER. EPOCHS takes the place of the task's own.
#
#   SEEDS="1 2 3" examples/pooling-study.sh pooling sentence-transformers/all-MiniLM-L6-v2 clinc150 glue=mrpc=nyu-mll/glue
set -euo pipefail
encoder=$2
if [ -d "$encoder" ]; then encoder=$(realpath "$encoder"); fi
out=$1
mkdir -p "$out/trained" "$out/scores"

for data in "${@:3}"; do
    name=$(basename "$data" | cut -d. -f1)
    on=(--data "$data")
    if [[ $data == glue=* ]]; then
        IFS== read -r _ name folder <<< "$data"
        on=(--data "$folder" --task "$name")
    fi
    rows=()
    for seed in ${SEEDS-42}; do
        for pooling in first mean; do
            albert-plus finetune --model "$encoder" "${on[@]}" --pooling "$pooling" --seed "$seed" ${EPOCHS:+--epochs "$EPOCHS"} --out "$out/trained/$pooling-$name-$seed"
            rows+=("$pooling=$out/trained/$pooling-$name-$seed")
        done
    done
    albert-plus eval "${rows[@]}" "${on[@]}" --out "$out/scores/$name"
done
