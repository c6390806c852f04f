"""What watches a training from outside, TensorBoard, Weights & Biases or MLflow: one run of it from the training's first step to its last.

A training that was killed goes on in the run that it began. TensorBoard's files stay in one folder, where what was drawn of steps that are
taken again is purged; the others' runs have ids, which are kept beside the checkpoints.
"""

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ..errors import InvalidInput, first_line
from ..records import processes
from ..records.files import read_json, write_json
from ..records.record import CHECKPOINTS, RUNS

_IDS = "trackers.json"


@contextmanager
def tracked(trainer: Any, report_to: Sequence[str], *, description: str, resumed_at: int) -> Iterator[None]:
    """Reports all that a trainer logs to the named trackers, whose runs end with it.

    Args:
        trainer: its arguments' `output_dir` is the directory of its checkpoints.
        description: the name of a new run.
        resumed_at: the step that the training goes on from, 0 for a fresh one.

    Raises:
        InvalidInput: a tracker that does not let a run begin.
    """
    checkpoints = Path(trainer.args.output_dir)
    with ExitStack() as runs:
        for name in dict.fromkeys(report_to):
            if name == "tensorboard":
                trainer.add_callback(_begin_tensorboard(runs, runs_of(checkpoints), resumed_at=resumed_at))
            elif processes.is_first():
                begin = {"wandb": _begin_wandb, "mlflow": _begin_mlflow}[name]
                trainer.add_callback(begin(runs, checkpoints / _IDS, description=description))
        yield


def runs_of(checkpoints: Path) -> Path:
    """The folder of TensorBoard's files while a training runs: beside the checkpoints of its stage, whose phases remove their own."""
    of_stage = next((path for path in (checkpoints, *checkpoints.parents) if path.name == CHECKPOINTS), checkpoints)
    return of_stage / RUNS / checkpoints.relative_to(of_stage)


def _begin_tensorboard(runs: ExitStack, folder: Path, *, resumed_at: int) -> Any:
    from transformers.integrations import TensorBoardCallback

    if not processes.is_first():
        return TensorBoardCallback()
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # it needs the package tensorboard, where the other one will do
        from tensorboardX import SummaryWriter  # type: ignore[no-redef]
    # A checkpoint's own step was logged before it; a training that begins again draws everything anew.
    # Files are named by the second: one that begins in the second of another would be written over it.
    moment = f".{time.time_ns()}"
    purged_from = resumed_at + 1 if resumed_at else 0
    writer = SummaryWriter(str(folder), purge_step=purged_from, flush_secs=1, filename_suffix=moment)
    runs.callback(writer.close)
    return TensorBoardCallback(writer)


def _begin_wandb(runs: ExitStack, ids: Path, *, description: str) -> Any:
    import wandb
    from transformers.integrations import WandbCallback

    chosen = os.environ.get("WANDB_RUN_ID") or _kept(ids).get("wandb") or secrets.token_hex(4)
    try:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "huggingface"), name=description, id=chosen, resume="allow"
        )
    except wandb.Error as error:
        raise _refused("wandb", error, repair="log in with wandb login, or set WANDB_MODE=offline") from error
    _keep(ids, "wandb", chosen)
    runs.push(lambda kind, *_: run.finish(exit_code=int(kind is not None)))
    return WandbCallback()


def _begin_mlflow(runs: ExitStack, ids: Path, *, description: str) -> Any:
    import mlflow
    from transformers.integrations import MLflowCallback

    chosen = os.environ.get("MLFLOW_RUN_ID") or _kept(ids).get("mlflow")
    try:
        run = mlflow.start_run(run_id=chosen, run_name=description)
    except mlflow.MlflowException as error:
        raise _refused("mlflow", error, repair=f"set MLFLOW_TRACKING_URI, or remove {ids}") from error
    _keep(ids, "mlflow", run.info.run_id)
    runs.push(lambda kind, *_: mlflow.end_run("FINISHED" if kind is None else "FAILED"))
    return MLflowCallback()


def _refused(name: str, error: Exception, *, repair: str) -> InvalidInput:
    return InvalidInput(f"--report-to {name} must be able to begin a run", got=first_line(error), repair=repair)


def _kept(ids: Path) -> dict[str, str]:
    """The ids of the runs that a killed training began, by tracker; none where there was none."""
    if not ids.is_file():
        return {}
    kept: dict[str, str] = read_json(
        ids, what="the ids of a training's runs", shape=dict[str, str], repair=f"remove {ids}: new runs begin then"
    )
    return kept


def _keep(ids: Path, name: str, chosen: str) -> None:
    write_json(ids, {**_kept(ids), name: chosen})
