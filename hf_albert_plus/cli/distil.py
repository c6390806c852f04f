"""The verbs of distillation: distil a student, and make more data for it of what there is."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..distillation.settings import AugmentSettings, DistilSettings, PhaseTraining, StudentSettings
from ..errors import InvalidInput, suggest
from ..hub_connection import check_model
from . import options as o
from .console import done, print_json, start
from .settings_options import Fields, with_settings
from .task_options import Learned, MaybeLearned


def print_methods(*, as_json: bool) -> None:
    """The table of methods, with the weights that a student with 3 layers has beside a teacher with 6."""
    from ..distillation.methods import METHODS
    from ..distillation.phases import Layers

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


@with_settings
def distill(
    how: DistilSettings,
    student: StudentSettings,
    settings: Annotated[PhaseTraining, Fields(without=("warmup", "weight_decay"))],
    on: MaybeLearned,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Directory or Hub id of a classifier fine-tuned on the task; of embeddings a sentence encoder.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory to make. Run again with the same one to resume.", **o.OUTPUT)
    ] = None,
    set_: o.MethodSet = None,
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
    if out is None or (teacher is None and how.soft_labels is None):
        raise typer.BadParameter(f"Missing option '{'--out' if out is None else '--teacher'}'.")
    if teacher is not None:
        check_model(teacher, option="--teacher")
    if how.general_teacher is not None:
        check_model(how.general_teacher, option="--general-teacher")
    from ..distillation.stage import distill as stage

    values, overrides = split_settings(set_ or [], method=how.name)
    how = replace(how, student=replace(student, overrides=overrides), values=values)
    start(threads)
    data, task = (None, None) if on is None else (on.data, on.task)
    done(stage(teacher, data=data, task=task, output=out, settings=settings, method=how), out, as_json=as_json)


def split_settings(pairs: list[str], *, method: str) -> tuple[tuple[tuple[str, Any], ...], tuple[tuple[str, Any], ...]]:
    """What `--set` says of the method, and what of the student's config.

    Raises:
        InvalidInput: a name that is neither's.
    """
    from ..config_building import FIELDS, parse_settings
    from ..distillation.methods import get_method

    defaults = get_method(method).defaults
    values, overrides = {}, {}
    for name, value in parse_settings(pairs).items():
        if name in defaults:
            values[name] = str(value) if name in ("layer_map", "matryoshka_dims") else value
        elif name in FIELDS:
            overrides[name] = value
        else:
            raise InvalidInput(
                f"--set must name a setting of {method} or a field of AlbertPlusConfig",
                got=repr(name),
                repair=suggest(name, [*defaults, *FIELDS]),
            )
    return tuple(values.items()), tuple(overrides.items())


@with_settings
def augment(
    on: Learned,
    out: o.Out,
    settings: AugmentSettings,
    masked_lm: Annotated[
        str | None, typer.Option(help="Directory or Hub id of a masked LM: candidates for words that are one piece.")
    ] = None,
    word_vectors: Annotated[
        Path | None,
        typer.Option(help="GloVe text file, or model directory for its embeddings: candidates for the other words."),
    ] = None,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Add copies of the training rows with words replaced by likely ones (TinyBERT), for distilling on soft targets."""
    if masked_lm is not None:
        check_model(masked_lm, option="--masked-lm")
    from ..distillation.augmentation.stage import augment as stage

    start(threads)
    record = stage(on.data, task=on.task, output=out, settings=settings, masked_lm=masked_lm, word_vectors=word_vectors)
    done(record, out, as_json=as_json)
