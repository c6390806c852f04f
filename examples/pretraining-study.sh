#!/bin/bash
# The study of pretraining (docs/results/pretraining.md): what ALBERT and RoBERTa showed, at small scale and with several seeds. Every encoder sees
# as many tokens. A run is made once, however many parts read it, and all runs of one seed begin before those of the next. What is there already
# is not made again, so it may be stopped and started at will; the tables, study/study.md and study/study.json, are of what is complete.
#
#   examples/pretraining-study.sh study nyu-mll/glue wikipedia.txt novels.txt reviews.txt
#
# PARTS and SEEDS name some of the runs, JOBS is how many run at once, and TOKENS how many tokens each sees. STOP_AFTER and END_AFTER are seconds
# from the start: after the first no command begins, and at the second those that still run are ended. VOCABULARY, LENGTH, SHAPE, HELD_OUT, FEW and
# FINE choose another size: pieces, tokens of an example, options of the encoder, the share of documents that losses are of, bytes of each text
# for the part on masks, and a factor for the passes of fine-tuning.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$1 glue=$2
shift 2
if [ -d "$glue" ]; then glue=$(realpath "$glue"); fi
PARTS=${PARTS-order masks formats batches dropout sharing}
TOKENS=${TOKENS-10000000}
FINE=${FINE-1}
LENGTH=${LENGTH-128}
SHAPE=${SHAPE---set hidden_size=256 --set num_hidden_layers=6 --set num_attention_heads=4 --set intermediate_size=1024}
stop=$(($(date +%s) + ${STOP_AFTER-1000000})) end=$(($(date +%s) + ${END_AFTER-1000000}))
export PARTS TOKENS FINE LENGTH SHAPE glue stop end

texts=() few=()
mkdir -p "$out/few" "$out/logs"
for text in "$@"; do
    texts+=(--corpus "$(realpath "$text")")
    # Whole lines: a cut may lie within a character.
    head -c "${FEW-1000000}" "$text" | sed '$d' > "$out/few/$(basename "$text")"
    few+=(--corpus "few/$(basename "$text")")
done
cd "$out"

make() { # OUT WORDS...: albert-plus WORDS --out OUT, unless it is made already; ends the job where it is too late
    local made=$1 now status=0
    shift
    now=$(date +%s)
    if [ -e "$made/record.json" ]; then return; fi
    if [ "$now" -ge "$stop" ] || [ "$now" -ge "$end" ]; then exit 0; fi
    timeout $((end - now)) albert-plus "$@" --out "$made" || status=$?
    if [ $status = 124 ]; then exit 0; fi
    return $status
}

passes() { # CORPUS TOKENS: how many passes over a corpus they are
    sed -n 's/.*"train_tokens": \([0-9]*\).*/\1/p' "corpus-$1/record.json" | awk -v tokens="$2" '{ printf "%.4f", tokens / $1 }'
}

is_asked() { # PART,PART...: whether any of them is to run
    local part
    for part in ${1//,/ }; do if [[ " $PARTS " = *" $part "* ]]; then return; fi; done
    return 1
}

study_one() { # SEED NAME CORPUS ATTENTION FFN EMBEDDING BATCH OPTIMIZER RATE THEN [options of pretrain...]
    local seed=$1 name=$2 corpus=$3 step other
    # Packed rows have as many tokens a step in every format, as RoBERTa's larger batches of shorter examples have. This attention has no kernels
    # to compile, as flex attention has in every process. One score, at the end, is enough. A run
    # that learns little is a result too.
    local -a shape on all=(--attention sdpa --threads 1 --evaluations 1 --warmup 0.1 --patience 1 --seed "$seed")
    read -r -a shape <<< "$SHAPE"
    make "trained/$name-$seed" pretrain --corpus "corpus-$corpus" "${shape[@]}" --set max_position_embeddings="$LENGTH" --set attention_sharing="$4" \
        --set ffn_sharing="$5" --set embedding_size="$6" --epochs "$(passes "$corpus" "$TOKENS")" --batch-size "$7" --optimizer "$8" \
        --learning-rate "$9" "${all[@]}" "${@:11}"
    for step in ${10//,/ }; do
        other=${step#*:}
        on=(pretrain --corpus "corpus-$other" --model "trained/$name-$seed" --batch-size 64 --optimizer adamw "${all[@]}")
        case $step in
            # Its answers to the other task as they are: one step at a rate of nothing.
            ask:*) if is_asked order; then make "asked/$name-$other-$seed" "${on[@]}" --epochs 0.000001 --learning-rate 1e-9; fi ;;
            # And after a tenth of the tokens with that task's labels.
            teach:*)
                if is_asked order; then
                    make "taught/$name-$other-$seed" "${on[@]}" --epochs "$(passes "$other" $((TOKENS / 10)))" --learning-rate 2e-4
                fi
                ;;
            tune)
                if is_asked formats; then
                    fine_tune "$name" "$seed" sst2 1 64
                    fine_tune "$name" "$seed" mrpc 4 32
                fi
                ;;
        esac
    done
}

fine_tune() { # NAME SEED TASK EPOCHS BATCH
    local epochs
    epochs=$(awk -v factor="$FINE" -v epochs="$4" 'BEGIN { print factor * epochs }')
    make "tuned/$1-$3-$2" finetune --model "trained/$1-$2" --data "$glue" --task "$3" --max-length "$LENGTH" --epochs "$epochs" --batch-size "$5" \
        --learning-rate 2e-4 --seed "$2" --threads 1
    make "scores/$1-$3-$2" eval "$1=tuned/$1-$3-$2" --data "$glue" --task "$3" --max-length "$LENGTH" --threads 1
}
export -f make passes is_asked study_one fine_tune

# A name, the parts that read it, and what `study_one` is given. Learning rates follow the square root of the rows (You et al. 2019, table 4). AdamW's
# for 64, RATE_ADAMW, is by default that of the study of sharing, 5e-4 for 16. LAMB's is RATE_LAMB: ALBERT's 1.76e-3 for 4,096 would be 2.2e-4, which is meant for
# 125,000 steps and learns nothing in some hundred. As in ALBERT's table 3, rows of one batch size have seen as many tokens, so larger batches have
# fewer steps. 1,024 rows are four passes forward.
adamw=${RATE_ADAMW-1e-3} lamb=${RATE_LAMB-1e-2}
rate() { # RATE FACTOR
    awk -v rate="$1" -v factor="$2" 'BEGIN { print rate * factor }'
}
runs="
next-sentence order,formats next-sentence all all 128 64 adamw $adamw ask:sentence-order,teach:sentence-order,tune
base order,batches,dropout sentence-order all all 128 64 adamw $adamw ask:next-sentence,teach:next-sentence
sentence-pair formats sentence-pair all all 128 64 adamw $adamw tune
full-sentences formats full-sentences all all 128 64 adamw $adamw tune
doc-sentences formats doc-sentences all all 128 64 adamw $adamw tune
no-order order none all all 128 64 adamw $adamw teach:sentence-order,teach:next-sentence
lamb-64 batches sentence-order all all 128 64 lamb $lamb -
adamw-256 batches sentence-order all all 128 256 adamw $(rate "$adamw" 2) -
lamb-256 batches sentence-order all all 128 256 lamb $(rate "$lamb" 2) -
adamw-1024 batches sentence-order all all 128 1024 adamw $(rate "$adamw" 4) - --accumulate 4
lamb-1024 batches sentence-order all all 128 1024 lamb $(rate "$lamb" 4) - --accumulate 4
masks-new masks few all all 128 64 adamw $adamw -
masks-1 masks few all all 128 64 adamw $adamw - --copies 1
masks-10 masks few all all 128 64 adamw $adamw - --copies 10
dropout dropout sentence-order all all 128 64 adamw $adamw - --set hidden_dropout_prob=0.1 --set attention_probs_dropout_prob=0.1
none-64 sharing sentence-order none none 64 64 adamw $adamw -
attention-64 sharing sentence-order all none 64 64 adamw $adamw -
ffn-64 sharing sentence-order none all 64 64 adamw $adamw -
all-64 sharing sentence-order all all 64 64 adamw $adamw -
none-256 sharing sentence-order none none 256 64 adamw $adamw -
attention-256 sharing sentence-order all none 256 64 adamw $adamw -
ffn-256 sharing sentence-order none all 256 64 adamw $adamw -
all-256 sharing sentence-order all all 256 64 adamw $adamw -"

# A sample of the text is enough for few pieces, and learning from all of it takes minutes.
make vocab tokenizer train "${texts[@]}" --vocab-size "${VOCABULARY-8000}" --sample 10000000
export OMP_NUM_THREADS=1 RAYON_NUM_THREADS=1
build=(corpus build --tokenizer vocab --max-length "$LENGTH" --held-out "${HELD_OUT-0.01}")
builders=()
corpus() { # PARTS NAME options...: begins to build a corpus
    if is_asked "$1"; then
        make "corpus-$2" "${build[@]}" "${@:3}" > "logs/corpus-$2" 2>&1 &
        builders+=($!)
    fi
}
corpus order,batches,dropout,sharing sentence-order "${texts[@]}" --order sentence-order
corpus order,formats next-sentence "${texts[@]}" --order next-sentence
corpus order none "${texts[@]}" --order none
corpus formats sentence-pair "${texts[@]}" --format sentence-pair --order next-sentence
corpus formats full-sentences "${texts[@]}" --format full-sentences
corpus formats doc-sentences "${texts[@]}" --format doc-sentences
# Masks that stay the same differ from new ones when a row comes again: little text, many times.
corpus masks few "${few[@]}" --order sentence-order --held-out 0.2
for builder in "${builders[@]}"; do wait "$builder"; done

failed=0
for seed in ${SEEDS-1 2 3}; do
    while read -r name parts rest; do
        if [ -n "$name" ] && is_asked "$parts"; then echo "$seed $name $rest"; fi
    done <<< "$runs"
done | xargs -P "${JOBS-$(nproc)}" -I{} bash -euo pipefail -c 'set -- {}; study_one "$@" > "logs/$2-$1" 2>&1' || failed=$?

python3 "$here/pretraining_study.py" . --json study.json | tee study.md
if [ $failed != 0 ]; then echo "some runs failed: see $out/logs" >&2; fi
exit $failed
