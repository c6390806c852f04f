"""The verb that looks into encoders: what each layer does to the tokens of texts."""

from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from hf_albert_plus.eval.settings import InspectSettings

from ..hub_connection import check_model
from . import options as o
from .console import print_json, print_rows, start
from .settings_options import with_settings
from .task_options import MaybeScored

if TYPE_CHECKING:
    from hf_albert_plus.eval.layers.measures import LayerFigures


@with_settings
def inspect(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Directories or Hub ids of encoders.")],
    settings: InspectSettings,
    on: MaybeScored,
    text: Annotated[Path | None, typer.Option(help="File of texts, one a line, in place of --data.")] = None,
    out: o.RecordOut = None,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Measure what each layer of encoders does to texts: how far it moves tokens, what its heads attend to, how alike layers are.

    OUT has the numbers, a plot of all models by layer, and one of how alike the layers of each are.
    """
    for model in models:
        check_model(model, option="MODEL")
    start(threads)
    from hf_albert_plus.eval.layers import stage

    data, task = (None, None) if on is None else (on.data, on.task)
    if out is None:
        columns, _ = stage.texts_of(data, task, text, settings)
        found = stage.layer_figures(models, columns=columns, settings=settings)
    else:
        stage.inspect(models, data=data, task=task, text=text, output=out, settings=settings)
        found = stage.read_figures(out)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    for each in found:
        _print(each)
    if out is not None:
        typer.echo(str(out))


def _print(model: "LayerFigures") -> None:
    rows = []
    for layer, (distance, angle, heads) in enumerate(
        zip(model.distances, model.angles, model.entropies, strict=True), start=1
    ):
        entropy = f"{fmean(heads):.2f} ({min(heads):.2f} to {max(heads):.2f})"
        like = [f"{model.likeness[layer][other]:.3f}" for other in (layer - 1, 0)]
        rows.append([str(layer), f"{distance:.2f}", f"{angle:.1f}", entropy, *like])
    header = ["layer", "L2 distance", "degrees", "entropy of heads, nats", "CKA to its input", "CKA to embeddings"]
    print_rows(header, rows, title=f"{model.name}: {model.texts} texts, {model.tokens} tokens")
