"""Fine-tuning an encoder on one task: a model directory and data in, a classifier directory out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, set_seed

from ..checkpoints import check_trainable
from ..config_files import load_config
from ..conversion.sentence_encoders import new_classifiers_pooling, open_for_task
from ..conversion.settings import Pooling
from ..heads import gives_labels
from ..records import processes
from ..records.record import CHECKPOINTS, Record, parent
from ..records.stage import run_stage
from ..tasks.inspection import inspected
from ..tasks.rows import encode, fits_positions, load_tokenizer
from ..tasks.splits import data_parent, load_split
from ..tasks.task import Task
from ..tasks.task_file import write_task
from .answer_limits import check_threshold, set_answer_limits
from .collators import collator_of
from .label_thresholds import set_label_thresholds
from .loop import TrainingResult, train
from .new_heads import head_rate, start_at_priors
from .settings import TrainSettings
from .units import standard_units
from .zeros import KeepsZeros, Zeros, matrices


def task_rows(
    model: str | Path, config: Any, *, data: str, task: Task, max_length: int, split: str = "train"
) -> tuple[Any, Any]:
    """A model's tokenizer, and a split's rows as it encodes them.

    Raises:
        InvalidInput: a length that the model has no positions for, or windows that share too many of its tokens.
    """
    fits_positions(config, max_length)
    task.long.check(max_length)
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
    callbacks: Sequence[TrainerCallback] = (),
    checkpoint_seconds: float,
    head_learning_rate: float | None = None,
    no_answer_threshold: float | None = None,
) -> TrainingResult:
    """Trains a classifier that was opened from `model` on a task, and saves it with its tokenizer. A head with a rate of its own is a
    new one."""
    tokenizer, rows = task_rows(model, classifier.config, data=data, task=task, max_length=settings.max_length)
    answers = gives_labels(load_config(model, option="--model"))
    if head_learning_rate is not None and not task.has_spans:
        start_at_priors(classifier, rows["labels"][:], task)
    with standard_units(classifier, rows, task=task, answers=answers) as learned:
        result = train(
            classifier,
            rows=learned,
            collator=collator_of(task, tokenizer),
            settings=settings,
            checkpoints=directory / CHECKPOINTS,
            description=description,
            callbacks=callbacks,
            checkpoint_seconds=checkpoint_seconds,
            head_learning_rate=head_learning_rate,
        )
    if processes.is_first():
        set_label_thresholds(classifier, rows, tokenizer=tokenizer, task=task)
        set_answer_limits(
            classifier, rows, data=data, task=task, tokenizer=tokenizer, max_length=settings.max_length, threshold=no_answer_threshold,
        )  # fmt: skip
        classifier.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        write_task(directory, task, max_length=settings.max_length)
    return result


def finetune(
    model: str,
    *,
    data: str,
    task: Task,
    output: Path,
    settings: TrainSettings,
    pooling: Pooling | None = None,
    head_learning_rate: float | None = None,
    keep_zeros: bool = True,
    no_answer_threshold: float | None = None,
    checkpoint_seconds: float = 60,
) -> Record:
    """Plain fine-tuning with a new classifier head (or the checkpoint's own, where it has the task's labels).

    Args:
        model: directory or Hub id of any encoder that AutoModelForSequenceClassification opens, or AutoModelForTokenClassification
            for a task of tags, or AutoModelForQuestionAnswering for one of spans.
        data: folder or Hub id in the layout of nyu-mll/glue.
        output: the directory to make: model, tokenizer, record.json.
        pooling: what a new head reads: the `first` token or the `mean` of the tokens. By default what the encoder was trained with.
        head_learning_rate: peak of a new head. By default 1e-3 for data of one's own and for heads on a mean, else the encoder's.
        keep_zeros: whether the weights of a pruned encoder that are zero stay so (Compressing BERT, section 3).
        no_answer_threshold: of a task of spans whose questions may have no answer, by how much its logit may exceed the best span's where that
            is given. By default what suits the validation rows best.
    """
    check_threshold(no_answer_threshold, task)
    config = load_config(model, option="--model")
    is_new = not gives_labels(config)
    of_head = head_rate(
        task,
        chosen=head_learning_rate,
        learning_rate=settings.learning_rate,
        is_new=is_new,
        pooling=new_classifiers_pooling(model, config, pooling=pooling),
    )

    def work(directory: Path) -> dict[str, Any]:
        set_seed(settings.seed)
        classifier = open_for_task(model, task=task, pooling=pooling, option="--model")
        check_trainable(model, classifier.config, option="--model")
        weights = matrices(classifier)
        is_pruned = keep_zeros and Zeros.of(weights).is_sparse
        seen = inspected(data, task, tokenizer=load_tokenizer(model, classifier.config), max_length=settings.max_length)
        result = fit(
            classifier,
            model,
            data=data,
            task=task,
            directory=directory,
            settings=settings,
            description=f"fine-tune {task.name}",
            callbacks=[KeepsZeros(weights)] if is_pruned else [],
            checkpoint_seconds=checkpoint_seconds,
            head_learning_rate=of_head,
            no_answer_threshold=no_answer_threshold,
        )
        parameters = classifier.num_parameters()
        kept = Zeros.of(weights).describe(parameters=parameters) if is_pruned else {}
        read = {"pooling": classifier.config.pooling} if hasattr(classifier.config, "pooling") else {}
        return {**result.describe(), "parameters": parameters, **kept, **read, **seen}

    chosen = {
        "pooling": pooling,
        "head_learning_rate": of_head,
        "keep_zeros": None if keep_zeros else False,
        "no_answer_threshold": no_answer_threshold,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    return run_stage(
        "finetune",
        output,
        settings={**task.settings, **settings.describe(), **given},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
        resumable=True,
    )
