#!/bin/bash
# What each method of distillation gives to the same student after the same steps: three of the teacher's six layers, each with a block of
# its own. What is there already is not made again, so it may be stopped and started at will.
# TASKS, SEEDS and METHODS name some of the rows.
#
#   TASKS=mrpc SEEDS="1 2 3" examples/methods-study.sh methods nyu-mll/glue sentence-transformers/all-MiniLM-L6-v2
set -euo pipefail
glue=$2 encoder=$3
if [ -d "$glue" ]; then glue=$(realpath "$glue"); fi
if [ -d "$encoder" ]; then encoder=$(realpath "$encoder"); fi
mkdir -p "$1"
cd "$1"

# Passes over the rows: of a method with one phase, and of the phases of those with two or three, whose sum they are.
declare -A one=([sst2]=2 [mrpc]=6) two=([sst2]="1 1" [mrpc]="4 2") three=([sst2]="0.5 0.5 1" [mrpc]="2 2 2")

phases_of() { # METHOD TASK: its options
    local a b c
    case $1 in
        tinybert) read -r a b <<< "${two[$2]}" && echo "--phases intermediate,prediction --set intermediate_epochs=$a --set epochs=$b" ;;
        minilm | minilm-v2) read -r a b <<< "${two[$2]}" && echo "--set transfer_epochs=$a --set epochs=$b" ;;
        well-read) read -r a b c <<< "${three[$2]}" && echo "--set pretrain_epochs=$a --set distil_epochs=$b --set epochs=$c" ;;
        *) echo "--epochs ${one[$2]}" ;;
    esac
}

for task in ${TASKS-mrpc sst2}; do
    on=(--data "$glue" --task "$task")
    teacher=trained/teacher-$task
    albert-plus finetune --model "$encoder" "${on[@]}" --out "$teacher"
    albert-plus convert "$teacher" --set num_hidden_layers=3 --set attention_sharing=none --set ffn_sharing=none --layers 0,2,4 --out "trained/start-$task"
    rows=("teacher=$teacher")
    for seed in ${SEEDS-42}; do
        for method in ${METHODS-labels kd kd-hidden pkd tinybert minilm minilm-v2 well-read}; do
            # shellcheck disable=SC2046
            albert-plus distill --method "$method" --teacher "$teacher" --student "trained/start-$task" "${on[@]}" $(phases_of "$method" "$task") \
                --learning-rate 1e-4 --seed "$seed" --out "trained/$method-$task-$seed"
            rows+=("$method=trained/$method-$task-$seed")
        done
    done
    albert-plus eval "${rows[@]}" "${on[@]}" --out "scores/$task"
done
