#!/bin/bash
# What students keep of a sentence encoder (docs/guide/vectors.md): each copies its vectors from text alone, is exported in int8, and is scored on
# pairs of sentences without any training on them, in a search among questions, against its own vectors in fp32, and on time. What is there
# already is not made again, so it may be stopped and started at will.
#
#   examples/vectors-study.sh study sentence-transformers/all-MiniLM-L6-v2 nyu-mll/glue wikipedia.txt reviews.txt
#
# The texts have a paragraph a line. STUDENTS names some of the rows below, EPOCHS the passes of each, LENGTH the longest sentence in tokens.
set -euo pipefail
encoder=$2 glue=$3
if [ -d "$encoder" ]; then encoder=$(realpath "$encoder"); fi
if [ -d "$glue" ]; then glue=$(realpath "$glue"); fi
texts=()
for text in "${@:4}"; do texts+=("$(realpath "$text")"); done
mkdir -p "$1"
cd "$1"
mkdir -p retrieval invariance
if [ ! -f text.txt ]; then
    for text in "${texts[@]}"; do cat "$text" && echo; done > text.part
    mv text.part text.txt
fi

# NAME STUDENT LAYERS: half are layers that are one, third are layers of their own, from the teacher's
rows='
shared6-e128 half 6
shared3-e128 half 3
own2-e128 third 2
own3-e128 third 3'

vectors=(--pooling mean --normalize)
albert-plus export "$encoder" "${vectors[@]}" --to onnx --to onnx-int8 --out models/teacher
names=(teacher) targets=("teacher=$encoder" teacher=models/teacher:onnx teacher=models/teacher:onnx-int8)
while read -r name student layers; do
    case " ${STUDENTS-$name} " in *" $name "*) ;; *) continue ;; esac
    albert-plus distill --method embeddings --teacher "$encoder" --text text.txt --student "$student" --set num_hidden_layers="$layers" \
        --set embedding_size=128 --max-length "${LENGTH-64}" ${EPOCHS:+--epochs "$EPOCHS"} --out "trained/$name"
    albert-plus export "trained/$name" "${vectors[@]}" --to onnx-int8 --out "models/$name"
    names+=("$name")
    targets+=("$name=models/$name" "$name=models/$name:onnx-int8")
done <<< "${rows#?}"

albert-plus eval "${targets[@]}" --static "$encoder" --task stsb --data "$glue" --out scores

once() { # FILE WORD…: a document that is there is not measured again
    local file=$1
    shift
    if [ ! -f "$file" ]; then albert-plus "$@" --json "$file"; fi
}
once retrieval/static.json retrieve --static "$encoder" --task qqp --data "$glue"
for name in "${names[@]}"; do
    once "retrieval/$name.json" retrieve "models/$name:onnx-int8" --task qqp --data "$glue"
    once "invariance/$name.json" bench invariance "$name=models/$name:onnx-int8" --baseline "$name=models/$name" --task stsb --data "$glue"
done

albert-plus bench "${targets[@]}" --baseline "teacher=$encoder" --shapes 1x16,32x32 --out latency
albert-plus report --scores scores/scores.json --bench latency/latency.json --out report
