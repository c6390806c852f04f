#!/bin/bash
# The table of GLUE (docs/results/glue.md): a base-size encoder fine-tuned on each task, and what becomes of it: a small encoder that it teaches, students that share
# their layers, what `albert-plus compress` finds from both, exits, few bits, every engine, and the floor. What is there already is not made again, so it may be
# stopped and started at will. times.tsv has the seconds of every step.
#
#   examples/glue-table.sh table sentence-transformers/all-mpnet-base-v2 sentence-transformers/all-MiniLM-L6-v2 nyu-mll/glue wikipedia.txt novels.txt
#   TASKS="sst2 mrpc stsb" SEEDS=1 ROWS="shared searches" FROM=small RUNTIMES="torch onnx-int8" BUDGET=20m ROUNDS=1 \
#       examples/glue-table.sh table sentence-transformers/all-mpnet-base-v2 sentence-transformers/all-MiniLM-L6-v2 nyu-mll/glue
#
# The texts, a paragraph a line and a blank line between documents, are what students that share their layers learn from first; without any they begin on
# the task. TASKS names some of the tasks (as many processes as cores, each with its own, once starts/ and general/ are there). SEEDS are those of the small tasks;
# LARGE tasks have the first. ROWS names some of what stands beside the teacher and the small encoder: plain, shared, relaxed, searches, bits, exits. Searches
# start FROM the teacher and the small one; DROPS are the points that they may lose, BUDGET the time of each. RUNTIMES are those that the teacher is measured in, and
# the students in those of them that are exports; ROUNDS is how often each of WAYS of batching is timed over all texts, TIMED how many texts of a task latencies
# and speedups are of, evenly over its validation split, all by default. STEPS names some of: make, measure. FIRST is a task of pairs that the small
# encoder learns by its labels, one pass, before it is taught MRPC and STS-B; of these two neither comes before the other, since they share pairs. UNLABELLED is a
# folder of more rows, TASK.txt, a sentence a line, or TASK.csv with the task's columns: the teacher answers them for the small encoder, and what a search starts
# from answers them for its candidates.
# Another choice needs another OUT, or the removal of what it changes.
set -euo pipefail
case ${FIRST-} in
mrpc | stsb)
    echo "FIRST must be neither mrpc nor stsb, got $FIRST: training pairs of each are validation pairs of the other; use FIRST=qqp" >&2
    exit 2
    ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
place() { if [ -e "$1" ]; then realpath "$1"; else echo "$1"; fi; }
encoder=$(place "$2") small=$(place "$3") glue=$(place "$4")
tasks=${TASKS-cola sst2 mrpc stsb qqp mnli wnli}
if [ -n "${UNLABELLED-}" ]; then
    if [ ! -d "$UNLABELLED" ]; then
        echo "UNLABELLED must be a folder with TASK.txt or TASK.csv, got $UNLABELLED; put the file of each task into one" >&2
        exit 2
    fi
    UNLABELLED=$(realpath "$UNLABELLED")
    for task in $tasks; do
        if [ -f "$UNLABELLED/$task.txt" ] && [ -f "$UNLABELLED/$task.csv" ]; then
            echo "UNLABELLED must have one file for a task, got $task.txt and $task.csv; remove one of them" >&2
            exit 2
        fi
    done
fi
texts=()
for text in "${@:5}"; do texts+=("$(realpath "$text")"); done
mkdir -p "$1"
cd "$1"
mkdir -p picks plain

read -r -a seeds <<< "${SEEDS-1 2 3}"
read -r -a drops <<< "${DROPS-1 3 6}"
read -r -a starts <<< "${FROM-teacher small}"
read -r -a ways <<< "${WAYS-length file:32}"
read -r -a runtimes <<< "${RUNTIMES-torch torch-bf16 torch-compile onnx onnx-int8 openvino openvino-bf16 openvino-int8}"
exports=()
for runtime in onnx onnx-int8 openvino openvino-int8; do if [[ " ${runtimes[*]} " == *" $runtime "* ]]; then exports+=("$runtime"); fi; done
first=${seeds[0]}
declare -A passes=([cola]=3 [sst2]=1 [mrpc]=3 [stsb]=3 [qqp]=1 [mnli]=3 [wnli]=3)
wants() { [[ " ${STEPS-make measure} " == *" $1 "* ]]; }
has() { [[ " ${ROWS-plain shared relaxed searches bits exits} " == *" $1 "* ]]; }
students=()
for student in shared relaxed; do if has "$student"; then students+=("$student"); fi; done
seeds_of() { if [[ " ${LARGE-sst2 qqp mnli} " == *" $1 "* ]]; then echo "$first"; else echo "${seeds[@]}"; fi; }

# Runs a step, and writes how long it took beside what it made; not again what is whole.
step() { # MADE COMMAND…
    local made=$1 begun=$SECONDS
    shift
    if [ -f "$made/record.json" ] || [ -f "$made/done" ]; then return; fi
    "$@" || return
    printf '%s\t%s\t%s\n' "$(date -u +%FT%TZ)" "$((SECONDS - begun))" "$made" >> times.tsv
}

# What the small encoder of a task starts from. MRPC asks what QQP asks, and keeps its head.
start_of() { # TASK
    case ${FIRST-}:$1 in
    qqp:mrpc) echo starts/small-qqp ;;
    ?*:mrpc | ?*:stsb) echo "starts/encoder-$FIRST" ;;
    *) echo starts/small ;;
    esac
}

# What is answered beside the rows of a task, as options of `distill` and `compress`.
unlabelled_of() { # TASK
    local file
    if [ -z "${UNLABELLED-}" ]; then return; fi
    for file in "$UNLABELLED/$1".{txt,csv}; do
        if [ -f "$file" ]; then printf '%s\n' --unlabelled "$file"; fi
    done
}

make() { # MADE VERB WORDS…
    local made=$1
    shift
    step "$made" albert-plus "$@" --out "$made"
}

search() { # FROM NAME DROP: a search at a tolerance, whose pick is kept under a name of its own; a directory without a model where nothing holds
    local from=$1 kept=$2 drop=$3 found=searches/${1#trained/}
    albert-plus compress "$from" "${on[@]}" "${more[@]}" --max-drop "$drop" --time-budget "${BUDGET-60m}" --seed "$first" --out "$found" || return
    # Ctrl-C ends a search with the best until then: the same command goes on.
    if grep -q '"ended": "it was stopped"' "$found/compress.json"; then return 130; fi
    rm -rf "$kept.partial"
    if [ -d "$found/pick" ]; then cp -r "$found/pick" "$kept.partial"; else mkdir "$kept.partial"; fi
    touch "$kept.partial/done"
    mv "$kept.partial" "$kept"
}

plain() { # MADE SEED
    rm -rf "$1"
    python "$here/plain_trainer.py" "$encoder" "$glue" "$1" "$2" 128 "${passes[$task]}" "$task" || return
    touch "$1/done"
}

if wants make; then
    make starts/small convert "$small"
    if [ -n "${FIRST-}" ]; then
        make "starts/small-$FIRST" finetune --model starts/small --data "$glue" --task "$FIRST" --epochs 1 --seed "$first"
        make "starts/encoder-$FIRST" convert "starts/small-$FIRST" --to encoder
    fi
    # One block for three layers; one for six, with differences of rank 16.
    if has shared; then
        make starts/shared convert starts/small --set num_hidden_layers=3 --set attention_sharing=all --set ffn_sharing=all --initialise first
    fi
    if has relaxed; then
        make starts/relaxed convert starts/small --set attention_sharing=all --set ffn_sharing=all --set layer_rank=16 --initialise svd
    fi
    if [ ${#texts[@]} -gt 0 ] && [ ${#students[@]} -gt 0 ]; then
        if [ ! -f text.txt ]; then
            for text in "${texts[@]}"; do cat "$text"; echo; done > text.partial
            mv text.partial text.txt
        fi
        for student in "${students[@]}"; do
            make "general/$student" distill --method tinybert --phases general --teacher starts/small --student "starts/$student" --text text.txt \
                --learning-rate 5e-4 --batch-size 32 --max-length 64 --epochs 1
        done
    fi
    for task in $tasks; do
        on=(--data "$glue" --task "$task")
        mapfile -t more < <(unlabelled_of "$task")
        for seed in $(seeds_of "$task"); do
            teacher=trained/teacher-$task-$seed taught=trained/small-$task-$seed
            make "$teacher" finetune --model "$encoder" --pooling mean "${on[@]}" --epochs "${passes[$task]}" --seed "$seed"
            if has plain; then step "plain/teacher-$task-$seed" plain "plain/teacher-$task-$seed" "$seed"; fi
            make "$taught" distill --method kd --teacher "$teacher" --student "$(start_of "$task")" "${on[@]}" "${more[@]}" \
                --epochs $((2 * ${passes[$task]})) --learning-rate 5e-5 --seed "$seed"
            for student in "${students[@]}"; do
                start=starts/$student
                if [ -d "general/$student" ]; then start=general/$student; fi
                make "trained/$student-$task-$seed" distill --method kd-hidden --teacher "$taught" --student "$start" "${on[@]}" \
                    --epochs $((2 * ${passes[$task]})) --batch-size 64 --learning-rate 3e-4 --seed "$seed"
            done
            for model in teacher small "${students[@]}"; do
                make "models/$model-$task-$seed" export "trained/$model-$task-$seed" "${exports[@]/#/--to=}" "${on[@]}"
            done
        done

        taught=trained/small-$task-$first
        if has searches; then
            for drop in "${drops[@]}"; do
                for from in "${starts[@]}"; do
                    step "picks/$from-$drop-$task" search "trained/$from-$task-$first" "picks/$from-$drop-$task" "$drop"
                done
            done
        fi
        if has bits; then
            make "trained/bits-$task" qat --model "$taught" --bits 2,4,8 --budget 16 "${on[@]}" --epochs "${passes[$task]}" --seed "$first"
            # A model that does not say in onnxruntime what it says in torch is refused, and has no row.
            make "models/bits-$task" export "trained/bits-$task" --to onnx-nbits "${on[@]}" --examples 2000 \
                || echo "no graph of bits-$task: its error stands above" >&2
        fi
        # A number has no entropy to leave by.
        if ! has exits || [ "$task" = stsb ]; then continue; fi
        for model in small $(has relaxed && echo relaxed); do
            make "trained/$model-exits-$task" distill --method fastbert --phases exits --teacher "$taught" --student "trained/$model-$task-$first" \
                "${on[@]}" --epochs "${passes[$task]}" --learning-rate 1e-3 --seed "$first"
            make "trained/$model-exits-$task-calibrated" calibrate --model "trained/$model-exits-$task" "${on[@]}" --max-drop 1
            make "models/$model-exits-$task" export "trained/$model-exits-$task-calibrated" --to onnx-exits --to onnx-int8-exits "${on[@]}"
        done
    done
fi

if ! wants measure; then exit; fi
# Scores of every seed, times of the first: seeds have one architecture, and are as fast.
for task in $tasks; do
    on=(--data "$glue" --task "$task")
    scored=() timed=()
    for seed in $(seeds_of "$task"); do
        rows=()
        for runtime in "${runtimes[@]}"; do
            rows+=("teacher=models/teacher-$task-$seed:$runtime")
        done
        for model in small "${students[@]}"; do
            rows+=("$model=models/$model-$task-$seed:torch")
            for runtime in "${exports[@]}"; do rows+=("$model=models/$model-$task-$seed:$runtime"); done
        done
        scored+=("${rows[@]}")
        if [ -d "plain/teacher-$task-$seed" ]; then scored+=("plain=plain/teacher-$task-$seed"); fi
        if [ "$seed" = "$first" ]; then timed=("${rows[@]}"); fi
    done
    single=()
    for from in teacher small; do
        for drop in "${drops[@]}"; do
            for runtime in onnx-int8:model_int8 onnx-int8-exits:model_exits_int8; do
                if [ -f "picks/$from-$drop-$task/onnx/${runtime#*:}.onnx" ]; then single+=("$from-$drop=picks/$from-$drop-$task:${runtime%:*}"); fi
            done
        done
    done
    if [ -d "models/bits-$task" ]; then single+=("bits=models/bits-$task:onnx-nbits"); fi
    for model in small relaxed; do
        if [ -d "models/$model-exits-$task" ]; then
            single+=("$model-exits=models/$model-exits-$task:onnx-exits" "$model-exits=models/$model-exits-$task:onnx-int8-exits")
        fi
    done
    make "floor/$task" floor "${on[@]}" --teacher "$small"
    make "scores/$task" eval "${scored[@]}" "${single[@]}" "${on[@]}" "${ways[@]/#/--batching=}" --rounds "${ROUNDS-3}"
    make "latency/$task" bench "${timed[@]}" "${single[@]}" --baseline "teacher=models/teacher-$task-$first" "${on[@]}" --scenario single-stream \
        --scenario offline --seconds 1 ${TIMED:+--rows "$TIMED"}
    make "reports/$task" report --scores "scores/$task/scores.json" --scores "floor/$task/scores.json" --bench "latency/$task/latency.json" \
        --title "GLUE, $task" --data-name "$glue"
done
# shellcheck disable=SC2086
python "$here/glue_table.py" . $tasks > table.md
cat table.md
