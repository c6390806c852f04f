"""Fine-tuning an encoder on one GLUE task: a model directory and data in, a classifier directory out."""

from pathlib import Path
from typing import Any

from . import processes
from .errors import InvalidInput
from .glue import Task, data_parent, encode, load_split, load_tokenizer
from .records import CHECKPOINTS, Record, parent, run_stage
from .training import TrainSettings


def fits_positions(config: Any, max_length: int) -> None:
    """Refuses a length that the model has no positions for."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and max_length > positions:
        raise InvalidInput(
            f"--max-length must not exceed the model's {positions} positions",
            got=max_length,
            repair=f"use --max-length {positions}",
        )


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
        from transformers import DataCollatorWithPadding, set_seed

        from .checkpoints import load_classifier
        from .training import train

        set_seed(settings.seed)
        classifier = load_classifier(model, option="--model", task=task)
        fits_positions(classifier.config, settings.max_length)
        tokenizer = load_tokenizer(model, classifier.config)
        rows = encode(load_split(data, task, "train"), task, tokenizer, max_length=settings.max_length)
        result = train(
            classifier,
            rows=rows,
            collator=DataCollatorWithPadding(tokenizer),
            settings=settings,
            checkpoints=directory / CHECKPOINTS,
            description=f"fine-tune {task.name}",
            checkpoint_seconds=checkpoint_seconds,
        )
        if processes.is_first():
            classifier.save_pretrained(directory)
            tokenizer.save_pretrained(directory)
        return {**result, "parameters": classifier.num_parameters()}

    return run_stage(
        "finetune",
        output,
        settings={"task": task.name, **settings.describe()},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
        resumable=True,
    )


__all__ = ["finetune", "fits_positions"]
