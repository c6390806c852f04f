"""Distils a classifier into a small all-shared ALBERT with transformers' own Trainer around it: your rows, callbacks and arguments.

    python examples/distillation_trainer.py --teacher TEACHER --out student --data rows.csv
    python examples/distillation_trainer.py --teacher TEACHER --out student

The csv file has the columns `text` and `label`, labels by the teacher's names or numbers. Without one the script makes rows itself: texts of
made-up words that the teacher answers, and its answers are their labels. Killed, the same command goes on at its last checkpoint;
`accelerate launch examples/distillation_trainer.py …` runs it on several devices.
"""

import argparse
from pathlib import Path
from random import Random

import torch
from datasets import Dataset, load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

from hf_albert_plus import AlbertPlusConfig, AlbertPlusForSequenceClassification, DistillationTrainer

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--teacher", required=True, help="Directory or Hub id of a classifier.")
parser.add_argument("--out", required=True, type=Path)
parser.add_argument(
    "--data", help="A csv file with the columns text and label. Default: rows that the teacher answers."
)
parser.add_argument("--method", default="kd-hidden", help="A row of albert-plus distill --list-methods.")
parser.add_argument("--phase", help="Of a method with several.")
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--epochs", type=float, default=3.0)
parser.add_argument("--report-to", default="none", help="tensorboard, wandb, mlflow, ….")
chosen = parser.parse_args()

set_seed(42)
teacher = AutoModelForSequenceClassification.from_pretrained(chosen.teacher).eval()
tokenizer = AutoTokenizer.from_pretrained(chosen.teacher)
longest = min(64, teacher.config.max_position_embeddings)


def encode(texts):
    return tokenizer(texts, truncation=True, max_length=longest)


def made_up_rows(count=400):
    """Texts of the tokenizer's own words, each with the label that the teacher gives it."""
    random = Random(0)
    words = [word for word in tokenizer.get_vocab() if word.isalpha()]
    texts = [" ".join(random.choices(words, k=random.randint(3, 12))) for _ in range(count)]
    with torch.no_grad():
        answers = [
            teacher(**tokenizer.pad(encode(texts[start : start + 50]), return_tensors="pt")).logits.argmax(-1).tolist()
            for start in range(0, count, 50)
        ]
    return Dataset.from_dict({"text": texts, "label": [label for batch in answers for label in batch]})


def number_of(label):
    return int(label) if str(label).isdigit() else teacher.config.label2id[label]


if chosen.data:
    rows = load_dataset("csv", data_files=chosen.data, split="train", keep_in_memory=True)
else:
    rows = made_up_rows()
labels = [number_of(label) for label in rows["label"]]
rows = rows.select_columns("text").map(lambda batch: encode(batch["text"]), batched=True).add_column("label", labels)
parts = rows.train_test_split(test_size=0.1, seed=42)

same = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "max_position_embeddings", "pad_token_id",
        "type_vocab_size", "id2label", "label2id")  # fmt: skip
student = AlbertPlusForSequenceClassification(
    AlbertPlusConfig(
        num_hidden_layers=chosen.layers,
        embedding_size=min(128, teacher.config.hidden_size),
        **{name: getattr(teacher.config, name) for name in same if hasattr(teacher.config, name)},
    )
)


class SaysTerms(TrainerCallback):
    """A callback of one's own: prints every term of the loss as it is logged."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        terms = {name: round(value, 4) for name, value in (logs or {}).items() if name.startswith("loss_")}
        if terms and state.is_world_process_zero:
            print(state.global_step, terms)


def accuracy(told):
    return {"accuracy": float((told.predictions.argmax(-1) == told.label_ids).mean())}


trainer = DistillationTrainer(
    student,
    TrainingArguments(
        str(chosen.out / "checkpoints"),
        num_train_epochs=chosen.epochs,
        per_device_train_batch_size=16,
        learning_rate=3e-4,
        warmup_steps=0.06,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=10,
        disable_tqdm=True,
        report_to=chosen.report_to,
        use_cpu=not torch.accelerator.is_available(),
    ),
    teacher=teacher,
    method=chosen.method,
    phase=chosen.phase,
    train_dataset=parts["train"],
    eval_dataset=parts["test"],
    processing_class=tokenizer,
    compute_metrics=accuracy,
    callbacks=[SaysTerms()],
)
checkpoints = Path(trainer.args.output_dir)
trainer.train(resume_from_checkpoint=get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None)
print(trainer.evaluate())
trainer.save_model(str(chosen.out / "student"))
