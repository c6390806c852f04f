"""Losses of the steps since the last log. A checkpoint keeps them, so that a resumed run logs what a whole one does."""

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from . import processes
from .files import read_json, write_json


class RunningLosses(TrainerCallback):
    """Sums that a trainer and its model add up between two logs, kept as hexadecimal text, which is exact and has infinities too.

    Each process has its own: the Trainer joins them when it logs.

    Attributes:
        trainer: set once there is one. Its model may have more sums in `running_terms`, by name.
    """

    def __init__(self, resumed_from: Path | None):
        self.resumed_from = resumed_from
        self.trainer: Any = None

    def on_train_begin(self, args, state, control, **kwargs):
        if self.resumed_from is None or not _file(self.resumed_from).is_file():
            return  # a run that goes on with more processes has none for the new ones
        kept = read_json(_file(self.resumed_from), what="the losses of a checkpoint", shape=dict[str, str])
        sums = {name: float.fromhex(value) for name, value in kept.items()}
        self.trainer._tr_loss += sums.pop("")
        self.trainer._globalstep_last_logged = _last_logged(state)
        if sums:
            self.trainer.model.running_terms.update(sums)

    def on_save(self, args, state, control, **kwargs):
        sums = {"": float(self.trainer._tr_loss), **getattr(self.trainer.model, "running_terms", {})}
        write_json(_file(Path(args.output_dir) / f"checkpoint-{state.global_step}"), {name: value.hex() for name, value in sums.items()})  # fmt: skip

    def mean(self, steps: int) -> float:
        """Mean loss of a run that has logged none."""
        return float(self.trainer._tr_loss) / max(steps, 1)


def _file(checkpoint: Path) -> Path:
    return checkpoint / f"running_losses_{processes.rank()}.json"


def _last_logged(state: Any) -> int:
    return max((entry["step"] for entry in state.log_history if "loss" in entry), default=0)


__all__ = ["RunningLosses"]
