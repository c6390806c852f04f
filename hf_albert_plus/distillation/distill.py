"""The distillation stage: a fine-tuned teacher and data in, a student classifier directory out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checkpoints import check_label_order, load_classifier, load_config
from ..errors import InvalidInput, suggest
from ..finetune import fits_positions
from ..glue import Task, data_parent, encode, load_split, load_tokenizer
from ..initialise import Initialisation
from ..records import Record, parent, run_stage
from ..training import TrainSettings
from ..variants import VARIANTS, student_of, variant_of

HALF = "half"


@dataclass(frozen=True)
class DistilSettings:
    """What the student learns from.

    Attributes:
        student: `"half"` (all-shared, half the teacher's layers, E ≤ 128) or the name of a variant.
        overrides: config fields that replace the student's.
        initialise: where its weights start.
        temperature: of the soft targets.
        soft_weight: share of the soft targets in the prediction loss; labels have the rest.
        hidden_weight: weight of the hidden states' squared error; 0 where widths differ.
    """

    student: str = HALF
    overrides: tuple[tuple[str, Any], ...] = ()
    initialise: Initialisation = "auto"
    temperature: float = 2.0
    soft_weight: float = 0.7
    hidden_weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise InvalidInput(
                "--temperature must be greater than 0", got=self.temperature, repair="use --temperature 2"
            )
        if not 0 <= self.soft_weight <= 1:
            raise InvalidInput(
                "--soft-weight must lie between 0 and 1", got=self.soft_weight, repair="use --soft-weight 0.7"
            )
        if not self.hidden_weight >= 0:
            raise InvalidInput(
                "--hidden-weight must be at least 0", got=self.hidden_weight, repair="use --hidden-weight 1"
            )

    def describe(self) -> dict[str, Any]:
        return {
            "student": self.student,
            "overrides": dict(self.overrides),
            "initialise": self.initialise,
            "temperature": self.temperature,
            "soft_weight": self.soft_weight,
            "hidden_weight": self.hidden_weight,
        }


def distill(
    teacher: str,
    *,
    data: str,
    task: Task,
    output: Path,
    settings: TrainSettings,
    method: DistilSettings,
    checkpoint_seconds: float = 60,
) -> Record:
    """Trains a student on a teacher's predictions, hidden states and the labels.

    Args:
        teacher: directory or Hub id of a classifier fine-tuned on the task.
        output: the directory to make: model, tokenizer, record.json.
    """
    student_config(teacher, task=task, method=method)

    def work(directory: Path) -> dict[str, Any]:
        from transformers import DataCollatorWithPadding, set_seed

        from ..initialise import initialise
        from ..training import train
        from .trainer import DistillationTrainer

        set_seed(settings.seed)
        model = load_classifier(teacher, option="--teacher")
        config = student_config(teacher, task=task, method=method)
        fits_positions(config, settings.max_length)
        student, initialised = initialise(model, config, method=method.initialise)
        tokenizer = load_tokenizer(teacher, model.config)
        rows = encode(load_split(data, task, "train"), task, tokenizer, max_length=settings.max_length)
        same_width = config.hidden_size == model.config.hidden_size
        result = train(
            student,
            rows=rows,
            collator=DataCollatorWithPadding(tokenizer),
            settings=settings,
            directory=directory,
            description=f"distil {task.name}",
            checkpoint_seconds=checkpoint_seconds,
            trainer_class=DistillationTrainer,
            teacher=model,
            temperature=method.temperature,
            soft_weight=method.soft_weight,
            hidden_weight=method.hidden_weight if same_width else 0.0,
        )
        student.save_pretrained(directory)
        load_tokenizer(teacher, config).save_pretrained(directory)
        return {
            **result,
            "parameters": student.num_parameters(),
            "teacher_parameters": model.num_parameters(),
            "initialised": initialised,
            "hidden_states": "matched" if same_width and method.hidden_weight else "not matched",
        }

    return run_stage(
        "distill",
        output,
        settings={"task": task.name, **settings.describe(), **method.describe()},
        parents={"teacher": parent(teacher), "data": data_parent(data, task)},
        work=work,
        resumable=True,
    )


def student_config(teacher: str, *, task: Task, method: DistilSettings) -> Any:
    """The student's config for a task, with the teacher's vocabulary and label names."""
    source = load_config(teacher, option="--teacher")
    if source.num_labels != task.num_labels:
        raise InvalidInput(
            f"--teacher must be a classifier with the {task.num_labels} labels of {task.name}",
            got=f"{teacher} with {source.num_labels} labels",
            repair=f"fine-tune it first: albert-plus finetune --model {teacher} --task {task.name} …",
        )
    check_label_order(source, task, option="--teacher")
    config = student_architecture(source, method)
    config.num_labels = source.num_labels
    config.id2label, config.label2id = source.id2label, source.label2id
    config.problem_type = "regression" if task.is_regression else "single_label_classification"
    return config


def student_architecture(source: Any, method: DistilSettings) -> Any:
    """The config of a student of a teacher with the config `source`, labels aside.

    Raises:
        InvalidInput: no such student, or values that do not fit together.
    """
    if method.student != HALF and method.student not in VARIANTS:
        raise InvalidInput(
            "--student must be a known student",
            got=repr(method.student),
            repair=suggest(method.student, [HALF, *VARIANTS]),
        )
    overrides = dict(method.overrides)
    if method.student == HALF:
        return student_of(source, overrides=overrides)
    return variant_of(source, variant=method.student, overrides=overrides)


__all__ = ["HALF", "DistilSettings", "distill", "student_architecture", "student_config"]
