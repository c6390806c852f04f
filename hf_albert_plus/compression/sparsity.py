"""The stage that sets small weights to zero while it fine-tunes (Compressing BERT, section 3)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import set_seed

from ..checkpoints import check_trainable, load_classifier
from ..records.record import Record, parent
from ..records.stage import run_stage
from ..tasks.splits import data_parent
from ..tasks.task import Task
from ..training.finetuning import fit
from ..training.loop import TrainingResult
from ..training.zeros import StaysSparse, Zeros, matrices
from .settings import SparsifySettings


@dataclass(frozen=True)
class SparsityResult:
    """What came out of training with zeros.

    Attributes:
        training: what came out of the training loop.
        parameters: of the classifier.
        zeros: of its matrices.
    """

    training: TrainingResult
    parameters: int
    zeros: Zeros

    def describe(self) -> dict[str, Any]:
        """The facts as a record has them."""
        return {
            **self.training.describe(),
            "parameters": self.parameters,
            **self.zeros.describe(parameters=self.parameters),
        }


def sparsify(
    model: str,
    *,
    data: str,
    task: Task,
    output: Path,
    settings: SparsifySettings,
    checkpoint_seconds: float = 60,
) -> Record:
    """Fine-tunes with the smallest weights of every matrix at zero. The file and the run stay as they are: products here multiply by
    zeros too. It tells how much of a model is needed.

    Of a shared block each zero is one in all of its layers.

    Args:
        model: directory or Hub id of an encoder or classifier.
        data: folder or Hub id in the layout of nyu-mll/glue.
    """

    def work(directory: Path) -> dict[str, Any]:
        set_seed(settings.seed)
        classifier: Any = load_classifier(model, option="--model", task=task)
        check_trainable(model, classifier.config, option="--model")
        weights = matrices(classifier)
        training = fit(
            classifier,
            model,
            data=data,
            task=task,
            directory=directory,
            settings=settings,
            description=f"sparsify {task.name}",
            callbacks=[StaysSparse(weights, settings=settings)],
            checkpoint_seconds=checkpoint_seconds,
        )
        result = SparsityResult(
            training=training,
            parameters=classifier.num_parameters(),
            zeros=Zeros.of(weights),
        )
        return result.describe()

    return run_stage(
        "sparsify",
        output,
        settings={**task.settings, **settings.describe()},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
        resumable=True,
    )
