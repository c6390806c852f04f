#!/bin/bash
# What each method of distillation gives to the same student after the same steps on a task: three of the teacher's six layers, each with a block of its own.
# What is there already is not made again, so it may be stopped and started at will.
#
#   TASKS=mrpc SEEDS="1 2 3" examples/methods-study.sh methods nyu-mll/glue sentence-transformers/all-MiniLM-L6-v2
#   SEEDS="1 2 3" examples/methods-study.sh methods nyu-mll/glue sentence-transformers/all-MiniLM-L6-v2 wikipedia.txt reviews.txt
#
# The first text, a paragraph a line and a blank line between documents, is for methods that learn from text before the task; without one these
# have no row. The second holds texts of SST-2's kind without labels, for well-read, which learns from them beside the task's rows.
# TASKS, SEEDS and METHODS name some of the rows. JOBS of them are made side by side, seed by seed; none begins when STOP_AFTER seconds are over,
# and what is whole then is scored.
set -euo pipefail
place() { if [ -e "$1" ]; then realpath "$1"; else echo "$1"; fi; }
glue=$(place "$2") encoder=$(place "$3") text=${4+$(realpath "$4")} transfer=${5+$(realpath "$5")} begun=$(date +%s)
mkdir -p "$1/locks"
cd "$1"

tasks=${TASKS-mrpc sst2} seeds=${SEEDS-42}
of_the_task="labels kd kd-hidden pkd tinybert minilm minilm-v2 minilm-v2-assistant relations-kd relations-kd-augmented"
of_text="distilbert well-read mobilebert extreme tinybert-whole tinybert-no-general tinybert-no-augmentation tinybert-no-intermediate tinybert-no-attention tinybert-no-hidden"
if [ -n "$text" ]; then methods=${METHODS-$of_the_task $of_text}; else methods=${METHODS-$of_the_task}; fi

# Makes what several rows begin with, once, while the others wait for it.
need() { # MADE COMMAND…
    (
        flock 9
        if [ ! -f "$1/record.json" ]; then "${@:2}" --out "$1"; fi
    ) 9> "locks/${1//\//-}"
}

three_layers() { # FROM MADE
    need "$2" albert-plus convert "$1" --set num_hidden_layers=3 --set attention_sharing=none --set ffn_sharing=none --layers 0,2,4
}

task_teacher() { # TASK: the teacher, and its layers that students begin as
    need "trained/teacher-$1" albert-plus finetune --model "$encoder" --data "$glue" --task "$1"
    three_layers "trained/teacher-$1" "trained/start-$1"
}

# The encoder with a head of masked words, which it learns from the text.
words_teacher() {
    need general/encoder albert-plus convert "$encoder"
    need general/corpus albert-plus corpus build --corpus "$text" --tokenizer general/encoder --format full-sentences --max-length 128
    need general/words albert-plus pretrain --model general/encoder --corpus general/corpus --masked words --optimizer adamw --learning-rate 2e-4 \
        --batch-size 64 --epochs 2 --no-packed
    three_layers general/words general/start
}

# A student that learned from the text by a method's phases before the task.
general_student() { # METHOD PHASES
    words_teacher
    local student=general/start
    if [ "$1" = extreme ]; then # as deep as its teacher, half as wide, a sixth of the words
        student=general/few-words
        need "$student" albert-plus tokenizer train --corpus "$text" --kind wordpiece --vocab-size 5000
        echo '{"model_type": "albert_plus", "vocab_size": 5000, "hidden_size": 192, "embedding_size": 192, "num_hidden_layers": 6, "num_attention_heads": 6,
            "intermediate_size": 768, "attention_sharing": "none", "ffn_sharing": "none", "max_position_embeddings": 512, "pad_token_id": 0}' > "$student/config.json"
    fi
    need "general/$1" albert-plus distill --method "$1" --phases "$2" --teacher general/words --student "$student" --text "$text" --epochs 1
}

row() { # SEED TASK METHOD
    if [ $(($(date +%s) - begun)) -ge "${STOP_AFTER-1000000}" ]; then return; fi
    local method=$3 student=trained/start-$2 from=trained/teacher-$2 data=$glue
    # Passes over the task's rows, of one phase, and of two whose sum is the same.
    local one=6 first=4 second=2
    if [ "$2" = sst2 ]; then one=2 first=1 second=1; fi
    local -A general_phases=([distilbert]=general [mobilebert]="layer-*,words" [extreme]=dual)
    local two=(--set "transfer_epochs=$first" --set "epochs=$second")
    local how=(--epochs "$one")
    task_teacher "$2"
    case $method in
        tinybert) how=(--phases intermediate,prediction --set "intermediate_epochs=$first" --set "epochs=$second") ;;
        minilm | minilm-v2) how=("${two[@]}") ;;
        minilm-v2-assistant)
            method=minilm-v2 from=trained/assistant-$2-$1 how=("${two[@]}")
            need "$from" albert-plus distill --method minilm-v2 --teacher "trained/teacher-$2" --data "$glue" --task "$2" --set num_hidden_layers=4 \
                --set attention_sharing=none --set ffn_sharing=none --initialise first "${how[@]}" --learning-rate 1e-4 --seed "$1"
            ;;
        relations-kd*)
            method=relations-kd
            if [ "$3" = relations-kd-augmented ]; then # words replaced by those that the teacher's embeddings have beside them
                data=augmented/$2-by-vectors
                need "$data" albert-plus augment --data "$glue" --task "$2" --word-vectors "$from" --copies 5
                first=$(dividing "$first" 6) second=$(dividing "$second" 6)
            fi
            how=(--set "relations_epochs=$first" --set "epochs=$second")
            ;;
        distilbert | mobilebert | extreme)
            general_student "$method" "${general_phases[$method]}"
            student=general/$method how=(--phases task --epochs "$one")
            ;;
        well-read)
            general_student well-read pretrain
            student=general/well-read how=(--phases distil,task --set "distil_epochs=$first" --set "epochs=$second")
            if [ "$2" = sst2 ] && [ -n "$transfer" ]; then how+=(--unlabelled "$transfer"); fi
            ;;
        tinybert-*)
            local left_out=${method#tinybert-}
            method=tinybert
            if [ "$left_out" != no-general ]; then
                general_student tinybert general
                student=general/tinybert
            fi
            if [ "$left_out" != no-augmentation ]; then # five copies of each row, and a sixth of the passes
                words_teacher
                data=augmented/$2
                need "$data" albert-plus augment --data "$glue" --task "$2" --masked-lm general/words --copies 5
                one=$(dividing "$one" 6) first=$(dividing "$first" 6) second=$(dividing "$second" 6)
            fi
            how=(--phases intermediate,prediction --set "intermediate_epochs=$first" --set "epochs=$second")
            case $left_out in
                no-intermediate) how=(--phases prediction --set "epochs=$one") ;;
                no-attention) how+=(--set attention_weight=0) ;;
                no-hidden) how+=(--set hidden_weight=0) ;;
            esac
            ;;
    esac
    need "trained/$3-$2-$1" albert-plus distill --method "$method" --teacher "$from" --student "$student" --data "$data" --task "$2" "${how[@]}" \
        --learning-rate 1e-4 --seed "$1"
}

dividing() { awk -v a="$1" -v b="$2" 'BEGIN { print a / b }'; }

export -f need three_layers task_teacher words_teacher general_student row dividing
export glue encoder text transfer begun
for seed in $seeds; do
    for method in $methods; do
        for task in $tasks; do echo "$seed $task $method"; done
    done
done | xargs -P "${JOBS-1}" -I{} bash -euo pipefail -c 'row {}' || echo "rows are missing: their errors stand above" >&2

for task in $tasks; do
    rows=("teacher=trained/teacher-$task")
    for method in $methods; do
        for seed in $seeds; do
            if [ -f "trained/$method-$task-$seed/record.json" ]; then rows+=("$method=trained/$method-$task-$seed"); fi
        done
    done
    # Not --out, which would keep the first table: a later start has more rows.
    mkdir -p scores
    albert-plus eval "${rows[@]}" --data "$glue" --task "$task" --json "scores/$task.json"
done
