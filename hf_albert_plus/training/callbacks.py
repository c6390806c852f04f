"""What happens around the steps of a training: checkpoints by the clock, epochs told, one line of progress, losses kept."""

import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ..errors import InvalidInput
from ..records import processes
from ..records.files import read_json, sync, write_json
from ..records.outputs import remove
from ..records.progress import bar, say
from ..records.stage import COMPLETE, mark, marked
from .row_order import epoch_of

_KEPT = 2


def step_of(checkpoint: Path) -> int:
    """The step that a checkpoint was written at."""
    return int(checkpoint.name.rpartition("-")[2])


def checkpoints_in(directory: Path) -> list[Path]:
    """All checkpoints of a directory, whole or not, the newest last."""
    named = directory.glob("checkpoint-*")
    return sorted((path for path in named if path.name.removeprefix("checkpoint-").isdecimal()), key=step_of)


def last_complete(checkpoints: Path) -> Path | None:
    """The newest whole checkpoint, None without one. Those that a killed process left half-written are removed, and damaged ones set aside."""
    for path in reversed(checkpoints_in(checkpoints)):
        if not (path / COMPLETE).exists():
            remove(path)
            continue
        try:
            marked(path / COMPLETE)
        except InvalidInput as damage:
            aside = path.with_name(f"damaged-{path.name}")
            remove(aside)
            path.rename(aside)
            say(f"a damaged checkpoint is set aside as {aside}: {damage}")
        else:
            return path
    return None


class Checkpoints(TrainerCallback):
    """Asks for a checkpoint by the clock, marks it once all of its files are on the disk, and keeps the newest two: one may be damaged."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.last = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        due = time.monotonic() - self.last >= self.seconds and state.global_step < state.max_steps
        # Clocks differ: the processes save when the first one says so, and it is asked every tenth step alone.
        if processes.count() > 1:
            due = state.global_step % 10 == 0 and processes.first_alone(lambda: due)
        control.should_save |= due

    def on_save(self, args, state, control, **kwargs):
        processes.wait()
        if processes.is_first():
            self.keep_newest(args, state)
        processes.wait()
        self.last = time.monotonic()

    def keep_newest(self, args, state):
        newest = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        mark(newest / COMPLETE, (path for path in newest.rglob("*") if path.is_file()))
        sync(newest.parent)
        for older in checkpoints_in(newest.parent)[:-_KEPT]:
            (older / COMPLETE).unlink(missing_ok=True)
            remove(older)


class Epochs(TrainerCallback):
    """Tells a collator that draws (see `RowDraws`) which epoch it is in."""

    def __init__(self, collator: Any):
        self.draws = getattr(collator, "draws", None)

    def on_epoch_begin(self, args, state, control, **kwargs):
        if self.draws is not None:
            self.draws.epoch = epoch_of(state)


class Progress(TrainerCallback):
    """Shows one line of progress: steps, time left, loss."""

    def __init__(self, description: str):
        self.description = description
        self.bar: Any = None

    def on_train_begin(self, args, state, control, **kwargs):
        self.bar = bar(total=state.max_steps, description=self.description, initial=state.global_step)

    def on_step_end(self, args, state, control, **kwargs):
        self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self.bar is not None and logs and "loss" in logs:
            self.bar.set_postfix_str(f"loss {float(logs['loss']):.3f}", refresh=False)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


class RunningLosses(TrainerCallback):
    """Keeps with every checkpoint the losses since the last log, so that a resumed run logs what a whole one does.

    They are sums that a trainer and its model add up between two logs, written as hexadecimal text, which is exact and has
    infinities too. Each process has its own: the Trainer joins them when it logs.

    Args:
        trainer: its model may have more sums in `running_terms`, by name.
    """

    def __init__(self, trainer: Any, *, resumed_from: Path | None):
        self.trainer = trainer
        self.resumed_from = resumed_from

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
        """The mean loss of a run that has logged none."""
        return float(self.trainer._tr_loss) / max(steps, 1)


def _file(checkpoint: Path) -> Path:
    return checkpoint / f"running_losses_{processes.rank()}.json"


def _last_logged(state: Any) -> int:
    return max((entry["step"] for entry in state.log_history if "loss" in entry), default=0)
