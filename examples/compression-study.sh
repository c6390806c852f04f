#!/bin/bash
# A study of compression: exits, pruning, few bits and a stack of them, from one encoder, on three tasks. What is there already
# is not made again, so it may be stopped and started at will. The last lines measure, and want a quiet machine.
#
#   examples/compression-study.sh study nyu-mll/glue sentence-transformers/all-MiniLM-L6-v2 text.txt
#
# text.txt, a paragraph a line and a blank line between documents, is what the general student learns from.
set -euo pipefail
glue=$2 encoder=$3 text=$(realpath "$4")
if [ -d "$glue" ]; then glue=$(realpath "$glue"); fi
if [ -d "$encoder" ]; then encoder=$(realpath "$encoder"); fi
mkdir -p "$1"
cd "$1"
tasks=(${TASKS:-sst2 mrpc cola})

declare -A epochs=([sst2]=1 [mrpc]=4 [cola]=4)

albert-plus convert "$encoder" --out trained/encoder
# Three layers that are one, as small as they get.
albert-plus distill --method tinybert --phases general --teacher trained/encoder --text "$text" --set embedding_size=256 --epochs 1 \
    --learning-rate 5e-4 --batch-size 32 --max-length 64 --out trained/general

for task in "${tasks[@]}"; do
    on=(--data "$glue" --task "$task")
    passes=(--epochs "${epochs[$task]}")
    teacher=trained/teacher-$task
    albert-plus finetune --model trained/encoder "${on[@]}" --out "$teacher"
    albert-plus distill --method kd --teacher "$teacher" --student trained/general "${on[@]}" "${passes[@]}" --batch-size 64 \
        --learning-rate 3e-4 --out "trained/student-$task"

    # Heads and columns: those that matter least go, the rest learns from the whole.
    for model in teacher student; do
        albert-plus prune --model "trained/$model-$task" "${on[@]}" --heads 0.33 --columns 0.5 --out "trained/$model-cut-$task"
        albert-plus distill --method kd --teacher "$teacher" --student "trained/$model-cut-$task" "${on[@]}" "${passes[@]}" \
            --learning-rate 1e-4 --out "trained/$model-pruned-$task"
    done

    # Exits, of the teacher, the student and the pruned student.
    for model in teacher student student-pruned; do
        albert-plus distill --method pabee --teacher "$teacher" --student "trained/$model-$task" "${on[@]}" "${passes[@]}" \
            --set exit_head=pooled --learning-rate 5e-5 --out "trained/$model-exits-$task"
        albert-plus calibrate --model "trained/$model-exits-$task" "${on[@]}" --max-drop 0.5 --out "trained/$model-calibrated-$task"
        albert-plus export "trained/$model-calibrated-$task" --to onnx --to onnx-int8 --to onnx-exits --to onnx-int8-exits "${on[@]}" \
            --out "models/$model-exits-$task"
    done

    # Few bits.
    albert-plus qat --model "$teacher" "${on[@]}" "${passes[@]}" --out "trained/teacher-qat-$task"
    albert-plus export "trained/teacher-qat-$task" --to onnx-int8 --to onnx-qdq "${on[@]}" --examples 2000 --out "models/teacher-qat-$task"
    albert-plus qat --model "$teacher" --bits 2,4,8 --budget 16 "${on[@]}" "${passes[@]}" --out "trained/teacher-bits-$task"
    albert-plus export "trained/teacher-bits-$task" --to onnx-nbits "${on[@]}" --examples 2000 --out "models/teacher-bits-$task"

    for model in teacher student teacher-pruned student-pruned; do
        albert-plus export "trained/$model-$task" --to onnx --to onnx-int8 "${on[@]}" --out "models/$model-$task"
    done
done

for task in "${tasks[@]}"; do
    rows=("teacher=models/teacher-$task")
    for model in teacher student teacher-pruned student-pruned; do
        rows+=("$model=models/$model-$task:onnx" "$model=models/$model-$task:onnx-int8")
    done
    for model in teacher-exits student-exits student-pruned-exits; do
        for precision in onnx onnx-int8; do rows+=("$model=models/$model-$task:$precision" "$model=models/$model-$task:$precision-exits"); done
    done
    rows+=("teacher-qat=models/teacher-qat-$task:onnx-int8" "teacher-qat=models/teacher-qat-$task:onnx-qdq")
    rows+=("teacher-bits=models/teacher-bits-$task:onnx-nbits")
    albert-plus eval "${rows[@]}" --data "$glue" --task "$task" --batching file:32 --batching length --batching file:1 --rounds 5 --json "scores-$task.json"
    albert-plus bench "${rows[@]}" --baseline "teacher=models/teacher-$task" --data "$glue" --task "$task" --json "latency-$task.json"
    albert-plus report --scores "scores-$task.json" --bench "latency-$task.json" --title "Compression, $task" --data-name "$glue" --out "report-$task"
done
