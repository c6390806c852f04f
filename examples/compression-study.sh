#!/bin/bash
# The models of the study of compression (docs/results/compression.md): exits, pruning, few bits and stacks of them, from one encoder, on three tasks.
# What is there already is not made again, so it may be stopped and started at will, and TASKS names those of one process:
# `TASKS=sst2` beside `TASKS="mrpc cola"` is one for each core, once the general students are there (`TASKS=`).
#
#   examples/compression-study.sh study nyu-mll/glue sentence-transformers/all-MiniLM-L6-v2 text.txt
#   examples/compression-measure.sh study nyu-mll/glue
#
# text.txt, a paragraph a line and a blank line between documents, is what the general students learn from.
set -euo pipefail
glue=$2 encoder=$3 text=$(realpath "$4")
if [ -d "$glue" ]; then glue=$(realpath "$glue"); fi
if [ -d "$encoder" ]; then encoder=$(realpath "$encoder"); fi
mkdir -p "$1"
cd "$1"

declare -A epochs=([sst2]=1 [mrpc]=4 [cola]=4)

albert-plus convert "$encoder" --out trained/encoder
general=(--method tinybert --phases general --teacher trained/encoder --text "$text" --learning-rate 5e-4 --batch-size 32 --max-length 64)
# Three layers that are one.
albert-plus distill "${general[@]}" --set embedding_size=256 --epochs 1 --out trained/general
# The same block called six times, to leave early: an all-shared encoder is as deep as its config says.
albert-plus distill "${general[@]}" --student trained/general --set num_hidden_layers=6 --epochs 0.3 --out trained/general-deep

add_exits() { # MODEL NAME [OPTION…]
    local model=$1 name=$2
    shift 2
    albert-plus distill --method fastbert --phases exits --teacher "$teacher" --student "trained/$model-$task" "${on[@]}" "${passes[@]}" \
        --learning-rate 1e-3 "$@" --out "trained/$name-$task"
}

leave_early() { # NAME [OPTION…]
    local name=$1
    shift
    albert-plus calibrate --model "trained/$name-$task" "${on[@]}" --max-drop 0.1 --out "trained/$name-$task-calibrated"
    albert-plus export "trained/$name-$task-calibrated" --to onnx-exits --to onnx-int8-exits "$@" "${on[@]}" --out "models/$name-$task"
}

for task in ${TASKS-sst2 mrpc cola}; do
    on=(--data "$glue" --task "$task")
    passes=(--epochs "${epochs[$task]}")
    teacher=trained/teacher-$task
    albert-plus finetune --model trained/encoder "${on[@]}" --out "$teacher"
    albert-plus distill --method kd-hidden --teacher "$teacher" --student trained/general "${on[@]}" --epochs $((2 * ${epochs[$task]})) \
        --batch-size 64 --learning-rate 3e-4 --out "trained/student-$task"
    albert-plus distill --method kd --teacher "$teacher" --student trained/general-deep "${on[@]}" "${passes[@]}" --batch-size 64 \
        --learning-rate 3e-4 --out "trained/deep-$task"

    # Heads and columns: those that matter least go, the rest learns from the whole.
    for model in teacher student deep; do
        albert-plus prune --model "trained/$model-$task" "${on[@]}" --heads 0.33 --columns 0.5 --out "trained/$model-cut-$task"
        albert-plus distill --method kd-hidden --teacher "$teacher" --student "trained/$model-cut-$task" "${on[@]}" "${passes[@]}" \
            --learning-rate 1e-4 --out "trained/$model-pruned-$task"
    done

    for model in teacher teacher-pruned student student-pruned deep deep-pruned; do
        albert-plus export "trained/$model-$task" --to onnx --to onnx-int8 "${on[@]}" --out "models/$model-$task"
    done

    # Exits of models that stay as they are: branches, and for one of them a linear classifier on the first token instead.
    for model in deep deep-pruned student-pruned; do
        add_exits $model $model-exits
        leave_early $model-exits
    done
    add_exits deep deep-pooled-exits --set exit_head=pooled
    leave_early deep-pooled-exits
    # All exits of the deep student as a loop, to stand beside the segments of those that pay.
    albert-plus calibrate --model "trained/deep-exits-$task" "${on[@]}" --max-drop 0.1 --keep-exits --out "trained/deep-loop-$task"
    albert-plus export "trained/deep-loop-$task" --to onnx-exits --to onnx-int8-exits --exit-form loop "${on[@]}" --out "models/deep-loop-$task"
    # Where layers differ, the first ones learn the labels with their exits.
    add_exits teacher teacher-branches
    albert-plus distill --method pabee --teacher "$teacher" --student "trained/teacher-branches-$task" "${on[@]}" "${passes[@]}" \
        --learning-rate 5e-5 --out "trained/teacher-exits-$task"
    leave_early teacher-exits --to onnx --to onnx-int8

    # Few bits, and zeros.
    albert-plus qat --model "$teacher" "${on[@]}" "${passes[@]}" --out "trained/teacher-qat-$task"
    albert-plus export "trained/teacher-qat-$task" --to onnx-int8 --to onnx-qdq "${on[@]}" --examples 2000 --out "models/teacher-qat-$task"
    albert-plus qat --model "$teacher" --bits 2,4,8 --budget 16 "${on[@]}" "${passes[@]}" --out "trained/teacher-bits-$task"
    # A model that does not say in onnxruntime what it says in torch is refused, and has no row.
    albert-plus export "trained/teacher-bits-$task" --to onnx-nbits "${on[@]}" --examples 2000 --out "models/teacher-bits-$task" \
        || echo "no graph of teacher-bits-$task: its error stands above" >&2
    albert-plus sparsify --model "$teacher" --sparsity 0.6 "${on[@]}" "${passes[@]}" --out "trained/teacher-sparse-$task"
    albert-plus export "trained/teacher-sparse-$task" --to onnx "${on[@]}" --out "models/teacher-sparse-$task"
done
