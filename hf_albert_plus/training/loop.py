"""The training loop that pretraining, fine-tuning and distillation share: transformers' Trainer, its arguments and resumable runs."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from ..errors import InvalidInput
from ..records import processes
from ..records.stage import discard
from .callbacks import Checkpoints, Epochs, Progress, RunningLosses, last_complete, step_of
from .new_heads import give_head_its_rate
from .onednn import faster_products
from .row_order import by_length
from .settings import TrainSettings, trains_in_bf16
from .trackers import tracked


@dataclass(frozen=True)
class TrainingResult:
    """What came out of a training.

    Attributes:
        steps: optimizer steps of the whole run.
        examples: rows of one epoch.
        train_loss: mean of the logged losses.
        train_seconds: seconds of this process's share; None for a run that was resumed, of which a part was not measured.
        precision: what the run multiplied in.
        processes: how many trained together.
        resumed_at_step: the step that the run went on from, 0 for a fresh one.
        losses: every term of a composed loss by its name, its mean over the last tenth of the logged steps.
    """

    steps: int
    examples: int
    train_loss: float
    train_seconds: float | None
    precision: str
    processes: int
    resumed_at_step: int
    losses: dict[str, float] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """The facts as a record has them."""
        return {
            **({"losses": self.losses} if self.losses else {}),
            "steps": self.steps,
            "examples": self.examples,
            "train_loss": round(self.train_loss, 5),
            "train_seconds": "not measured" if self.train_seconds is None else round(self.train_seconds, 1),
            "precision": self.precision,
            "processes": self.processes,
            "resumed_at_step": self.resumed_at_step,
        }


class AccumulatingTrainer(Trainer):
    """A Trainer whose accumulated gradients are those of one big batch, for heads whose labels transformers does not count.

    transformers' Trainer counts `labels` over the batches of a step. Two heads have other labels: this one counts sentence
    orders for pretraining and answers for question answering too. A model of another family trains as with the Trainer.

    Attributes:
        head_learning_rate: of what is above the encoder, where it differs.
    """

    head_learning_rate: float | None = None

    def create_optimizer(self, *args: Any, **options: Any) -> torch.optim.Optimizer:
        is_new = self.optimizer is None
        optimizer: torch.optim.Optimizer = super().create_optimizer(*args, **options)
        if is_new and self.head_learning_rate is not None:
            give_head_its_rate(optimizer, self.model, self.head_learning_rate)
        return optimizer

    def get_batch_samples(self, *args: Any, **options: Any) -> tuple[list[dict[str, Any]], Any]:
        batches, num_items = super().get_batch_samples(*args, **options)
        counts = getattr(self.model, "counts_every_label", False)
        self.num_sentences: Any = None
        if counts and batches and "sentence_order_label" in batches[0]:
            told = sum(int((batch["sentence_order_label"] != -100).sum()) for batch in batches)
            self.num_sentences = self._over_devices(told).clamp(min=1)  # never none to divide by
        if counts and batches and num_items is None and "start_positions" in batches[0]:
            inside = sum((batch["start_positions"] < batch["input_ids"].shape[1]).sum() for batch in batches)
            num_items = self._over_devices(int(inside))
        return batches, num_items

    def _over_devices(self, count: int) -> Any:
        total = torch.tensor(count, device=self.args.device)
        if self.args.average_tokens_across_devices and self.args.world_size > 1:
            total = self.accelerator.gather(total).sum()
        return total

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        if getattr(self, "num_sentences", None) is not None and model.training:
            inputs = {**inputs, "num_sentences_in_batch": self.num_sentences}
        return super().compute_loss(model, inputs, *args, **options)


def train(
    model: torch.nn.Module,
    *,
    rows: Any,
    collator: Any,
    settings: TrainSettings,
    checkpoints: Path,
    description: str,
    trainer_class: type[Trainer] = AccumulatingTrainer,
    checkpoint_seconds: float = 60,
    keep_columns: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    head_learning_rate: float | None = None,
) -> TrainingResult:
    """Trains `model` in place and goes on at the last complete one of its checkpoints.

    Under `accelerate launch` every process gets its part of each batch, so that a run has the gradients of one process; but
    for the last batch of an epoch, which is filled up from its first rows where it does not divide.

    Args:
        rows: encoded examples with a `length` column, batched by length.
        checkpoints: directory that they are kept in.
        callbacks: besides those for checkpoints and progress.
        keep_columns: hand the collator all columns, not only those that the model's forward names.
        checkpoint_seconds: a checkpoint is written this often, so short runs write none.
        head_learning_rate: peak of what is above the encoder, that of the settings where left out.
    """
    arguments = training_arguments(
        settings,
        output=checkpoints,
        num_train_epochs=settings.epochs,
        remove_unused_columns=not keep_columns,
        logging_steps=10 if len(rows) * settings.epochs >= 10 * settings.batch_size else 1,
    )
    trainer: Any = by_length(trainer_class, rows["length"][:], settings.seed)(
        model=model, args=arguments, train_dataset=rows, data_collator=collator, callbacks=list(callbacks)
    )
    if head_learning_rate is not None:
        trainer.head_learning_rate = head_learning_rate
    if type(model).__name__.endswith(("ForSequenceClassification", "ForTokenClassification")) and not getattr(
        model, "counts_every_label", False
    ):
        # Their loss is a mean that ignores the count of labels handed to it (transformers#47688).
        trainer.model_accepts_loss_kwargs = False
    return run_trainer(
        trainer, description=description, checkpoint_seconds=checkpoint_seconds, report_to=settings.report_to
    )


def training_arguments(settings: TrainSettings, *, output: Path, **more: Any) -> TrainingArguments:
    """What every training here asks of the Trainer: its own checkpoints and progress, gloo where there is no accelerator.

    Raises:
        InvalidInput: a batch that the processes cannot share.
    """
    if settings.batch_size % processes.count():
        raise InvalidInput(
            f"--batch-size must be a multiple of the {processes.count()} processes",
            got=settings.batch_size,
            repair=f"use --batch-size {-(-settings.batch_size // processes.count()) * processes.count()}",
        )
    has_accelerator = torch.accelerator.is_available()
    given = {
        "output_dir": str(output),
        "per_device_train_batch_size": settings.batch_size // processes.count(),
        "learning_rate": settings.learning_rate,
        "warmup_steps": settings.warmup,
        "weight_decay": settings.weight_decay,
        "lr_scheduler_type": "linear",
        "seed": settings.seed,
        "use_cpu": not has_accelerator,
        "ddp_backend": None if has_accelerator or processes.count() == 1 else "gloo",
        "bf16": trains_in_bf16(settings.precision),
        "dataloader_pin_memory": torch.cuda.is_available(),
        "save_strategy": "no",
        "logging_nan_inf_filter": False,
        "report_to": [],
        "disable_tqdm": True,
    }
    arguments = TrainingArguments(**{**given, **more})
    if arguments.n_gpu > 1:
        # One process trains on one device; several devices are `accelerate launch`'s business.
        arguments._n_gpu = 1
    return arguments


def run_trainer(
    trainer: Any, *, description: str, checkpoint_seconds: float, report_to: Sequence[str] = ()
) -> TrainingResult:
    """Gives a trainer the callbacks that every training has, and trains from the last complete checkpoint on.

    Args:
        trainer: with arguments of `training_arguments`, whose output is the directory of checkpoints.
        report_to: names of `TRACKERS`.

    Raises:
        InvalidInput: a loss or a weight that is not finite.
    """
    checkpoints = Path(trainer.args.output_dir)
    resumed_from = processes.first_alone(partial(last_complete, checkpoints))
    resumed_at = 0 if resumed_from is None else step_of(resumed_from)
    progress, running = Progress(description), RunningLosses(trainer, resumed_from=resumed_from)
    # A checkpoint is marked complete after all that is kept in it.
    for callback in (progress, running, Checkpoints(checkpoint_seconds), Epochs(trainer.data_collator)):
        trainer.add_callback(callback)
    trainer.remove_callback(PrinterCallback)
    start = time.perf_counter()
    try:
        with faster_products(), tracked(trainer, report_to, description=description, resumed_at=resumed_at):
            outcome = trainer.train(resume_from_checkpoint=None if resumed_from is None else str(resumed_from))
    finally:
        progress.close()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry] or [
        running.mean(outcome.global_step)
    ]
    weights_are_finite = all(weight.isfinite().all() for weight in trainer.model.parameters())
    if not weights_are_finite or not all(math.isfinite(loss) for loss in losses):
        if processes.is_first():
            discard(checkpoints)
        raise InvalidInput(
            "training must keep losses and weights finite",
            got="NaN or infinity",
            repair="lower --learning-rate, or train with --precision fp32",
        )
    return TrainingResult(
        steps=outcome.global_step,
        examples=len(trainer.train_dataset),
        train_loss=sum(losses) / len(losses),
        train_seconds=time.perf_counter() - start if resumed_from is None else None,
        precision="bf16 autocast" if trainer.args.bf16 else "fp32",
        processes=processes.count(),
        resumed_at_step=resumed_at,
        losses=_last_terms(trainer.state.log_history),
    )


def _last_terms(logs: list[dict[str, Any]]) -> dict[str, float]:
    """The mean of every term of a composed loss over the last tenth of the logged steps, by its name."""
    entries = [entry for entry in logs if any(key.startswith("loss_") for key in entry)]
    last = entries[-max(1, len(entries) // 10) :]
    names = [key for key in (last[0] if last else {}) if key.startswith("loss_")]
    return {name.removeprefix("loss_"): round(sum(entry[name] for entry in last) / len(last), 6) for name in names}
