"""The verb that exports."""

from pathlib import Path
from typing import Annotated, Any

import typer

from . import options as o
from .console import notes
from .stages import done, start


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory, of any head.")],
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            help="onnx, onnx-fp16, onnx-bf16, onnx-int8, onnx-qdq, onnx-nbits, onnx-exits, onnx-int8-exits, openvino, openvino-int8, tensorrt or triton; repeat for several.",
        ),
    ],
    out: o.Out,
    data: Annotated[
        str | None, typer.Option(help="GLUE folder or Hub id: its examples calibrate, its score judges int8.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="The GLUE task of --data.")] = None,
    texts: Annotated[
        Path | None, typer.Option(help="Calibrate on this file instead: a text a line, a tab in a pair.")
    ] = None,
    examples: Annotated[int, typer.Option(help="Examples to calibrate with.")] = 128,
    keep_fp32: Annotated[
        list[str] | None,
        typer.Option(help="Leave weight products with such names in fp32, as '*.layers.11.*'; repeat for several."),
    ] = None,
    max_drop: Annotated[
        float | None,
        typer.Option(help="Points of the score that int8 may lose; finds the fewest products to keep in fp32."),
    ] = None,
    exit_form: Annotated[
        str, typer.Option(help="Graph of exits: loop, segments, or auto for the faster one.")
    ] = "auto",
    tensorrt_from: Annotated[
        str, typer.Option(help="Graph that TensorRT builds from: onnx-fp16, onnx-bf16 or onnx-qdq.")
    ] = "onnx-fp16",
    profile: Annotated[
        str, typer.Option(help="Smallest, best and largest BATCHxLENGTH of a TensorRT engine.")
    ] = "1x1,8x128,32x512",
    timing_cache: Annotated[Path | None, typer.Option(help="File in which TensorRT keeps what it timed.")] = None,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Export a model to ONNX, OpenVINO, TensorRT or Triton, verified and counted."""
    start(threads)
    from hf_albert_plus.export.stage import ExportSettings
    from hf_albert_plus.export.stage import export as stage
    from hf_albert_plus.export.tensorrt_plan import parse_profile

    settings = ExportSettings(
        data=data,
        task=task,
        texts=texts,
        examples=examples,
        keep_fp32=tuple(keep_fp32 or ()),
        max_drop=max_drop,
        exit_form=exit_form,
        tensorrt_from=tensorrt_from,
        profile=parse_profile(profile),
        timing_cache=timing_cache,
        threads=threads,
    )
    record = stage(directory, to=to, output=out, settings=settings, scorer=_scorer(data, task))
    if not as_json:
        for name, facts in record.result["exports"].items():
            notes.print(_line(name, facts), markup=False)
    done(record, out, as_json=as_json)


def _scorer(data: str | None, task: str | None) -> Any:
    """Scores an engine on a task's validation split, by the task's first metric."""
    if data is None or task is None:
        return None
    from hf_albert_plus.eval.score import score_engine
    from hf_albert_plus.export.inputs import longest_input

    from ..glue import get_task

    chosen = get_task(task)
    return lambda engine: score_engine(
        engine, data=data, task=chosen, max_length=min(128, longest_input(engine.config))
    )


def _line(name: str, facts: dict[str, Any]) -> str:
    """One export in words."""
    if "models" in facts:
        return f"{name}: {', '.join(facts['models'])}"
    parts = [f"{facts['bytes'] / 1e6:.1f} MB"]
    if "form" in facts:
        timed = "; ".join(f"{form} {value:g} ms" for form, value in facts.get("milliseconds", {}).items())
        parts.append(facts["form"] + (f" ({timed})" if timed else ""))
        parts += [f"no loop: {facts['no_loop']}"] if "no_loop" in facts else []
        parts.append(f"{facts['rows_that_leave_alike']} of {facts['rows_compared']} rows leave as in torch")
    if "quantised_products" in facts:
        parts.append(f"cosine of outputs {facts['least_cosine']:.4f}")
        parts.append(f"{facts['quantised_products']} of {facts['weight_products']} weight products quantised")
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
            parts.append(f"score {facts['score']:.2f} ({-facts['drop']:+.2f})")
    else:
        parts.append(f"outputs within {facts['max_abs_difference']:.2g} of the model's")
    if facts.get("tensorrt_unsupported"):
        parts.append(f"not in TensorRT's parser: {', '.join(facts['tensorrt_unsupported'])}")
    return f"{name}: {', '.join(parts)}"


__all__ = ["export"]
