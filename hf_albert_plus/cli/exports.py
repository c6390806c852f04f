"""The verb that exports."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hf_albert_plus.export.settings import ExportSettings

from ..conversion.settings import SentencePooling
from ..engines.artefacts import ARTEFACTS, names_in_words
from . import options as o
from .console import done, notes, start
from .settings_options import Fields, with_settings
from .task_options import MaybeScored


@with_settings
def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory, of any head.")],
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            help=f"{names_in_words(list(ARTEFACTS))}; repeat for several.",
        ),
    ],
    out: o.Out,
    settings: Annotated[ExportSettings, Fields(without=("data", "task"))],
    on: MaybeScored,
    pooling: Annotated[
        SentencePooling | None,
        typer.Option(
            "--pooling",
            help="For an encoder: put each text's vector into the graph, the mean of its tokens or the first.",
        ),
    ] = None,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Export a model to ONNX, OpenVINO, TensorRT, Triton or the browser, verified and counted."""
    start(threads)
    from hf_albert_plus.eval.scoring import logits_scorer_for, scorer_for
    from hf_albert_plus.export.stage import export as stage

    settings = replace(settings, pooling=pooling, threads=threads)
    scorer, logits_scorer = None, None
    if on is not None:
        settings = replace(settings, data=on.data, task=on.task)
        scorer = scorer_for(on.task, on.data, max_length=on.task.max_length)
        logits_scorer = logits_scorer_for(on.task, directory)
    record = stage(directory, to=to, output=out, settings=settings, scorer=scorer, logits_scorer=logits_scorer)
    if not as_json:
        for name, facts in record.result["exports"].items():
            notes.print(_line(name, facts), markup=False)
            if (facts.get("cross_fitted") or {"allowance": 0})["allowance"] is None:
                notes.print(
                    f"[yellow]{name}: on its own logits no threshold that saves layers holds, and no row leaves[/yellow]"
                )
    done(record, out, as_json=as_json)


def _line(name: str, facts: dict[str, Any]) -> str:
    """One export in words, from what its record says."""
    if "models" in facts:
        return f"{name}: {', '.join(facts['models'])}"
    parts = [f"{facts['bytes'] / 1e6:.1f} MB"]
    if "form" in facts:
        parts += _exits_in_words(facts)
    if "quantised_products" in facts:
        parts += _products_in_words(facts)
    else:
        parts.append(f"outputs within {facts['max_abs_difference']:.2g} of the model's")
    if facts.get("tensorrt_unsupported"):
        parts.append(f"not in TensorRT's parser: {', '.join(facts['tensorrt_unsupported'])}")
    return f"{name}: {', '.join(parts)}"


def _exits_in_words(facts: dict[str, Any]) -> list[str]:
    """The form of a graph with exits, and how many rows leave as in torch."""
    timed = "; ".join(f"{form} {value:g} ms" for form, value in facts.get("milliseconds", {}).items())
    parts = [facts["form"] + (f" ({timed})" if timed else "")]
    if "no_loop" in facts:
        parts.append(f"no loop: {facts['no_loop']}")
    judged = facts.get("cross_fitted")
    if judged:
        parts.append(
            f"threshold {facts['threshold']:.3g} found on its logits of {facts['threshold_rows']} rows "
            f"({judged['drop']:.2f} points lost, cross-fitted)"
        )
    return [*parts, f"{facts['rows_that_leave_alike']} of {facts['rows_compared']} rows leave as in torch"]


def _products_in_words(facts: dict[str, Any]) -> list[str]:
    """How much of a graph is quantised, and what it costs."""
    parts = [
        f"cosine of outputs {facts['least_cosine']:.4f}",
        f"{facts['quantised_products']} of {facts['weight_products']} weight products quantised",
    ]
    if facts["kept_fp32"]:
        parts.append(f"in fp32: {', '.join(facts['kept_fp32'])}")
    if "agreement" in facts:
        seen = facts["agreement"]
        parts.append(
            f"{seen['same']} of {seen['predictions']} predictions as trained"
            if "same" in seen
            else f"{seen['predictions']} values within {seen['max_abs_difference']:.2g} of those as trained"
        )
    if facts.get("score") is not None:
        parts.append(f"score {facts['score']:.2f} ({0 - facts['drop']:+.2f})")
    return parts
