"""The verb that runs every check and bench of a machine with a GPU."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .console import notes, print_json, print_rows, quiet_transformers


class DeviceChoice(str, Enum):
    """What computes."""

    cuda = "cuda"
    cpu = "cpu"


def gpu(
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="Directory of the documents, a part each. Run again with the same one to go on.", **o.OUTPUT
        ),
    ],
    device: Annotated[
        DeviceChoice, typer.Option(help="What computes; the CPU shows that the chain works.")
    ] = DeviceChoice.cuda,
    small: Annotated[bool, typer.Option("--small", help="Tiny shapes: to see that the chain works.")] = False,
    model: Annotated[
        str | None,
        typer.Option(help="Model directory or variant that answers. Default: BERT-base's shape with random weights."),
    ] = None,
    minutes: Annotated[float, typer.Option(help="No part begins that would probably end later.")] = 10.0,
    plan: Annotated[bool, typer.Option("--plan", help="Say what is done and what it needs, and stop.")] = False,
    as_json: o.JsonOut = False,
) -> None:
    """Check and time everything on an NVIDIA GPU: attention, answers, exits, pretraining, distillation, graphs and engines.

    Each part is kept as it ends; what the machine lacks is named in its place. It needs torch with CUDA and transformers, and no network.
    """
    from hf_albert_plus.eval.gpu.chain import open_chain, run_chain
    from hf_albert_plus.eval.gpu.gpu_documents import table_of

    from ..machine import use_threads

    quiet_transformers()
    use_threads()
    chain = open_chain(device.value, small=small, model=model, minutes=minutes)
    for line in chain.described(out):
        notes.print(line, markup=False)
    if plan:
        return
    content = run_chain(chain, out)
    if as_json:
        print_json(content)
        return
    print_rows(*table_of(content["rows"]))
    typer.echo(str(out))
