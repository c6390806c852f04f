"""Teachers that are fine-tuned already: their own labels say so, and nothing is trained again."""

from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig

from ..checkpoints import check_label_order, check_trainable, label_names_of, load_classifier
from ..heads import answers
from ..records.record import Record, parent
from ..records.stage import run_stage
from ..tasks.rows import load_tokenizer
from ..tasks.task import Task
from ..tasks.task_file import write_task


def is_trained_for(config: PreTrainedConfig, task: Task, *, alone: bool) -> bool:
    """Whether a checkpoint is a classifier of a task.

    Args:
        alone: whether it is asked for this task alone: labels without names are then the task's.

    Raises:
        InvalidInput: a classifier with the task's labels in another order, or with others than a task of one's own has.
    """
    if not answers(config, task) or config.num_labels != task.num_labels:
        return False
    names = {name.lower() for name in label_names_of(config)}
    if task.benchmark and names != {name.lower() for name in task.label_names}:
        return not names and alone
    check_label_order(config, task, option="--teacher")
    return True


def adopt(model: str, *, task: Task, output: Path, max_length: int) -> Record:
    """A classifier as the teacher of a task: itself with its tokenizer, the task, and the task's names of its labels.

    Args:
        model: directory or Hub id of a classifier.
        output: the directory to make: model, tokenizer, record.json.
        max_length: longest input in tokens that it is to read.

    Raises:
        InvalidInput: other labels than the task's; exits, or few bits, whose students would be of another model.
    """

    def work(directory: Path) -> dict[str, Any]:
        classifier: Any = load_classifier(model, option="--teacher", task=task)
        check_trainable(model, classifier.config, option="--teacher")
        classifier.save_pretrained(directory)
        load_tokenizer(model, classifier.config).save_pretrained(directory)
        write_task(directory, task, max_length=max_length)
        return {"architecture": type(classifier).__name__, "parameters": classifier.num_parameters()}

    settings = {**task.settings, "max_length": max_length}
    return run_stage("adopt", output, settings=settings, parents={"model": parent(model)}, work=work)
