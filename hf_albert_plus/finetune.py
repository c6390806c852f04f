"""Fine-tuning an encoder on one GLUE task: a model directory and data in, a classifier directory out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import processes
from .errors import InvalidInput
from .glue import Task, data_parent, encode, load_split, load_tokenizer
from .records import CHECKPOINTS, Record, parent, run_stage
from .training import TrainSettings

if TYPE_CHECKING:
    from transformers import TrainerCallback


# The special tokens of a pair, and a word.
_SHORTEST = 4


def fits_positions(config: Any, max_length: int) -> None:
    """Refuses a length that has no room for words, or that the model has no positions for."""
    from hf_albert_plus.export.inputs import longest_input

    longest = longest_input(config)
    if max_length < _SHORTEST:
        raise InvalidInput(f"--max-length must be at least {_SHORTEST}", got=max_length, repair="use --max-length 128")
    if max_length > longest:
        raise InvalidInput(
            f"--max-length must not exceed the model's {longest} positions",
            got=max_length,
            repair=f"use --max-length {longest}",
        )


def task_rows(
    model: str | Path, config: Any, *, data: str, task: Task, max_length: int, split: str = "train"
) -> tuple[Any, Any]:
    """A model's tokenizer, and a split's rows as it encodes them.

    Raises:
        InvalidInput: a length that the model has no positions for.
    """
    fits_positions(config, max_length)
    tokenizer = load_tokenizer(model, config)
    return tokenizer, encode(load_split(data, task, split), task, tokenizer, max_length=max_length)


def fit(
    classifier: Any,
    model: str,
    *,
    data: str,
    task: Task,
    directory: Path,
    settings: TrainSettings,
    description: str,
    callbacks: "Sequence[TrainerCallback]" = (),
    checkpoint_seconds: float,
) -> dict[str, Any]:
    """Trains a classifier that was opened from `model` on a task, and saves it with its tokenizer. What came out, as `train` says."""
    from transformers import DataCollatorWithPadding

    from .training import train

    tokenizer, rows = task_rows(model, classifier.config, data=data, task=task, max_length=settings.max_length)
    result = train(
        classifier,
        rows=rows,
        collator=DataCollatorWithPadding(tokenizer),
        settings=settings,
        checkpoints=directory / CHECKPOINTS,
        description=description,
        callbacks=callbacks,
        checkpoint_seconds=checkpoint_seconds,
    )
    if processes.is_first():
        classifier.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
    return {**result, "parameters": classifier.num_parameters()}


def finetune(
    model: str, *, data: str, task: Task, output: Path, settings: TrainSettings, checkpoint_seconds: float = 60
) -> Record:
    """Plain fine-tuning with a new classifier head (or the checkpoint's own, where it has the task's labels).

    Args:
        model: directory or Hub id of any encoder that AutoModelForSequenceClassification opens.
        data: folder or Hub id in the layout of nyu-mll/glue.
        output: the directory to make: model, tokenizer, record.json.
    """

    def work(directory: Path) -> dict[str, Any]:
        from transformers import set_seed

        from .checkpoints import check_trainable, load_classifier

        set_seed(settings.seed)
        classifier = load_classifier(model, option="--model", task=task)
        check_trainable(model, classifier.config, option="--model")
        return fit(
            classifier,
            model,
            data=data,
            task=task,
            directory=directory,
            settings=settings,
            description=f"fine-tune {task.name}",
            checkpoint_seconds=checkpoint_seconds,
        )

    return run_stage(
        "finetune",
        output,
        settings={"task": task.name, **settings.describe()},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
        resumable=True,
    )


__all__ = ["finetune", "fit", "fits_positions", "task_rows"]
