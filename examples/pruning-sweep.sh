#!/bin/bash
# The sweep of Compressing BERT (Gordon et al. 2020, sections 3 and 4): one encoder is pretrained; from it pretraining goes on at every level of zeros,
# gradually pruned over all of its steps, and each level is fine-tuned on every task with its zeros kept. What is there already is not made
# again, so it may be stopped and started at will. The table of pretraining loss and task scores at each level is sweep/sweep.md.
#
#   examples/pruning-sweep.sh sweep nyu-mll/glue wikipedia.txt novels.txt
#
# LEVELS, TASKS, SHAPE, VOCABULARY, LENGTH, EPOCHS and FURTHER choose another sweep: percent of zeros, tasks of GLUE, options of the encoder, pieces of its
# vocabulary, tokens of an example, and passes over the text before and while it is pruned.
set -euo pipefail
out=$1 glue=$2
shift 2
if [ -d "$glue" ]; then glue=$(realpath "$glue"); fi
texts=()
for text in "$@"; do texts+=(--corpus "$(if [ -e "$text" ]; then realpath "$text"; else echo "$text"; fi)"); done
levels=${LEVELS-0 10 20 30 40 50 60 70 80 90}
tasks=${TASKS-sst2 mrpc}
read -r -a shape <<< "${SHAPE---set hidden_size=256 --set num_hidden_layers=6 --set num_attention_heads=4 --set intermediate_size=1024 --set attention_sharing=none --set ffn_sharing=none}"
length=${LENGTH-128}
declare -A passes=([sst2]=2 [mrpc]=5 [cola]=5 [rte]=5 [stsb]=5)
mkdir -p "$out"
cd "$out"

albert-plus tokenizer train "${texts[@]}" --vocab-size "${VOCABULARY-8000}" --out vocab
albert-plus corpus build "${texts[@]}" --tokenizer vocab --max-length "$length" --out corpus
training=(--batch-size 16 --optimizer adamw --warmup 0.05)
albert-plus pretrain --corpus corpus "${shape[@]}" --set max_position_embeddings="$length" --epochs "${EPOCHS-1.75}" \
    "${training[@]}" --learning-rate 5e-4 --out dense

for level in $levels; do
    # At 0 % the same steps without zeros, which is what the others are compared with.
    albert-plus pretrain --corpus corpus --model dense --sparsity "$(printf '0.%02d' "$level")" --ramp 1 --epochs "${FURTHER-0.5}" \
        "${training[@]}" --learning-rate 1e-4 --out "pruned/$level"
    for task in $tasks; do
        albert-plus finetune --model "pruned/$level" --data "$glue" --task "$task" --epochs "${passes[$task]:-3}" --learning-rate 2e-4 \
            --max-length "$length" --out "tuned/$task-$level"
    done
done
for task in $tasks; do
    rows=()
    for level in $levels; do rows+=("$level=tuned/$task-$level"); done
    albert-plus eval "${rows[@]}" --task "$task" --data "$glue" --max-length "$length" --out "scores/$task"
done

LEVELS=$levels TASKS=$tasks python3 - > sweep.md <<'END'
import json, os
from pathlib import Path

levels, tasks = os.environ["LEVELS"].split(), os.environ["TASKS"].split()


def result(directory):
    return json.loads((Path(directory) / "record.json").read_text())["result"]


# The first split of a task, by level: a row is called "60 torch fp32 mrpc".
scores = {task: {} for task in tasks}
for task in tasks:
    for row, metrics in result(f"scores/{task}").items():
        scores[task].setdefault(row.split()[0], metrics)
names = {task: next(iter(scores[task][levels[0]])) for task in tasks}
print("| zeros asked for, % | zeros of matrices, % | loss of held-out words |", *(f"{task} {names[task]} |" for task in tasks))
print("|---|---|---|" + "---|" * len(tasks))
for level in levels:
    made = result(f"pruned/{level}")
    values = [f"{100 * made.get('zeros_of_matrices', 0):.1f}", f"{made['held_out_mlm_loss']:.3f}"]
    values += [f"{scores[task][level][names[task]]:.2f}" for task in tasks]
    print(f"| {level} |", *(f"{value} |" for value in values))
END
cat sweep.md
