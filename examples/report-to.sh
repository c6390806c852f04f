#!/bin/sh
# Draws a teacher's fine-tuning and its student's distillation beside each other in TensorBoard:
#   examples/report-to.sh ENCODER DATA OUT [OPTION...]
#   tensorboard --logdir OUT/curves
# Options are those of both trainings, such as --task sst2. The package tensorboard, or tensorboardX, must be installed. Killed, the same
# command goes on where it was, in the same curves.
set -eu

encoder=$1 data=$2 out=$3
shift 3

albert-plus finetune --model "$encoder" --data "$data" --report-to tensorboard --out "$out/teacher" "$@"
albert-plus distill --teacher "$out/teacher" --data "$data" --report-to tensorboard --out "$out/student" "$@"
mkdir -p "$out/curves"
ln -sfn "../teacher/runs" "$out/curves/teacher"
ln -sfn "../student/runs" "$out/curves/student"
echo "tensorboard --logdir $out/curves"
