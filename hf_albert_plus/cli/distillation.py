"""The verb that distils."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InvalidInput, suggest
from . import options as o
from .console import print_json
from .stages import done, start


def print_methods(*, as_json: bool) -> None:
    """The table of methods, with the weights that a student with 3 layers has beside a teacher with 6."""
    from ..distillation.methods import METHODS, Layers

    table: dict[str, dict[str, Any]] = {
        method.name: {
            "title": method.title,
            "source": method.source,
            "phases": {phase.name: phase.formula for phase in method.phases(Layers(student=3, teacher=6))},
            "defaults": method.defaults,
        }
        for method in METHODS.values()
    }
    if as_json:
        print_json(table)
        return
    for name, row in table.items():
        typer.secho(name, bold=True)
        typer.echo(f"  {row['title']}\n  source: {row['source']}")
        for phase, formula in row["phases"].items():
            typer.echo(f"  phase {phase}: {formula}")
        typer.echo("  defaults: " + ", ".join(f"{key}={value}" for key, value in row["defaults"].items()) + "\n")
    typer.echo("Weights of a student with 3 layers and a teacher with 6. Change defaults with --set key=value.")


def distill(
    teacher: Annotated[
        str | None, typer.Option(help="Directory or Hub id of a classifier fine-tuned on the task.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory to make. Run again with the same one to resume.", **o.OUTPUT)
    ] = None,
    method: Annotated[str, typer.Option(help="How: a name of --list-methods.")] = "kd-hidden",
    student: Annotated[
        str, typer.Option(help="half (all-shared, half the teacher's layers), a variant, or a model directory.")
    ] = "half",
    data: Annotated[str | None, typer.Option("--data", help="Folder or Hub id in the layout of nyu-mll/glue.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="GLUE task.")] = None,
    set_: o.MethodSet = None,
    phases: Annotated[
        str | None, typer.Option(help="Run these phases alone: names or patterns with commas, such as general.")
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(help="Text for the phases on text, a paragraph a line. Default: the task's own texts."),
    ] = None,
    general_teacher: Annotated[
        str | None, typer.Option(help="Teacher of the phases on text: a pretrained model. Default: --teacher.")
    ] = None,
    initialise: Annotated[
        o.InitialiseChoice | None,
        typer.Option(
            help="Student's start: of the teacher's layers the average, first or svd; random. Default: the method's."
        ),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Passes of every phase, layer-N together one. Default: the method's.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak of every phase. Default: the method's.")] = None,
    batch_size: o.BatchSize = None,
    max_length: o.MaxLength = 128,
    precision: o.Precision = o.PrecisionChoice.auto,
    seed: o.Seed = 42,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
    list_methods: Annotated[
        bool, typer.Option("--list-methods", help="Print every method's loss terms, defaults and source.")
    ] = False,
) -> None:
    """Distil a teacher into an ALBERT-plus student by a published method."""
    if list_methods:
        print_methods(as_json=as_json)
        return
    if teacher is None or out is None:
        raise typer.BadParameter(f"Missing option '{'--teacher' if teacher is None else '--out'}'.")
    from ..distillation import DistilSettings, StudentSettings
    from ..distillation import distill as stage
    from ..glue import get_task
    from ..training import TrainSettings

    chosen = None if task is None else get_task(task)
    values, overrides = split_settings(set_ or [], method=method)
    settings = TrainSettings(
        epochs=1,
        batch_size=batch_size or (32 if chosen is None else chosen.batch_size),
        max_length=max_length,
        seed=seed,
        precision=precision.value,
    )
    how = DistilSettings(
        method=method,
        student=StudentSettings(student, overrides, None if initialise is None else initialise.value),
        values=values,
        epochs=epochs,
        learning_rate=learning_rate,
        phases=phases,
        text=text,
        general_teacher=general_teacher,
    )
    start(threads)
    done(stage(teacher, data=data, task=chosen, output=out, settings=settings, method=how), out, as_json=as_json)


def split_settings(pairs: list[str], *, method: str) -> tuple[tuple[tuple[str, Any], ...], tuple[tuple[str, Any], ...]]:
    """What `--set` says of the method, and what of the student's config.

    Raises:
        InvalidInput: a name that is neither's.
    """
    from ..distillation import get_method
    from ..variants import FIELDS, parse_settings

    defaults = get_method(method).defaults
    values, overrides = {}, {}
    for name, value in parse_settings(pairs).items():
        if name in defaults:
            values[name] = str(value) if name == "layer_map" else value
        elif name in FIELDS:
            overrides[name] = value
        else:
            raise InvalidInput(
                f"--set must name a setting of {method} or a field of AlbertPlusConfig",
                got=repr(name),
                repair=suggest(name, [*defaults, *FIELDS]),
            )
    return tuple(values.items()), tuple(overrides.items())


__all__ = ["distill", "split_settings"]
