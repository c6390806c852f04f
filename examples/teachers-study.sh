#!/bin/bash
# How long should a teacher learn, and do several teach a student better than one? A fine-tuning of an encoder for each number of passes and seed, a student that
# learns what the first of them says, and one that learns the mean of what all say. What is there already is not made again, so it may be stopped and
# started at will. DATA is a folder with train.parquet and test.parquet, whose texts stand in COLUMNS and labels in the column label.
#
#   COLUMNS="sentence1 sentence2" PASSES="4 8" SEEDS="1 2 3" examples/teachers-study.sh study sentence-transformers/all-MiniLM-L6-v2 mrpc
#
# MEASURE is the metric that is the score, STUDENT_PASSES the student's (4): three of the teacher's layers.
set -euo pipefail
examples=$(realpath "$(dirname "$0")") out=$1 encoder=$2 data=$(realpath "$3")
if [ -d "$encoder" ]; then encoder=$(realpath "$encoder"); fi
mkdir -p "$out"
cd "$out"
on=(--data "$data" ${MEASURE:+--measure "$MEASURE"})
read -ra columns <<< "$COLUMNS"
score=(--text-column "${columns[0]}" ${columns[1]:+--text-pair-column "${columns[1]}"} --keep label=gold)
for column in "${columns[@]}"; do score+=(--keep "$column"); done

student() { # NAME PASSES SCORED…: of the teacher of the first seed, by the mean of these answers
    if [ ! -f "answers/$1.parquet" ]; then python "$examples/mean_logits.py" "answers/$1.parquet" "${@:3}"; fi
    albert-plus convert "teachers/$2-$first" --set num_hidden_layers=3 --set attention_sharing=none --set ffn_sharing=none --layers 0,2,4 --out "starts/$2"
    for seed in $seeds; do
        albert-plus distill --method kd --student "starts/$2" --data "answers/$1.parquet" --label-column gold --soft-labels logits \
            --epochs "${STUDENT_PASSES-4}" --learning-rate 1e-4 --seed "$seed" --out "students/$1-$seed"
        rows+=("student-of-$1=students/$1-$seed")
    done
}

seeds=${SEEDS-42} rows=()
first=${seeds%% *}
mkdir -p answers scored
for passes in ${PASSES-4}; do
    scored=()
    for seed in $seeds; do
        teacher=teachers/$passes-$seed
        albert-plus finetune --model "$encoder" "${on[@]}" --epochs "$passes" --seed "$seed" --out "$teacher"
        albert-plus score --engine "$teacher" --input "$data/train.parquet" "${score[@]}" --logits --workers 1 --out "scored/$passes-$seed"
        rows+=("teacher-$passes=$teacher") scored+=("scored/$passes-$seed")
    done
    student "$passes-one" "$passes" "${scored[0]}"
    if [ ${#scored[@]} -gt 1 ]; then student "$passes-mean" "$passes" "${scored[@]}"; fi
done
albert-plus eval "${rows[@]}" "${on[@]}" --out "scores-$(date +%s)"
