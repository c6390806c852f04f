#!/bin/bash
# What data of one's own give (docs/results/own-data.md): `albert-plus run` on each set, a seed at a time, and beside
# it a plain fine-tuning by transformers' Trainer. What is there already is not made again, so it may be stopped and started at will.
# SEEDS names the seeds, MAX_LENGTH the longest text in tokens. Each DATA is a folder with a training and a test split.
#
#   SEEDS="1 2 3" examples/own-data-study.sh study sentence-transformers/all-MiniLM-L6-v2 clinc150 snips nlupp-banking stsb
#   MAX_LENGTH=256 SEEDS=1 examples/own-data-study.sh study sentence-transformers/all-MiniLM-L6-v2 imdb
set -euo pipefail
here=$(dirname "$0")
out=$1 encoder=$2 length=${MAX_LENGTH-128}
mkdir -p "$out/runs" "$out/plain" "$out/scores" "$out/latency" "$out/reports"

for data in "${@:3}"; do
    name=$(basename "$data" | cut -d. -f1)
    targets=() floors=() times=()
    for seed in ${SEEDS-42}; do
        run=$out/runs/$name-$seed plain=$out/plain/$name-$seed
        albert-plus run --teacher "$encoder" --data "$data" --max-length "$length" --seed "$seed" --student third --stop-after eval --out "$run"
        if [ ! -f "$plain/task.json" ]; then python "$here/plain_trainer.py" "$encoder" "$data" "$plain" "$seed" "$length"; fi
        task=$(basename "$run"/floor/*)  # another name than the data's where GLUE has a task of that name
        targets+=("plain=$plain")
        for role in teacher student; do
            targets+=("$role=$run/models/$role-$task" "$role=$run/models/$role-$task:onnx-int8")
        done
        if [ -z "${times[*]}" ]; then
            floors=(--scores "$run/floor/$task/scores.json")
            times=("${targets[@]:1}")
        fi
    done
    albert-plus eval "${targets[@]}" --data "$data" --out "$out/scores/$name"
    albert-plus bench "${times[@]}" --data "$data" --baseline "${times[0]}" --scenario single-stream \
        --scenario offline --out "$out/latency/$name"
    albert-plus report --scores "$out/scores/$name/scores.json" "${floors[@]}" --bench "$out/latency/$name/latency.json" \
        --data-name "$name" --out "$out/reports/$name"
done
