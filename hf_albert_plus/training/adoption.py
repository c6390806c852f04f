"""Teachers that are fine-tuned already: their own labels say so, and nothing is trained again."""

from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig

from ..checkpoints import check_label_order, check_trainable, label_names_of, load_classifier
from ..config_files import load_config
from ..heads import answers
from ..records.record import Record, parent
from ..records.stage import run_stage
from ..tasks.rows import load_tokenizer
from ..tasks.splits import data_parent
from ..tasks.task import Task
from ..tasks.task_file import write_task
from .answer_limits import lacks_threshold, set_missing_threshold


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


def adopt(model: str, *, data: str, task: Task, output: Path, max_length: int) -> Record:
    """A classifier as the teacher of a task: itself with its tokenizer, the task, and the task's names of its labels. A model of spans that
    does not say from where on there is no answer gets the threshold that suits the validation rows best, where questions may have none.

    Args:
        model: directory or Hub id of a classifier.
        data: file, folder or Hub id of the task's.
        output: the directory to make: model, tokenizer, record.json.
        max_length: longest input in tokens that it is to read.

    Raises:
        InvalidInput: other labels than the task's; exits, or few bits, whose students would be of another model.
    """

    def work(directory: Path) -> dict[str, Any]:
        classifier: Any = load_classifier(model, option="--teacher", task=task)
        check_trainable(model, classifier.config, option="--teacher")
        tokenizer = load_tokenizer(model, classifier.config)
        set_missing_threshold(classifier, data=data, task=task, tokenizer=tokenizer, max_length=max_length)
        classifier.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        write_task(directory, task, max_length=max_length)
        return {"architecture": type(classifier).__name__, "parameters": classifier.num_parameters()}

    settings = {**task.settings, "max_length": max_length}
    parents = {"model": parent(model)}
    if lacks_threshold(load_config(model, option="--teacher"), task):
        parents["data"] = data_parent(data, task)
    return run_stage("adopt", output, settings=settings, parents=parents, work=work)
