"""The stage that sets small weights to zero while it fine-tunes (Compressing BERT, section 3)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, set_seed

from ..checkpoints import check_trainable, load_classifier
from ..records.record import Record, parent
from ..records.stage import run_stage
from ..tasks.splits import data_parent
from ..tasks.task import Task
from ..training.finetuning import fit
from ..training.loop import TrainingResult
from .settings import SparsifySettings

# Times that the share of zeros grows on the way.
_GROWTHS = 100


@dataclass(frozen=True)
class SparsityResult:
    """What came out of training with zeros.

    Attributes:
        training: what came out of the training loop.
        parameters: of the classifier.
        matrix_weights: weights that could become zero.
        zeros: weights that did.
    """

    training: TrainingResult
    parameters: int
    matrix_weights: int
    zeros: int

    def describe(self) -> dict[str, Any]:
        """The facts as a record has them."""
        return {
            **self.training.describe(),
            "parameters": self.parameters,
            "zeros_of_matrices": round(self.zeros / self.matrix_weights, 4),
            "zeros_of_parameters": round(self.zeros / self.parameters, 4),
        }


def matrices(model: Any) -> dict[str, torch.Tensor]:
    """The weights that can be zero: those of embeddings and products of the encoder, without biases, norms and heads."""
    return {
        name: module.weight
        for name, module in model.base_model.named_modules()
        if isinstance(module, nn.Linear | nn.Embedding)
    }


def cubic(progress: float, *, sparsity: float) -> float:
    """s·(1 − (1 − t)³) (To Prune, or Not to Prune, eq. 1, from no zeros): fast while many weights are small, slower towards the end.

    Args:
        progress: t, from 0 to 1; beyond, all of them.
    """
    return sparsity * (1 - (1 - min(1.0, progress)) ** 3)


def mask_of(weight: torch.Tensor, *, sparsity: float) -> torch.Tensor:
    """True for what stays: all but the smallest ⌊sparsity·n⌋ weights of this matrix, the first of equal ones first."""
    count = int(sparsity * weight.numel())
    mask = torch.ones(weight.numel(), dtype=torch.bool, device=weight.device)
    mask[weight.detach().abs().flatten().argsort(stable=True)[:count]] = False
    return mask.view_as(weight)


class StaysSparse(TrainerCallback):
    """Keeps weights at zero after every step, and makes more of them zero by the schedule.

    A zero stays one, so the weights of a checkpoint say which they are.
    """

    def __init__(self, weights: dict[str, torch.Tensor], *, settings: SparsifySettings):
        self.weights, self.settings = weights, settings
        self.masks: dict[str, torch.Tensor] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.masks = {name: weight != 0 for name, weight in self.weights.items()}
        if self.settings.schedule == "one-shot" and state.global_step == 0:
            self._grow(self.settings.sparsity)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._keep()
        # The step that was just taken is counted after this.
        step, ramp = state.global_step + 1, max(1, round(self.settings.ramp * state.max_steps))
        every = max(1, ramp // _GROWTHS)
        if self.settings.schedule == "cubic" and step <= ramp and (step % every == 0 or step == ramp):
            self._grow(cubic(step / ramp, sparsity=self.settings.sparsity))

    def _grow(self, sparsity: float) -> None:
        # What was zero before the run stays so while the schedule has asked for fewer.
        self.masks = {
            name: mask_of(weight, sparsity=sparsity) & self.masks[name] for name, weight in self.weights.items()
        }
        self._keep()

    @torch.no_grad()
    def _keep(self) -> None:
        for name, weight in self.weights.items():
            weight.mul_(self.masks[name])


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
            matrix_weights=sum(weight.numel() for weight in weights.values()),
            zeros=sum(int((weight == 0).sum()) for weight in weights.values()),
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
