"""The verb that makes probabilities worth more."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..calibration.settings import CalibrateScoresSettings
from . import options as o
from .console import done, notes, print_rows, start
from .settings_options import with_settings
from .task_options import Scored


@with_settings
def calibrate_scores(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a classifier.")],
    on: Scored,
    out: o.Out,
    settings: CalibrateScoresSettings,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Divide a classifier's logits by one temperature, so that it is as often right as it says. What it predicts stays."""
    from ..calibration.stage import calibrate_scores as stage

    start(threads)
    record = stage(directory, data=on.data, task=on.task, output=out, settings=settings)
    if not as_json:
        _print(record.result, folds=settings.folds)
    done(record, out, as_json=as_json)


def _print(result: dict[str, Any], *, folds: int) -> None:
    rows = []
    for layer, found in result["temperatures"].items():
        before, after = found["before"], found["after"]
        errors = [f"{100 * trust['ece']:.1f} %" for trust in (before, after)]
        rows.append([layer, f"{found['temperature']:.3f}", *errors, f"{before['nll']:.4f}", f"{after['nll']:.4f}"])
    title = f"{result['rows']} rows; after: cross-fitted in {folds} folds"
    print_rows(["after layer", "temperature", "ECE before", "after", "NLL before", "after"], rows, title=title)
    if result["lost_exit_threshold"]:
        notes.print("[yellow]the threshold of the exits was one of other probabilities: albert-plus calibrate finds one again[/yellow]")  # fmt: skip
