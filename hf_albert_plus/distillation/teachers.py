"""Teachers: classifiers of a task, encoders that teach on text, and logits computed once."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from .. import processes
from ..checkpoints import check_label_order, from_pretrained, load_config
from ..errors import InvalidInput
from ..glue import Task
from ..progress import track
from .phases import Phase
from .rows import TEACHER_LOGITS, Collator

if TYPE_CHECKING:
    from datasets import Dataset

_ROWS = 64


def check_teacher(source: Any, task: Task, *, name: str) -> None:
    """Refuses a teacher that is no classifier of the task.

    Raises:
        InvalidInput: another number of labels, or another order.
    """
    if source.num_labels != task.num_labels:
        raise InvalidInput(
            f"--teacher must be a classifier with the {task.num_labels} labels of {task.name}",
            got=f"{name} with {source.num_labels} labels",
            repair=f"fine-tune it first: albert-plus finetune --model {name} --task {task.name} …",
        )
    check_label_order(source, task, option="--teacher")


def text_teacher(source: str, phase: Phase) -> PreTrainedModel | None:
    """The model that teaches a phase on text: a masked language model where the phase reads words, or else an encoder.

    Raises:
        InvalidInput: words are read of a checkpoint without a masked language modelling head.
    """
    if not phase.of_teacher:
        return None
    if not phase.reads_tokens:
        model, _ = from_pretrained(AutoModel, source, option="--general-teacher")
        return model
    architectures = load_config(source, option="--general-teacher").architectures or []
    if not any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in architectures):
        raise InvalidInput(
            f"the phase {phase.name} needs a teacher with a masked language modelling head",
            got=f"{source}, a {', '.join(architectures) or 'model without a named architecture'}",
            repair="name one with --general-teacher, or leave the phase out with --phases",
        )
    model, report = from_pretrained(AutoModelForMaskedLM, source, option="--general-teacher")
    if report["missing_keys"]:
        raise InvalidInput(
            "--general-teacher must hold the weights of its masked language modelling head",
            got=f"{source} without {sorted(report['missing_keys'])[0]}",
            repair="use a checkpoint saved with that head",
        )
    return model


def with_teacher_logits(
    rows: "Dataset",
    teacher: Any,
    teacher_rows: "Dataset",
    tokenizer: PreTrainedTokenizerBase,
    *,
    file: Path,
    use_bf16: bool,
) -> "Dataset":
    """The rows with the teacher's logits as a column, computed once and kept in a file for the run's resumptions.

    They belong to a row, whatever the order it is drawn in: that is sound because the teacher sees the row unchanged and
    without dropout every time.

    Args:
        teacher_rows: the same rows as the teacher reads them.
    """

    def compute() -> None:
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_suffix(".tmp")
            logits = _logits(teacher, teacher_rows, Collator(tokenizer), use_bf16=use_bf16)
            save_file({TEACHER_LOGITS: logits}, temporary)
            temporary.replace(file)

    processes.first_alone(compute)
    return rows.add_column(TEACHER_LOGITS, load_file(file)[TEACHER_LOGITS].tolist())


def _logits(teacher: Any, rows: "Dataset", collator: Collator, *, use_bf16: bool) -> torch.Tensor:
    device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    teacher = teacher.eval().to(device)
    order = sorted(range(len(rows)), key=rows["length"][:].__getitem__)
    logits = torch.empty(len(rows), teacher.config.num_labels)
    batches = [order[begin : begin + _ROWS] for begin in range(0, len(order), _ROWS)]
    for numbers in track(batches, total=len(batches), description="ask the teacher"):
        batch = collator([rows[number] for number in numbers])
        batch.pop("labels", None)
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=use_bf16):
            answer = teacher(**{name: tensor.to(device) for name, tensor in batch.items()}).logits
        logits[numbers] = answer.float().cpu()
    return logits


__all__ = ["check_teacher", "text_teacher", "with_teacher_logits"]
