"""Options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

from ..conversion.settings import Pooling
from ..records.outputs import check_directory, check_file
from ..records.processes import MOST_THREADS
from .json_argument import STANDARD_OUTPUT


def _directory(path: Path | None, option: typer.CallbackParam) -> Path | None:
    if path is not None:
        check_directory(path, option=option.opts[-1])
    return path


def _file(path: Path | None, option: typer.CallbackParam) -> Path | None:
    if path is not None and path != STANDARD_OUTPUT:
        check_file(path, option=option.opts[-1])
    return path


# Checked before any work.
OUTPUT = {"callback": _directory}
FILE = {"callback": _file, "dir_okay": False}

Out = Annotated[Path, typer.Option("--out", help="Directory to make. Run again with the same one to resume.", **OUTPUT)]
RecordOut = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Directory to make, with the document and its record; what is done is not repeated.", **OUTPUT
    ),
]
HeadLearningRate = Annotated[
    float | None,
    typer.Option(
        "--head-learning-rate",
        help="Peak learning rate of a new classifier. Default: 1e-3 for your own data and for what reads a mean, else --learning-rate.",
    ),
]
PoolingChoice = Annotated[
    Pooling | None,
    typer.Option(
        "--pooling",
        help="What a new classifier reads: the first token, or the mean of all. Default: as the encoder was trained.",
    ),
]
Data = Annotated[
    str, typer.Option("--data", help="Folder or Hub id in the layout of nyu-mll/glue, or GLUE's own TSV folders.")
]
Seed = Annotated[int, typer.Option(help="Seed of weights, order and dropout.")]
Threads = Annotated[int | None, typer.Option(min=1, max=MOST_THREADS, help="Threads. Default: the physical cores.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="key=value of AlbertPlusConfig; repeat for several.")]
MethodSet = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value of the method or of AlbertPlusConfig; repeat for several."),
]
Licence = Annotated[
    str | None,
    typer.Option(
        "--license",
        help="Licence of the model by its name on the Hub. Default: the base model's, where its card is here.",
    ),
]
Language = Annotated[
    str | None,
    typer.Option("--language", help="Language of the texts, a code of ISO 639. Default: as far as it is known."),
]
BaseModel = Annotated[
    str | None,
    typer.Option(
        "--base-model", help="The model on the Hub that it comes from. Default: as the records behind it say."
    ),
]
HubData = Annotated[
    list[str] | None,
    typer.Option(
        "--datasets",
        metavar="OWNER/NAME",
        help="A data set on the Hub that it learned from; repeat for several. Default: as the records behind it say.",
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="[FILE]",
        help="Also write every raw number to this file; without a name print them instead of tables.",
        allow_dash=True,
        **FILE,
    ),
]
JsonOut = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of text.")]
