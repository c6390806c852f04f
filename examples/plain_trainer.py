"""Fine-tunes a classifier of one's own data, or of a task of GLUE, as the documentation of transformers does: Trainer with its defaults, the head's class of the
checkpoint's family, as many epochs as `albert-plus finetune` takes unless it is told another number. What `finetune` is compared with (docs/results/own-data.md).

    python examples/plain_trainer.py ENCODER DATA OUT [SEED] [MAX_LENGTH] [EPOCHS] [TASK]
"""

import sys
from pathlib import Path

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

from hf_albert_plus.machine import multiplies_bf16
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task_file import write_task

encoder, data, out = sys.argv[1:4]
seed = int(sys.argv[4]) if len(sys.argv) > 4 else 42
max_length = int(sys.argv[5]) if len(sys.argv) > 5 else 128
task = get_task(sys.argv[7]) if len(sys.argv) > 7 else find_task(data)
epochs = float(sys.argv[6]) if len(sys.argv) > 6 and sys.argv[6] else task.epochs
set_seed(seed)
names = dict(enumerate(task.label_names))
model = AutoModelForSequenceClassification.from_pretrained(
    encoder,
    num_labels=task.num_labels,
    id2label=names,
    label2id={name: i for i, name in names.items()},
    problem_type=task.problem_type,
)
tokenizer = AutoTokenizer.from_pretrained(encoder)
rows = load_split(data, task, "train").map(
    lambda batch: tokenizer(*(batch[name] for name in task.columns), truncation=True, max_length=max_length),
    batched=True,
)
arguments = TrainingArguments(
    out,
    num_train_epochs=epochs,
    per_device_train_batch_size=task.batch_size,
    seed=seed,
    save_strategy="no",
    report_to="none",
    bf16=multiplies_bf16(),
    use_cpu=not torch.cuda.is_available(),
)
Trainer(model, arguments, train_dataset=rows, data_collator=DataCollatorWithPadding(tokenizer)).train()
model.save_pretrained(out)
tokenizer.save_pretrained(out)
write_task(Path(out), task, max_length=max_length)
