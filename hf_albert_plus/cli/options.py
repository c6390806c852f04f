"""Options that several verbs share."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ..outputs import check_directory, check_file
from ..processes import MOST_THREADS


def _directory(path: Path | None, option: typer.CallbackParam) -> Path | None:
    if path is not None:
        check_directory(path, option=option.opts[-1])
    return path


def _file(path: Path | None, option: typer.CallbackParam) -> Path | None:
    if path is not None:
        check_file(path, option=option.opts[-1])
    return path


# Checked before any work.
OUTPUT = {"callback": _directory}
FILE = {"callback": _file, "dir_okay": False}

Out = Annotated[Path, typer.Option("--out", help="Directory to make. Run again with the same one to resume.", **OUTPUT)]
Data = Annotated[
    str, typer.Option("--data", help="Folder or Hub id in the layout of nyu-mll/glue, or GLUE's own TSV folders.")
]
TaskName = Annotated[
    str,
    typer.Option(
        "--task", help="GLUE task: cola, sst2, mrpc, qqp, stsb, mnli, qnli, rte, wnli; ax to score one of mnli."
    ),
]
TaskNames = Annotated[list[str], typer.Option("--task", help="GLUE task; repeat for several.")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the data. Default: the task's own.")]
BatchSize = Annotated[int | None, typer.Option(help="Examples a step. Default: the task's own.")]
LearningRate = Annotated[float, typer.Option(help="Peak learning rate of AdamW.")]
MaxLength = Annotated[int, typer.Option(help="Longest input in tokens; the rest is cut.")]
Seed = Annotated[int, typer.Option(help="Seed of weights, order and dropout.")]
Threads = Annotated[int | None, typer.Option(min=1, max=MOST_THREADS, help="Threads. Default: the physical cores.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="key=value of AlbertPlusConfig; repeat for several.")]
MethodSet = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value of the method or of AlbertPlusConfig; repeat for several."),
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Also write every raw number to this file.", **FILE)]
JsonOut = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of text.")]


class PrecisionChoice(str, Enum):
    """What training multiplies in."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"


class InitialiseChoice(str, Enum):
    """Where a student's weights start."""

    auto = "auto"
    average = "average"
    first = "first"
    svd = "svd"
    random = "random"


class CombinationChoice(str, Enum):
    """How the layers that a block stands for become one."""

    average = "average"
    first = "first"
    svd = "svd"


Precision = Annotated[PrecisionChoice, typer.Option(help="auto takes bf16 where the hardware multiplies it.")]
