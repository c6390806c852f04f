#!/bin/bash
# Does sharing pay at equal bytes? Students of one teacher by one method: layers of their own or one block for all of them, or one block with
# differences of low rank, several widths of the embeddings, all pieces of the vocabulary or those that the task reads. All in int8. What is there already is
# not made again, so it may be stopped and started at will. Scores are of the data's validation split, and of its test split if it has one.
#
#   SEEDS="1 2 3" examples/equal-bytes-study.sh study teacher clinc150
#
# STUDENTS names some of the rows below, EPOCHS the passes of each. A student takes as long as a fine-tuning of its teacher.
set -euo pipefail
out=$1 teacher=$(realpath "$2") data=$3
if [ -e "$data" ]; then data=$(realpath "$data"); fi
mkdir -p "$out"
cd "$out"

# NAME LAYERS SHARING EMBEDDING VOCABULARY LAYERS-OF-THE-TEACHER; SHARING of a number is the rank of the differences
rows='
own1-e128 1 none 128 all 0
own2-e64 2 none 64 all 0,5
shared3-e128 3 all 128 all first
shared6-e128 6 all 128 all first
ranks6-e128 6 16 128 all svd
own2-e128 2 none 128 all 0,5
own3-e64 3 none 64 all 0,2,5
own3-e128 3 none 128 all 0,2,5
shared6-e256 6 all 256 all first
own2-e384-used 2 none 384 used 0,5
own3-e128-used 3 none 128 used 0,2,5
shared6-e384-used 6 all 384 used first
ranks6-e384-used 6 16 384 used svd'

albert-plus trim --model "$teacher" --data "$data" --out used
# One model a row is timed: the seeds have one architecture, and are as fast.
targets=("teacher=$teacher" "teacher=models/teacher:onnx-int8") timed=()
albert-plus export "$teacher" --to onnx-int8 --out models/teacher
while read -r name layers sharing embedding vocabulary start; do
    case " ${STUDENTS-$name} " in *" $name "*) ;; *) continue ;; esac
    source=$teacher
    if [ "$vocabulary" = used ]; then source=used; fi
    shape=(--set num_hidden_layers="$layers" --set embedding_size="$embedding")
    case $sharing in
        none) shape+=(--set attention_sharing=none --set ffn_sharing=none --layers "$start") ;;
        all) shape+=(--set attention_sharing=all --set ffn_sharing=all --initialise "$start") ;;
        *) shape+=(--set attention_sharing=all --set ffn_sharing=all --set layer_rank="$sharing" --initialise "$start") ;;
    esac
    albert-plus convert "$source" "${shape[@]}" --data "$data" --out "starts/$name"
    seeds=(${SEEDS-42})
    for seed in "${seeds[@]}"; do
        albert-plus distill --method kd-hidden --teacher "$source" --data "$data" --student "starts/$name" --learning-rate 3e-4 \
            ${EPOCHS:+--epochs "$EPOCHS"} --seed "$seed" --out "trained/$name-$seed"
        albert-plus export "trained/$name-$seed" --to onnx-int8 --out "models/$name-$seed"
        targets+=("$name=models/$name-$seed:onnx-int8")
    done
    timed+=("$name=models/$name-${seeds[0]}:onnx-int8")
done <<< "${rows#?}"
albert-plus eval "${targets[@]}" --data "$data" --out scores
albert-plus bench "${targets[@]:0:2}" "${timed[@]}" --baseline "teacher=$teacher" --data "$data" --scenario offline --seconds 2 --out latency
albert-plus report --scores scores/scores.json --bench latency/latency.json --out report
