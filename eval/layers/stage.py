"""The stage that looks into encoders: texts in, the measures of every layer and their plots out."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.layers.layer_plots import layers_svg, likeness_svg
from hf_albert_plus.eval.layers.measures import LayerFigures
from hf_albert_plus.eval.layers.reading import names_of, read_layers
from hf_albert_plus.eval.settings import InspectSettings
from hf_albert_plus.records.files import read_json, write_json, write_text
from hf_albert_plus.records.record import Parent, Record, file_parent, parent
from hf_albert_plus.records.stage import run_stage
from hf_albert_plus.tasks.splits import data_parent, load_split
from hf_albert_plus.tasks.tables import read_lines
from hf_albert_plus.tasks.task import Task

FIGURES, PLOT, LIKENESS_PLOT = "layers.json", "layers.svg", "likeness.svg"


def layer_figures(
    models: Sequence[str], *, columns: Sequence[list[str]], settings: InspectSettings
) -> list[LayerFigures]:
    """The measures of every model over the same texts.

    Raises:
        InvalidInput: a model that is there twice, or that cannot be looked into.
    """
    return [
        read_layers(source, columns, name=name, max_length=settings.max_length)
        for source, name in zip(models, names_of(models), strict=True)
    ]


def texts_of(
    data: str | None, task: Task | None, text: Path | None, settings: InspectSettings
) -> tuple[list[list[str]], Parent]:
    """The texts to read, a list or two of pairs, and how a record names them.

    Args:
        data, task: rows of a split.
        text: or a file with a text a line.

    Raises:
        InvalidInput: neither or both, or none in it.
    """
    if (data is None) == (text is None):
        raise InvalidInput(
            "the texts to read must be those of --data, or of --text",
            got="neither" if data is None else "both",
            repair="add --text FILE, or --data FILE" if data is None else "leave out one of the two",
        )
    if data is not None and task is not None:
        split = settings.split or task.judging_split
        rows = load_split(data, task, split, labelled=False)
        columns = [list(rows[name][: settings.rows]) for name in task.columns]
        return columns, data_parent(data, task)
    assert text is not None
    if settings.split is not None:
        raise InvalidInput("--split is of --data", got=f"--split {settings.split} and --text", repair="leave it out")
    lines = read_lines(text, ("text",), option="--text").column("text").to_pylist()
    if not lines:
        raise InvalidInput("--text must hold texts, one a line", got=f"none in {text}", repair="check the file")
    return [lines[: settings.rows]], file_parent(text)


def inspect(
    models: Sequence[str],
    *,
    data: str | None = None,
    task: Task | None = None,
    text: Path | None = None,
    output: Path,
    settings: InspectSettings,
) -> Record:
    """Writes the measures of encoders (`layers.json`) and two plots, `layers.svg` and `likeness.svg`.

    Args:
        models: directories or Hub ids of encoders with any head.
        data, task, text: as in `texts_of`.
    """
    names = names_of(models)
    columns, read = texts_of(data, task, text, settings)

    def work(directory: Path) -> dict[str, Any]:
        found = layer_figures(models, columns=columns, settings=settings)
        write_json(directory / FIGURES, [asdict(each) for each in found])
        write_text(directory / PLOT, layers_svg(found))
        write_text(directory / LIKENESS_PLOT, likeness_svg(found))
        return {"texts": found[0].texts, "tokens": {each.name: each.tokens for each in found}}

    parents = {f"model {name}": parent(source) for name, source in zip(names, models, strict=True)}
    of_task = {} if task is None else task.settings
    return run_stage(
        "inspect", output, settings={**of_task, **asdict(settings)}, parents={**parents, "texts": read}, work=work
    )


def read_figures(directory: Path) -> list[LayerFigures]:
    """The measures that a directory holds.

    Raises:
        InvalidInput: a file that is none.
    """
    found: list[LayerFigures] = read_json(
        directory / FIGURES, what=FIGURES, shape=list[LayerFigures], repair="inspect the models again"
    )
    return found
