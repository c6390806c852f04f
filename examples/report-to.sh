#!/bin/sh
# Draws a teacher's fine-tuning and its student's distillation beside each other in TensorBoard:
#   examples/report-to.sh ENCODER DATA OUT [TASK]
#   tensorboard --logdir OUT/curves
# The package tensorboard, or tensorboardX, must be installed. Killed, the same command goes on where it was, in the same curves.
set -eu

encoder=$1 data=$2 out=$3
task=${4:+--task $4}

# shellcheck disable=SC2086 # an option and its value
albert-plus finetune --model "$encoder" --data "$data" $task --report-to tensorboard --out "$out/teacher"
# shellcheck disable=SC2086
albert-plus distill --teacher "$out/teacher" --data "$data" $task --report-to tensorboard --out "$out/student"
mkdir -p "$out/curves"
ln -sfn "../teacher/runs" "$out/curves/teacher"
ln -sfn "../student/runs" "$out/curves/student"
echo "tensorboard --logdir $out/curves"
