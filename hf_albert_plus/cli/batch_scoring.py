"""The verb that scores files, however many and however large."""

from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .console import notes, quiet_libraries
from .stages import done


def score(
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input",
            help="File, or a quoted pattern: .parquet, .jsonl (an object a line), .txt (a text a line). Repeat for several.",
        ),
    ],
    engine: Annotated[
        str,
        typer.Option(metavar="DIR[:ENGINE]", help="A classifier. ENGINE by default onnx-int8, else onnx, else torch."),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "--out", help="Directory to make. Run again with the same one to go on.", **o.OUTPUT),
    ],
    text_column: Annotated[str, typer.Option(help="Column of the text; what lines of plain text are called.")] = "text",
    pair_column: Annotated[str | None, typer.Option(help="Column of the text that is read with it.")] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN[=NAME]", help="Column to copy into the output, as NAME. Repeat for several."),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Tokens of a text; the rest is cut. Default: the model's positions.")
    ] = None,
    token_budget: Annotated[int, typer.Option(help="Tokens a batch, padding included.")] = 512,
    part_rows: Annotated[
        int, typer.Option(help="Rows that are written together, and begun again if a worker dies.")
    ] = 8192,
    cores: Annotated[
        int | None,
        typer.Option(
            min=1, max=4096, help="Of a worker. Default: this machine's; on a cluster, those of the smallest node."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Processes. Default: 1; on a cluster, as many as fit.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Ray cluster to join, as auto. Its nodes share the files under the same paths. Default: this machine."
        ),
    ] = None,
    as_json: o.JsonOut = False,
) -> None:
    """Score every row of files with a classifier, into Parquet: label, score, all scores, tokens, and whether it was cut.

    OUTPUT/scores has a row for each row of the inputs, in their order, with its file and its number there, from 0.

    A killed run goes on when it is run again, with what is missing and with files that have changed.
    """
    from hf_albert_plus.eval.targets import directory_and_runtime

    from ..scoring import Place, ScoreSettings
    from ..scoring import score as stage

    quiet_libraries()
    directory, runtime = directory_and_runtime(engine)
    settings = ScoreSettings(
        text_column=text_column, pair_column=pair_column, keep=tuple(keep or ()), max_length=max_length, token_budget=token_budget,
        part_rows=part_rows,
    )  # fmt: skip
    record = stage(
        inputs, engine=Path(directory), runtime=runtime, output=output, settings=settings,
        place=Place(address=address, workers=workers, cores=cores), tell=lambda text: notes.print(text, markup=False),
    )  # fmt: skip
    done(record, output, as_json=as_json)


__all__ = ["score"]
