#!/bin/bash
# The study of sharing (docs/results/sharing.md): what is shared, in two sizes of embedding, and two other tasks beside masked words. Every encoder sees
# 20 million tokens and is fine-tuned on SST-2 and MRPC. A process a core; what is there already is not made again, so it may be
# stopped and started at will.
#
#   examples/sharing-study.sh study nyu-mll/glue wikipedia.txt novels.txt
#
# Five hours on two cores. The epochs below are for 52 MB of text: `albert-plus corpus build` prints the tokens of one.
set -euo pipefail
out=$1 glue=$2
shift 2
if [ -d "$glue" ]; then glue=$(realpath "$glue"); fi
texts=()
for text in "$@"; do texts+=(--corpus "$text"); done
mkdir -p "$out"

albert-plus tokenizer train "${texts[@]}" --vocab-size 8000 --out "$out/vocab"
for order in sentence-order next-sentence none; do
    albert-plus corpus build "${texts[@]}" --tokenizer "$out/vocab" --max-length 128 --order "$order" --out "$out/corpus-$order"
done

study_one() { # NAME ATTENTION FFN EMBEDDING ORDER EPOCHS
    albert-plus pretrain --corpus "corpus-$5" --set hidden_size=256 --set num_hidden_layers=6 --set num_attention_heads=4 \
        --set intermediate_size=1024 --set max_position_embeddings=128 --set attention_sharing="$2" --set ffn_sharing="$3" \
        --set embedding_size="$4" --epochs "$6" --batch-size 16 --optimizer adamw --learning-rate 5e-4 --warmup 0.05 \
        --precision bf16 --threads 1 --out "trained/$1"
    albert-plus finetune --model "trained/$1" --data "$glue" --task sst2 --epochs 2 --batch-size 32 --learning-rate 2e-4 \
        --threads 1 --out "tuned/$1-sst2"
    albert-plus finetune --model "trained/$1" --data "$glue" --task mrpc --epochs 5 --batch-size 16 --learning-rate 2e-4 \
        --threads 1 --out "tuned/$1-mrpc"
}
export -f study_one
export glue OMP_NUM_THREADS=1

cd "$out"
xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'study_one {} 2>> log-$$' <<< '
all-64 all all 64 sentence-order 1.75
none-64 none none 64 sentence-order 1.75
attention-64 all none 64 sentence-order 1.75
ffn-64 none all 64 sentence-order 1.75
all-64-nsp all all 64 next-sentence 1.2712
all-64-no all all 64 none 1.7506
all-256 all all 256 sentence-order 1.75
none-256 none none 256 sentence-order 1.75
attention-256 all none 256 sentence-order 1.75
ffn-256 none all 256 sentence-order 1.75'

for task in sst2 mrpc; do
    rows=()
    for model in tuned/*-"$task"; do rows+=("$(basename "$model" "-$task")=$model"); done
    albert-plus eval "${rows[@]}" --task "$task" --data "$glue" --json "$task.json"
done
for encoder in trained/*; do
    albert-plus card "$encoder" --scores sst2.json --scores mrpc.json
done
