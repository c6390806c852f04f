"""What pretraining, fine-tuning and distillation share: settings, precision, progress and resumable runs of the Trainer."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from . import processes
from .accumulation import AccumulatingTrainer
from .callbacks import Checkpoints, Epochs, Progress, last_complete, step_of
from .errors import InvalidInput, check_values
from .onednn import faster_products
from .records import discard
from .row_order import by_length
from .running_losses import RunningLosses

Precision = Literal["auto", "fp32", "bf16"]

# Far above what anybody trains: beyond them a number is a slip, and computing with it fails later.
_MOST_EPOCHS, _LARGEST_BATCH, _LONGEST = 1_000_000, 1 << 24, 1 << 20


@dataclass(frozen=True)
class TrainSettings:
    """How a model is trained. AdamW, linear warm-up and decay.

    Attributes:
        epochs: passes over the data; fractions are fine.
        batch_size: examples a step, over all processes.
        warmup: share of the steps with a rising learning rate.
        precision: `"bf16"` autocasts; `"auto"` does so where the hardware multiplies bf16 natively.
    """

    epochs: float
    batch_size: int
    learning_rate: float = 5e-5
    warmup: float = 0.06
    weight_decay: float = 0.01
    max_length: int = 128
    seed: int = 42
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        check_values(
            self,
            ("epochs", 0 < self.epochs <= _MOST_EPOCHS, f"above 0 and at most {_MOST_EPOCHS:,}", "1"),
            ("batch_size", 1 <= self.batch_size <= _LARGEST_BATCH, f"at least 1 and at most {_LARGEST_BATCH:,}", "32"),
            ("learning_rate", 0 < self.learning_rate < 1, "between 0 and 1", "5e-5"),
            ("warmup", 0 <= self.warmup < 1, "a share from 0 up to, not including, 1", "0.06"),
            ("weight_decay", 0 <= self.weight_decay < 1, "from 0 up to, not including, 1", "0.01"),
            ("max_length", 4 <= self.max_length <= _LONGEST, f"at least 4 and at most {_LONGEST:,}", "128"),
            ("seed", 0 <= self.seed < 2**32, "from 0 up to 2^32 - 1", "42"),
            ("precision", self.precision in ("auto", "fp32", "bf16"), "auto, fp32 or bf16", "auto"),
        )

    def describe(self) -> dict[str, Any]:
        return asdict(self)


def multiplies_bf16() -> bool:
    """Whether this machine has bf16 matrix instructions: a GPU that does, or a CPU with AVX512-BF16 or AMX."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if not hasattr(torch.cpu, "get_capabilities"):
        return False
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def trains_in_bf16(precision: Precision) -> bool:
    """Whether training autocasts to bf16 here."""
    return precision == "bf16" or (precision == "auto" and multiplies_bf16())


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
) -> dict[str, Any]:
    """Trains `model` in place and goes on at the last complete one of its checkpoints.

    Under `accelerate launch` every process gets its part of each batch, so that a run has the gradients of one process; but
    for the last batch of an epoch, which is filled up from its first rows where it does not divide.

    Args:
        rows: encoded examples with a `length` column, batched by length.
        checkpoints: directory that they are kept in.
        callbacks: besides those for checkpoints and progress.
        keep_columns: hand the collator all columns, not only those that the model's forward names.
        checkpoint_seconds: a checkpoint is written this often, so short runs write none.

    Returns:
        steps, examples, mean training loss, seconds of this process's share, the precision used, and the step it
        resumed at (0 for a fresh run).
    """

    def build(ours: list[TrainerCallback]) -> Trainer:
        arguments = training_arguments(
            settings,
            output=checkpoints,
            num_train_epochs=settings.epochs,
            remove_unused_columns=not keep_columns,
            logging_steps=10 if len(rows) * settings.epochs >= 10 * settings.batch_size else 1,
        )
        trainer = by_length(trainer_class, rows["length"][:], settings.seed)(
            model=model, args=arguments, train_dataset=rows, data_collator=collator, callbacks=[*ours, *callbacks]
        )
        if type(model).__name__.endswith("ForSequenceClassification") and not getattr(
            model, "counts_every_label", False
        ):
            # Their loss is a mean that ignores the count of labels handed to it (transformers#47688).
            trainer.model_accepts_loss_kwargs = False
        return trainer

    return run_trainer(
        build,
        collator=collator,
        checkpoints=checkpoints,
        description=description,
        checkpoint_seconds=checkpoint_seconds,
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
    build: Callable[[list[TrainerCallback]], Trainer],
    *,
    collator: Any,
    checkpoints: Path,
    description: str,
    checkpoint_seconds: float,
) -> dict[str, Any]:
    """Builds a trainer with our callbacks and trains, from the last complete checkpoint on; what came out, as `train` says.

    Raises:
        InvalidInput: a loss or a weight that is not finite.
    """
    from transformers.trainer_callback import PrinterCallback

    resumed_from = processes.first_alone(partial(last_complete, checkpoints))
    progress = Progress(description)
    running = RunningLosses(resumed_from)
    # A checkpoint is marked complete after all that is kept in it.
    trainer: Any = build([progress, running, Checkpoints(checkpoint_seconds), Epochs(collator)])
    running.trainer = trainer
    trainer.remove_callback(PrinterCallback)
    start = time.perf_counter()
    try:
        with faster_products():
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
    terms = _last_terms(trainer.state.log_history)
    return {
        **({"losses": terms} if terms else {}),
        "steps": outcome.global_step,
        "examples": len(trainer.train_dataset),
        "train_loss": round(sum(losses) / len(losses), 5),
        "train_seconds": round(time.perf_counter() - start, 1) if resumed_from is None else "not measured",
        "precision": "bf16 autocast" if trainer.args.bf16 else "fp32",
        "processes": processes.count(),
        "resumed_at_step": 0 if resumed_from is None else step_of(resumed_from),
    }


def _last_terms(logs: list[dict[str, Any]]) -> dict[str, float]:
    """Every term of a composed loss by its name: its mean over the last tenth of the logged steps."""
    entries = [entry for entry in logs if any(key.startswith("loss_") for key in entry)]
    last = entries[-max(1, len(entries) // 10) :]
    names = [key for key in (last[0] if last else {}) if key.startswith("loss_")]
    return {name.removeprefix("loss_"): round(sum(entry[name] for entry in last) / len(last), 6) for name in names}


__all__ = [
    "Precision",
    "TrainSettings",
    "multiplies_bf16",
    "run_trainer",
    "train",
    "training_arguments",
    "trains_in_bf16",
]
