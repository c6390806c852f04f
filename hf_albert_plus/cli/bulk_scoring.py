"""The verbs that read files of texts: one scores them, one writes their vectors."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..batch_scoring.settings import ScoreSettings
from . import options as o
from .console import done, notes, quiet_libraries
from .settings_options import Fields, with_settings

if TYPE_CHECKING:
    from ..records.record import Record

Inputs = Annotated[
    list[str],
    typer.Option(
        "--input",
        help="File, or a quoted pattern: .parquet, .jsonl (an object a line), .txt (a text a line). Repeat for several.",
    ),
]
Cores = Annotated[
    int | None,
    typer.Option(
        min=1, max=4096, help="Cores of a worker. Default: this machine's; on a cluster, those of the smallest node."
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=100_000, help="Worker processes. Default: 1; on a cluster, as many as fit.")
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Ray cluster to join, as auto. Its nodes share the files under the same paths. Default: this machine."
    ),
]
Output = Annotated[
    Path,
    typer.Option("--output", "--out", help="Directory to make. Run again with the same one to go on.", **o.OUTPUT),
]


@with_settings
def score(
    inputs: Inputs,
    engine: Annotated[
        str,
        typer.Option(
            metavar="DIR[:ENGINE]",
            help="A classifier. The default of ENGINE is onnx-int8, else onnx-int8-exits, onnx, torch.",
        ),
    ],
    output: Output,
    settings: ScoreSettings,
    cores: Cores = None,
    workers: Workers = None,
    address: Address = None,
    as_json: o.JsonOut = False,
) -> None:
    """Score every row of files with a classifier, into Parquet: label, score, all scores, tokens, and whether it was cut.

    OUTPUT/scores has a row for each row of the inputs, in their order, with its file and its number there, from 0.

    A killed run goes on when it is run again, with what is missing and with files that have changed.
    """
    from ..batch_scoring.stage import score as stage

    _run(stage, inputs, engine, output, settings, as_json=as_json, cores=cores, workers=workers, address=address)


@with_settings
def embed(
    inputs: Inputs,
    engine: Annotated[
        str,
        typer.Option(
            metavar="DIR[:ENGINE]",
            help="An export with --pooling. The default of ENGINE is onnx-int8, else onnx, else torch.",
        ),
    ],
    output: Output,
    settings: Annotated[ScoreSettings, Fields(without=("pair_column", "logits"))],
    cores: Cores = None,
    workers: Workers = None,
    address: Address = None,
    as_json: o.JsonOut = False,
) -> None:
    """Write the vector of every row of files, into Parquet: vector, tokens, and whether it was cut.

    OUTPUT/vectors has a row for each row of the inputs, in their order, with its file and its number there, from 0.

    A killed run goes on when it is run again, with what is missing and with files that have changed.
    """
    from ..batch_scoring.embedding import embed as stage

    _run(stage, inputs, engine, output, settings, as_json=as_json, cores=cores, workers=workers, address=address)


def _run(
    stage: "Callable[..., Record]",
    inputs: list[str],
    engine: str,
    output: Path,
    settings: ScoreSettings,
    *,
    as_json: bool,
    **pool: Any,
) -> None:
    """Has a stage read files, and prints its record.

    Args:
        pool: the fields of a `WorkerPool`.
    """
    from ..batch_scoring.distribution import WorkerPool
    from ..engines.artefacts import directory_and_runtime

    quiet_libraries()
    directory, runtime = directory_and_runtime(engine)
    record = stage(
        inputs, engine=Path(directory), runtime=runtime, output=output, settings=settings,
        pool=WorkerPool(**pool), tell=lambda text: notes.print(text, markup=False),
    )  # fmt: skip
    done(record, output, as_json=as_json)
