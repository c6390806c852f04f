"""The demo's first stage: GLUE-shaped parquet files, a text to pretrain on and a tokenizer, all from one seed."""

from pathlib import Path
from random import Random
from typing import Any

from ..files import late_errors, write_text
from ..glue.tasks import get_task
from ..progress import steps
from ..records import Record, run_stage
from ..tokenization import train_wordpiece
from .tasks import GENERATORS, Row, pretraining_pair

SIZES = {"train": 6000, "validation": 800}
PRETRAINING_PAIRS = 24000
VOCAB_SIZE = 800
_README = """---
configs:
{configs}---
GLUE-shaped data written by a seeded grammar, for demonstration: sentiment with negation (sst2), acceptability with
agreement errors (cola), paraphrase (mrpc), graded similarity (stsb), entailment (rte). Columns and label ids are those of
nyu-mll/glue.
"""


def make_data(output: Path, *, seed: int = 0, tasks: tuple[str, ...] = tuple(GENERATORS)) -> Record:
    """Makes `TASK/SPLIT-00000-of-00001.parquet`, `pretraining.txt` (a sentence a line, a document a pair), `tokenizer/` and a README
    that the Hub's tools read."""

    def work(directory: Path) -> dict[str, Any]:
        with steps("write data", total=len(tasks) + 2) as begin:
            for name in tasks:
                begin(name)
                write_task(directory, name, seed=seed)
            begin("pretraining.txt")
            random = Random(f"{seed} pretraining")
            pairs = ["\n".join(pretraining_pair(random)) for _ in range(PRETRAINING_PAIRS)]
            write_text(directory / "pretraining.txt", "\n\n".join(pairs) + "\n")
            begin("tokenizer")
            train_wordpiece(lambda: pairs, vocab_size=VOCAB_SIZE, max_length=128).save_pretrained(
                directory / "tokenizer"
            )
        configs = "".join(
            f"- config_name: {name}\n  data_files: [{{split: train, path: {name}/train-*}}, {{split: validation, path: {name}/validation-*}}]\n"
            for name in tasks
        )
        write_text(directory / "README.md", _README.format(configs=configs))
        return {"rows": dict.fromkeys(tasks, SIZES), "pretraining_pairs": PRETRAINING_PAIRS}

    return run_stage("demo-data", output, settings={"seed": seed, "tasks": list(tasks)}, parents={}, work=work)


def task_rows(name: str, *, seed: int) -> dict[str, list[Row]]:
    """Rows of each split. No text stands twice, so nothing of validation was trained on."""
    random = Random(f"{seed} {name}")
    seen: set[tuple[str, ...]] = set()
    columns = get_task(name).columns
    splits = {}
    for split, size in SIZES.items():
        rows: list[Row] = []
        while len(rows) < size:
            row = GENERATORS[name](random)
            text = tuple(row[column] for column in columns)
            if text not in seen:
                seen.add(text)
                rows.append({**row, "idx": len(rows)})
        splits[split] = rows
    return splits


def write_task(root: Path, name: str, *, seed: int) -> None:
    """Writes the splits of one task as parquet, with the features that nyu-mll/glue declares."""
    from datasets import ClassLabel, Dataset, Features, Value

    task = get_task(name)
    label = Value("float32") if task.is_regression else ClassLabel(names=list(task.labels))
    features = Features({**{column: Value("string") for column in task.columns}, "label": label, "idx": Value("int32")})
    (root / name).mkdir(parents=True, exist_ok=True)
    for split, rows in task_rows(name, seed=seed).items():
        file = root / name / f"{split}-00000-of-00001.parquet"
        with file.open("wb") as stream, late_errors(stream) as late:
            Dataset.from_list(rows, features=features).to_parquet(late)


__all__ = ["PRETRAINING_PAIRS", "SIZES", "VOCAB_SIZE", "make_data", "task_rows", "write_task"]
