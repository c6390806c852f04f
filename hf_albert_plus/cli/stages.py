"""What every verb that computes does first and last."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from .. import processes
from .console import notes, print_json, printable, quiet_libraries

if TYPE_CHECKING:
    from ..training import TrainSettings


Settings = TypeVar("Settings", bound="TrainSettings")


def start(threads: int | None) -> None:
    """Quietens the libraries and sets the number of threads."""
    import torch

    from hf_albert_plus.export.engines import physical_cores

    quiet_libraries()
    torch.set_num_threads(threads or max(1, physical_cores() // processes.count_here()))


def settings_of_task(kind: type[Settings], task: Any, **given: Any) -> Settings:
    """Settings with the task's own epochs and batch size where none are given."""
    own = {name: getattr(task, name) for name in ("epochs", "batch_size") if given[name] is None}
    return kind(**{**given, **own})


def done(record: Any, output: Path, *, as_json: bool) -> None:
    """Prints what a stage did, and its directory."""
    if not processes.is_first():
        return
    if as_json:
        print_json({"out": str(output), "reused": record.reused, "result": record.result})
        return
    facts = ", ".join(
        f"{key.replace('_', ' ')} {value}"
        for key, value in record.result.items()
        if value is not None and not isinstance(value, dict | list)
    )
    state = "was done before" if record.reused else f"done in {record.seconds:.0f} s"
    notes.print(f"{record.stage} {state}: {printable(facts)}")
    typer.echo(str(output))


__all__ = ["done", "settings_of_task", "start"]
