"""The verbs that take parts of a model away."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InvalidInput
from . import options as o
from .console import notes
from .stages import done, settings_of_task, start

Model = Annotated[str, typer.Option(help="Directory or Hub id of a classifier.")]


class ImportanceChoice(str, Enum):
    """What heads and columns are ranked by."""

    taylor = "taylor"
    movement = "movement"


class SpreadChoice(str, Enum):
    """Among what they are ranked."""

    model = "model"
    block = "block"


class ScheduleChoice(str, Enum):
    """When weights become zero."""

    cubic = "cubic"
    one_shot = "one-shot"


def prune(
    model: Model,
    data: o.Data,
    task: o.TaskName,
    out: o.Out,
    heads: Annotated[float, typer.Option(help="Share of the attention heads to remove.")] = 0.33,
    columns: Annotated[float, typer.Option(help="Share of the feed-forward columns to remove.")] = 0.5,
    importance: Annotated[
        ImportanceChoice,
        typer.Option(help="taylor: how the loss would change; movement: where weights go in --epochs of training."),
    ] = ImportanceChoice.taylor,
    spread: Annotated[
        SpreadChoice, typer.Option(help="Rank over the whole model, or take the same share of every block.")
    ] = SpreadChoice.model,
    examples: Annotated[int, typer.Option(help="Training examples that taylor reads.")] = 2048,
    multiple_of: Annotated[int, typer.Option(help="Columns left in a block are a multiple of this.")] = 16,
    epochs: o.Epochs = None,
    batch_size: o.BatchSize = None,
    learning_rate: o.LearningRate = 5e-5,
    max_length: o.MaxLength = 128,
    precision: o.Precision = o.PrecisionChoice.auto,
    seed: o.Seed = 42,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Remove the heads and feed-forward columns that matter least: fewer weights, and less to compute.

    Then recover: albert-plus distill --student OUT --teacher MODEL.
    """
    from ..compression import PruneSettings
    from ..compression import prune as stage
    from ..glue import get_task

    chosen = get_task(task)
    settings = settings_of_task(
        PruneSettings, chosen, heads=heads, columns=columns, importance=importance.value, spread=spread.value, examples=examples,
        multiple_of=multiple_of, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, max_length=max_length,
        precision=precision.value, seed=seed,
    )  # fmt: skip
    start(threads)
    done(stage(model, data=data, task=chosen, output=out, settings=settings), out, as_json=as_json)


class CriterionChoice(str, Enum):
    """What rows leave by."""

    entropy = "entropy"
    confidence = "confidence"
    patience = "patience"


def calibrate(
    model: Annotated[Path, typer.Option(help="Directory of a classifier with exits.")],
    data: o.Data,
    task: o.TaskName,
    out: o.Out,
    criterion: Annotated[
        CriterionChoice,
        typer.Option(
            help="entropy of the classes (FastBERT), confidence in one, or patience: how often it was the same."
        ),
    ] = CriterionChoice.entropy,
    max_drop: Annotated[float, typer.Option(help="Points of the task's first metric that may be lost.")] = 0.5,
    share: Annotated[float, typer.Option(help="Share of the split to find it on; it is judged on the others.")] = 0.5,
    split: Annotated[
        str | None, typer.Option(help="Rows that were not trained on. Default: the task's validation split.")
    ] = None,
    exit_cost: Annotated[
        float,
        typer.Option(help="Layers that run in the time of a look at an exit: exits that don't pay for it are dropped."),
    ] = 0.2,
    keep_exits: Annotated[
        bool, typer.Option("--keep-exits", help="Drop no exit: a loop needs them at even distances.")
    ] = False,
    max_length: o.MaxLength = 128,
    seed: Annotated[int, typer.Option(help="Seed of the rows.")] = 42,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Find the earliest exits at which a classifier loses no more than it may."""
    from hf_albert_plus.eval.metrics import first_metric
    from hf_albert_plus.eval.plot import depth_svg

    from ..compression.exits import CalibrateSettings, calibrate_exits
    from ..glue import get_task

    chosen = get_task(task)
    settings = CalibrateSettings(
        criterion=criterion.value, max_drop=max_drop, exit_cost=exit_cost, keep_exits=keep_exits, split=split, share=share,
        max_length=max_length, seed=seed,
    )  # fmt: skip
    start(threads)
    record = calibrate_exits(
        model, data=data, task=chosen, output=out, settings=settings,
        score=lambda logits, labels: first_metric(logits.numpy(), labels, chosen), plot=depth_svg,
    )  # fmt: skip
    if not as_json:
        said = ", ".join(f"{layer}: {points:.1f}" for layer, points in record.result["score_of_exit"].items())
        notes.print(f"were all rows to leave after layer {said}")
        *kept, depth = record.result["layers"]
        notes.print(f"exits kept: after layer {', '.join(map(str, kept))}")
        if record.result["cost"] >= depth:
            notes.print("[yellow]leaving saves nothing: train the exits longer, or allow a larger --max-drop[/yellow]")
        for name in ("found_on", "others"):
            facts = record.result[name]
            if facts:
                notes.print(
                    f"{name.replace('_', ' ')} {facts['rows']} rows: {facts['average_layers']:.2f} of {depth} layers, "
                    f"score {facts['score']:.2f} (all layers {facts['full_score']:.2f})"
                )
        lost = record.result["others"]
        if lost and lost["full_score"] - lost["score"] > max_drop:
            notes.print(
                f"[yellow]the others lose more than --max-drop {max_drop:g}: use a smaller one, or more rows[/yellow]"
            )
    done(record, out, as_json=as_json)


def sparsify(
    model: Model,
    data: o.Data,
    task: o.TaskName,
    out: o.Out,
    sparsity: Annotated[float, typer.Option(help="Share of every matrix that becomes zero.")] = 0.5,
    schedule: Annotated[
        ScheduleChoice, typer.Option(help="cubic: more and more over the ramp; one-shot: all before the first step.")
    ] = ScheduleChoice.cubic,
    ramp: Annotated[float, typer.Option(help="Share of the steps over which cubic gets there.")] = 0.5,
    epochs: o.Epochs = None,
    batch_size: o.BatchSize = None,
    learning_rate: o.LearningRate = 5e-5,
    max_length: o.MaxLength = 128,
    precision: o.Precision = o.PrecisionChoice.auto,
    seed: o.Seed = 42,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Fine-tune with the smallest weights of every matrix at zero. It runs no faster: products multiply by zeros too."""
    from ..compression import SparsifySettings
    from ..compression import sparsify as stage
    from ..glue import get_task

    chosen = get_task(task)
    settings = settings_of_task(
        SparsifySettings, chosen, sparsity=sparsity, schedule=schedule.value, ramp=ramp, epochs=epochs, batch_size=batch_size,
        learning_rate=learning_rate, max_length=max_length, precision=precision.value, seed=seed,
    )  # fmt: skip
    start(threads)
    done(stage(model, data=data, task=chosen, output=out, settings=settings), out, as_json=as_json)


def qat(
    model: Annotated[str, typer.Option(help="Directory or Hub id of a classifier, or of an encoder.")],
    data: o.Data,
    task: o.TaskName,
    out: o.Out,
    bits: Annotated[
        str,
        typer.Option(help="Of the blocks' weights: 8, 4, 3 or 2; several, as 2,4,8, to choose from for each block."),
    ] = "8",
    budget: Annotated[
        float | None, typer.Option(help="MB that the packed model may take, where there are several --bits.")
    ] = None,
    groups: Annotated[
        int | None, typer.Option(help="Groups of rows of a weight that share their levels. Default: each row its own.")
    ] = None,
    decay: Annotated[float, typer.Option(help="Of the moving averages of the activations' ranges.")] = 0.9999,
    draws: Annotated[int, typer.Option(help="Parts of the data that curvature is measured on.")] = 5,
    examples: Annotated[int, typer.Option(help="Examples of each draw.")] = 64,
    epochs: o.Epochs = None,
    batch_size: o.BatchSize = None,
    learning_rate: o.LearningRate = 2e-5,
    max_length: o.MaxLength = 128,
    precision: o.Precision = o.PrecisionChoice.auto,
    seed: o.Seed = 42,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Train for the few bits in which a model will run: 8 (Q8BERT), fewer, or as many for each block as a budget allows (Q-BERT).

    Then: albert-plus export OUT --to onnx-int8, or onnx-nbits for fewer than 8.
    """
    from ..compression import QatSettings
    from ..compression import qat as stage
    from ..glue import get_task

    chosen = get_task(task)
    settings = settings_of_task(
        QatSettings, chosen, bits=_widths(bits), budget=budget, groups=groups, decay=decay, draws=draws, examples=examples,
        epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, max_length=max_length, precision=precision.value, seed=seed,
    )  # fmt: skip
    start(threads)
    record = stage(model, data=data, task=chosen, output=out, settings=settings)
    if not as_json and "curvature" in record.result:
        for block, chosen_bits in record.result["bits"].items():
            notes.print(f"{block}: {chosen_bits} bits, sensitivity {record.result['curvature'][block][-1]:.3g}")
    done(record, out, as_json=as_json)


def _widths(text: str) -> tuple[int, ...]:
    """`2,4` -> (2, 4)."""
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise InvalidInput(
            "--bits must be whole numbers with commas between them", got=repr(text), repair="use --bits 2,4,8"
        ) from None


__all__ = ["calibrate", "prune", "qat", "sparsify"]
