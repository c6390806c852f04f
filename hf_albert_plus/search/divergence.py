"""How far a candidate's answers are from its teacher's, on training rows that are set aside: what shapes are compared by after their first
passes. A score counts the answers that turned, and of some hundreds of rows few did; the distance sees all of them."""

from pathlib import Path
from typing import Any

import torch

from ..checkpoints import load_classifier
from ..distillation.losses.soft_targets import binary_logits, soft_target_loss
from ..records.record import Record, parent
from ..records.stage import run_stage
from ..tasks.rows import encode, load_tokenizer
from ..tasks.splits import data_parent, evaluated_splits, load_split
from ..tasks.task import Task
from ..training.collators import collator_of
from ..training.row_logits import row_logits
from ..training.settings import Precision, trains_in_bf16
from .set_aside import DividedRows


def measure_divergence(
    candidate: Path,
    teacher: Path,
    *,
    answered: dict[Path, torch.Tensor],
    rows: DividedRows,
    output: Path,
    max_length: int,
    precision: Precision,
) -> tuple[float, Record]:
    """The mean over the rows set aside (of tags over their words) of what the candidate's answers lose of the teacher's: their Kullback-Leibler
    divergence, of several labels that of each by itself, of numbers the squared distance.

    Args:
        candidate, teacher: classifiers of one vocabulary.
        answered: what the teacher said of the rows, by its directory; filled where it is not there.
    """

    def work(directory: Path) -> dict[str, Any]:
        said = _answers(candidate, rows, max_length=max_length, precision=precision)
        if teacher not in answered:
            answered[teacher] = _answers(teacher, rows, max_length=max_length, precision=precision)
        return {"divergence": divergence_of(said, answered[teacher], task=rows.task)}

    parents = {
        "candidate": parent(candidate),
        "teacher": parent(teacher),
        "data": data_parent(str(rows.data), rows.task),
    }
    settings = {**rows.task.settings, "max_length": max_length, "precision": precision}
    record = run_stage("divergence", output, settings=settings, parents=parents, work=work)
    return float(record.result["divergence"]), record


def divergence_of(student_BC: torch.Tensor, teacher_BC: torch.Tensor, *, task: Task) -> float:
    """That of logits, `[B, C]` twice, or of tags `[words, C]`."""
    if task.has_several_labels:
        student_BC, teacher_BC = binary_logits(student_BC), binary_logits(teacher_BC)
    return float(soft_target_loss(student_BC, teacher_BC, temperature=1.0))


def _answers(model: Path, rows: DividedRows, *, max_length: int, precision: Precision) -> torch.Tensor:
    """A model's logits of the rows, or of the first pieces of their words; the shortest rows come first."""
    classifier = load_classifier(model, option="a candidate")
    tokenizer = load_tokenizer(model, classifier.config)
    split = next(iter(evaluated_splits(str(rows.data), rows.task).values()))
    encoded = encode(load_split(str(rows.data), rows.task, split), rows.task, tokenizer, max_length=max_length)
    few = sorted(encoded.to_list(), key=lambda row: row["length"])
    return row_logits(classifier, few, collator_of(rows.task, tokenizer), use_bf16=trains_in_bf16(precision))
