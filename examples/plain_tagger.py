"""Fine-tunes a tagger of words as the documentation of transformers does: Trainer with its defaults, a new head, the first piece of each word
with its tag, as many epochs as `albert-plus finetune` takes unless it is told another number. What `finetune` is compared with
(docs/results/own-data.md).

    python examples/plain_tagger.py ENCODER DATA LABEL_COLUMN OUT [SEED] [EPOCHS]
"""

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

from hf_albert_plus.machine import multiplies_bf16
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task_file import write_task

encoder, data, label_column, out = sys.argv[1:5]
seed = int(sys.argv[5]) if len(sys.argv) > 5 else 42
task = find_task(data, DataSettings(label_column=(label_column,)))
epochs = float(sys.argv[6]) if len(sys.argv) > 6 else task.epochs
set_seed(seed)
names = dict(enumerate(task.labels))
model = AutoModelForTokenClassification.from_pretrained(
    encoder, num_labels=task.num_labels, id2label=names, label2id={name: i for i, name in names.items()}
)
tokenizer = AutoTokenizer.from_pretrained(encoder)


def encode(batch: dict[str, Any]) -> Any:
    encoded = tokenizer(batch[task.columns[0]], truncation=True, is_split_into_words=True, max_length=task.max_length)
    encoded["labels"] = []
    for row, tags in enumerate(batch["label"]):
        words = encoded.word_ids(row)
        first = [word is not None and word != before for before, word in zip([None, *words], words, strict=False)]
        encoded["labels"].append(
            [tags[word] if is_first else -100 for word, is_first in zip(words, first, strict=True)]
        )
    return encoded


rows = load_split(data, task, "train")
rows = rows.map(encode, batched=True, remove_columns=rows.column_names)
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
Trainer(model, arguments, train_dataset=rows, data_collator=DataCollatorForTokenClassification(tokenizer)).train()
model.save_pretrained(out)
tokenizer.save_pretrained(out)
write_task(Path(out), task)
