"""The verbs that take parts of a model away."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..compression.settings import CalibrateSettings, PruneSettings, QatSettings, SparsifySettings
from ..hub_connection import check_model
from ..search.settings import CompressSettings
from . import options as o
from .console import done, notes, print_json, print_table, start
from .settings_options import Fields, with_settings
from .task_options import Learned, Scored

Model = Annotated[str, typer.Option(help="Directory or Hub id of a classifier.")]
# What these verbs train with; warm-up and decay are as they are.
AS_PLAIN = Fields(without=("warmup", "weight_decay"))


@with_settings
def prune(
    model: Model,
    on: Learned,
    out: o.Out,
    settings: Annotated[PruneSettings, AS_PLAIN],
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Remove the layers, heads and feed-forward columns that matter least: fewer weights, and less to compute.

    Then recover: albert-plus distill --student OUT --teacher MODEL.
    """
    check_model(model, option="--model")
    from ..compression.pruning import prune as stage

    start(threads)
    done(stage(model, data=on.data, task=on.task, output=out, settings=settings), out, as_json=as_json)


@with_settings
def trim(
    model: Model,
    on: Learned,
    out: o.Out,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            help="Further texts, whose pieces stay too: .txt, .jsonl, .parquet, a folder of these, or a Hub dataset; repeat for several."
        ),
    ] = None,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Remove the pieces of the vocabulary that no training text uses: a smaller file, the same answers to these texts.

    A word that none of them has is read in smaller pieces. albert-plus eval OUT says what that costs.
    """
    check_model(model, option="--model")
    from ..compression.trimming import trim as stage

    start(threads)
    done(stage(model, data=on.data, task=on.task, output=out, corpus=corpus or []), out, as_json=as_json)


@with_settings
def calibrate(
    model: Annotated[Path, typer.Option(help="Directory of a classifier with exits.")],
    on: Scored,
    out: o.Out,
    settings: CalibrateSettings,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Find the earliest exits at which a classifier loses no more than it may."""
    from hf_albert_plus.eval.reporting.plots import depth_svg
    from hf_albert_plus.eval.scoring import logits_scorer_for

    from ..compression.exits.stage import calibrate_exits

    start(threads)
    record = calibrate_exits(
        model, data=on.data, task=on.task, output=out, settings=settings,
        score=logits_scorer_for(on.task, model), plot=depth_svg,
    )  # fmt: skip
    if not as_json:
        _print_exits(record.result, max_drop=settings.max_drop)
    done(record, out, as_json=as_json)


def _print_exits(result: dict[str, Any], *, max_drop: float) -> None:
    said = ", ".join(f"{layer}: {points:.1f}" for layer, points in result["score_of_exit"].items())
    notes.print(f"were all rows to leave after layer {said}")
    *kept, depth = result["layers"]
    notes.print(f"exits kept: after layer {', '.join(map(str, kept))}")
    prices = ", ".join(f"{layer}: {price:.2g}" for layer, price in result["exit_costs"].items())
    notes.print(f"a look at an exit costs, in layers, after layer {prices}")
    found, judged = result["found_on"], result["cross_fitted"]
    notes.print(
        f"found on {found['rows']} rows: {found['average_layers']:.2f} of {depth} layers, "
        f"score {found['score']:.2f} (all layers {found['full_score']:.2f})"
    )
    interval = judged["drop_interval"]
    between = "" if interval is None else f", 95 % from {interval[0]:.2f} to {interval[1]:.2f}"
    notes.print(
        f"cross-fitted in {judged['folds']} folds: {judged['average_layers']:.2f} of {depth} layers, "
        f"score {judged['score']:.2f}, {judged['drop']:.2f} points lost{between}"
    )
    _, lost, layers = judged["tried"][0]
    loses = f"a threshold that may lose --max-drop {max_drop:g} where it is found loses {lost:.2f} on other rows, with {layers:.2f} layers"
    if judged["allowance"] is None:
        notes.print(
            f"[yellow]{loses}, and none with a smaller drop saves layers and holds: with the threshold that is written, no row leaves. "
            "Train the exits longer, use more rows, or allow a larger --max-drop[/yellow]"
        )
    elif judged["allowance"] < max_drop:
        notes.print(f"{loses}: the one that is written may lose {judged['allowance']:g}")
    if result["cost"] >= depth and judged["allowance"] is not None:
        notes.print("[yellow]leaving saves nothing: train the exits longer, or allow a larger --max-drop[/yellow]")


@with_settings
def sparsify(
    model: Model,
    on: Learned,
    out: o.Out,
    settings: Annotated[SparsifySettings, AS_PLAIN],
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Fine-tune with the smallest weights of every matrix at zero. It runs no faster: products multiply by zeros too."""
    check_model(model, option="--model")
    from ..compression.sparsity import sparsify as stage

    start(threads)
    done(stage(model, data=on.data, task=on.task, output=out, settings=settings), out, as_json=as_json)


@with_settings
def qat(
    model: Annotated[str, typer.Option(help="Directory or Hub id of a classifier, or of an encoder.")],
    on: Learned,
    out: o.Out,
    settings: Annotated[QatSettings, AS_PLAIN],
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Train for the few bits in which a model will run: 8 (Q8BERT), fewer, or as many for each block as a budget allows (Q-BERT).

    Then: albert-plus export OUT --to onnx-int8, or onnx-nbits for fewer than 8.
    """
    check_model(model, option="--model")
    from ..compression.quantisation.stage import qat as stage

    start(threads)
    record = stage(model, data=on.data, task=on.task, output=out, settings=settings)
    if not as_json and "curvature" in record.result:
        for block, chosen_bits in record.result["bits"].items():
            notes.print(f"{block}: {chosen_bits} bits, sensitivity {record.result['curvature'][block][-1]:.3g}")
    done(record, out, as_json=as_json)


@with_settings
def compress(
    teacher: Annotated[
        str,
        typer.Argument(help="Directory or Hub id of a classifier; an encoder is fine-tuned first.", show_default=False),
    ],
    on: Learned,
    out: o.Out,
    settings: CompressSettings,
    pooling: o.PoolingChoice = None,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Find the smallest and fastest form of a classifier that loses no more than it may: a budget in, a model out.

    Run it again with the same --out to go on where it was stopped, or with a larger --time-budget to search longer.
    """
    check_model(teacher, option="TEACHER")
    start(threads)
    from ..search.frontier import document, verdict
    from ..search.stage import compress as stage

    done_search = stage(
        teacher,
        data=on.data,
        task=on.task,
        out=out,
        settings=replace(settings, pooling=pooling),
        threads=threads,
    )
    if as_json:
        print_json({"out": str(out), **document(done_search.hunt, done_search.pick)})
        return
    if done_search.table is not None:
        print_table(done_search.table, title=f"albert-plus compress: {on.task.name}")
    typer.echo(verdict(done_search.hunt, done_search.pick))
    typer.echo(str(out / "compress.html"))
    if done_search.directory is not None:
        typer.echo(f"{done_search.directory}:{done_search.runtime}")
