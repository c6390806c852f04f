#!/bin/bash
# Scores, times and draws the models of compression-study.sh: it wants a quiet machine. TASKS names some of the tasks, ROUNDS the passes
# of which a throughput is the median (5).
#
#   examples/compression-measure.sh study nyu-mll/glue
set -euo pipefail
glue=$2
if [ -d "$glue" ]; then glue=$(realpath "$glue"); fi
cd "$1"

for task in ${TASKS-sst2 mrpc cola}; do
    rows=("teacher=models/teacher-$task" "teacher-sparse=models/teacher-sparse-$task:onnx")
    for model in teacher teacher-pruned student student-pruned deep deep-pruned; do
        rows+=("$model=models/$model-$task:onnx" "$model=models/$model-$task:onnx-int8")
    done
    rows+=("teacher-qat=models/teacher-qat-$task:onnx-int8" "teacher-qat=models/teacher-qat-$task:onnx-qdq")
    # Refused where it does not say what torch says.
    if [ -d "models/teacher-bits-$task" ]; then rows+=("teacher-bits=models/teacher-bits-$task:onnx-nbits"); fi
    # The teacher learns with its exits: the same engine without them is its own.
    rows+=("teacher-exits=models/teacher-exits-$task:onnx" "teacher-exits=models/teacher-exits-$task:onnx-int8")
    leaving=()
    for model in teacher-exits deep-exits deep-loop deep-pooled-exits deep-pruned-exits student-pruned-exits; do
        leaving+=("$model=models/$model-$task:onnx-exits" "$model=models/$model-$task:onnx-int8-exits")
    done
    albert-plus eval "${rows[@]}" "${leaving[@]}" --data "$glue" --task "$task" --batching file:32 --batching length --batching file:1 \
        --rounds "${ROUNDS-5}" --json "scores-$task.json"
    # Fixed shapes for rows without exits, whole passes for all, which is what the frontier is drawn of.
    albert-plus bench "${rows[@]}" "${leaving[@]}" --baseline "teacher=models/teacher-$task" --shapes 1x16,8x128 --data "$glue" --task "$task" \
        --scenario offline --seconds 1 --json "latency-$task.json"
    rm -rf "report-$task" # of another measuring
    albert-plus report --scores "scores-$task.json" --bench "latency-$task.json" --title "Compression, $task" --data-name "$glue" --out "report-$task"
    # Exits against the same engine without them, each pair by itself, on one task.
    if [ "$task" != sst2 ]; then continue; fi
    for pair in "teacher-exits teacher-exits" "deep deep-exits"; do
        read -r plain exits <<< "$pair"
        for runtime in onnx onnx-int8; do
            albert-plus bench "plain=models/$plain-$task:$runtime" "exits=models/$exits-$task:$runtime-exits" --baseline "plain=models/$plain-$task:$runtime" \
                --data "$glue" --task "$task" --scenario single-stream --scenario offline --seconds 4 --json "$exits-$runtime-$task.json"
        done
    done
done
