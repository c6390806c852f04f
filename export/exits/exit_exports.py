"""The exports with exits: put together, checked against torch's exits, and counted."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from hf_albert_plus.compression.exits.criteria import Criterion, criterion_of
from hf_albert_plus.engines.artefacts import Artefact
from hf_albert_plus.engines.parity import compare_exits, onnx_runner
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.exits.exit_graph import set_threshold
from hf_albert_plus.export.exits.exit_loop import assemble_loop
from hf_albert_plus.export.exits.exit_parts import branch_weights, export_loop, export_segments, export_start, steps_of
from hf_albert_plus.export.exits.exit_ranges import ranges_of_loop, ranges_of_segments
from hf_albert_plus.export.exits.exit_segments import assemble_segments
from hf_albert_plus.export.exits.int8_thresholds import OF_CONFIG, find_threshold
from hf_albert_plus.export.precision.input_ranges import Range
from hf_albert_plus.export.precision.int8 import quantise
from hf_albert_plus.export.precision.products import QuantisedProducts
from hf_albert_plus.export.work import Work
from hf_albert_plus.machine import physical_cores

# Rounds in which the forms are timed in turns, and batches that each runs.
_ROUNDS = 7
_BATCHES = 8


@dataclass(frozen=True)
class ExitRule:
    """The form that a graph with exits took, and what its rows leave by."""

    form: str
    criterion: str
    threshold: float


@dataclass(frozen=True)
class NoLoop:
    """Why a model has no loop."""

    no_loop: str


@dataclass(frozen=True)
class FormTimes:
    """How long each form took for the same batches."""

    milliseconds: dict[str, float]


@dataclass(frozen=True)
class _Form:
    """A graph to choose from, the parts that it was put together from, and the counts of its products in int8."""

    proto: onnx.ModelProto
    parts: list[Path]
    counts: QuantisedProducts | None


def write_exits(work: Work, artefact: Artefact) -> tuple[Any, ...]:
    """Writes the graph of the model with its exits, and says which form it took and why: a loop where blocks repeat from exit to exit and
    it is as fast, else segments. In int8, with a task, its threshold is found on its own logits.

    Raises:
        InvalidInput: a model without exits, or without the threshold that `albert-plus calibrate` finds; or a loop asked for where
            there is none.
        ParityError: rows leave elsewhere, or with other logits, than in torch.
    """
    check_exits(work.model.config, artefact.name)
    config: Any = work.model.config
    criterion = criterion_of(config, config.exit_threshold)
    names, why = _form_names(config, wanted=work.settings.exit_form)
    forms = {name: _form(work, name, criterion, is_int8=artefact.precision == "int8") for name in names}
    times = FormTimes(_milliseconds(work, forms)) if len(forms) > 1 else None
    chosen = names[0] if times is None else min(names, key=times.milliseconds.__getitem__)
    path, form = work.path(artefact), forms[chosen]
    origin = OF_CONFIG
    if artefact.precision == "int8" and work.recalibration is not None and work.tokenizer is not None:
        criterion, origin = find_threshold(work.recalibration, work.model, work.tokenizer, form.parts, form=chosen)
        set_threshold(form.proto, criterion.threshold)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(form.proto.SerializeToString())
    parity = compare_exits(work.model, work.engine(artefact.name), work.cases, criterion)
    score = work.judged(artefact, repair="calibrate the exits with a smaller --max-drop, or export it without them")
    invariance = work.invariance(artefact)
    rule = ExitRule(chosen, criterion.kind, criterion.threshold)
    results = (rule, origin, why, times, form.counts, parity, *invariance, score)
    return tuple(result for result in results if result is not None)


def check_exits(config: Any, name: str) -> None:
    """Refuses a model that has nothing to leave by.

    Raises:
        InvalidInput: no exits, or no threshold.
    """
    if not getattr(config, "exit_layers", None) or config.exit_threshold is None:
        raise InvalidInput(
            f"{name} needs a classifier with exits and a threshold",
            got="no exits" if not getattr(config, "exit_layers", None) else "no threshold",
            repair="train exits (albert-plus distill --method fastbert --phases exits), then albert-plus calibrate",
        )


def _form_names(config: Any, *, wanted: str) -> tuple[tuple[str, ...], NoLoop | None]:
    """The forms to choose from, and why there is no loop where there is none."""
    try:
        steps_of(config)
    except InvalidInput as error:
        if wanted == "loop":
            raise
        return ("segments",), NoLoop(f"{error.rule}, got {error.got}")
    return (("loop", "segments") if wanted == "auto" else (wanted,)), None


def _form(work: Work, name: str, criterion: Criterion, *, is_int8: bool) -> _Form:
    """The graph of one form."""
    model = work.model
    start, after = _traced(work, name)
    counts = None
    if is_int8:
        ranges = (
            ranges_of_loop(model, start, after, work.examples)
            if name == "loop"
            else ranges_of_segments(start, after, work.examples)
        )
        (start, *after), counts = _quantised([start, *after], ranges, work.scratch / f"int8-{name}")
    rule: dict[str, Any] = {"kind": criterion.kind, "threshold": criterion.threshold}
    if name == "segments":
        return _Form(assemble_segments(start, after, model, **rule), [start, *after], counts)
    if counts is not None:
        # The classifiers of all exits are one tensor, or each product of their branches is, of which each step takes its own.
        products = [weight for weight, stacked in branch_weights(model).items() if stacked.dim() == 3]
        kept = tuple(f"exits.{weight}" for weight in products or ["classifier"])
        counts = replace(
            counts, weight_products=counts.weight_products + len(kept), kept_fp32=(*counts.kept_fp32, *kept)
        )
    return _Form(assemble_loop(start, after, model, **rule), [start, *after], counts)


def _traced(work: Work, form: str) -> tuple[Path, list[Path]]:
    """The start and what follows, in fp32, traced once for all exports."""
    folder, parts = work.scratch, work.exit_parts
    if "start" not in parts:
        parts["start"] = [export_start(work.model, folder / "start.onnx")]
    if form not in parts:
        parts[form] = (export_loop if form == "loop" else export_segments)(work.model, folder)
    return parts["start"][0], parts[form]


def _quantised(parts: list[Path], ranges: list[dict[str, Range]], folder: Path) -> tuple[list[Path], QuantisedProducts]:
    """The parts in int8, and the counts of all their products."""
    counts = [quantise(part, folder / part.name, ranges=of_part) for part, of_part in zip(parts, ranges, strict=True)]
    products = QuantisedProducts(
        weight_products=sum(part.weight_products for part in counts),
        quantised_products=sum(part.quantised_products for part in counts),
        kept_fp32=tuple(name for part in counts for name in part.kept_fp32),
    )
    return [folder / part.name for part in parts], products


def _milliseconds(work: Work, forms: dict[str, _Form]) -> dict[str, float]:
    """How long each form takes for the examples, or for the cases where there are none, one by one and as batches: the least of several
    rounds, in which they take turns."""
    threads = work.settings.threads or physical_cores()
    runs = {name: onnx_runner(form.proto.SerializeToString(), threads=threads) for name, form in forms.items()}
    batches = list(work.example_batches())[:_BATCHES] or [case.tensors for case in work.cases if "real" in case.what]
    batches = batches or [case.tensors for case in work.cases]
    single = [{name: tensor[:1] for name, tensor in batch.items()} for batch in batches]
    least = dict.fromkeys(forms, float("inf"))
    for turn in range(_ROUNDS):
        for form in list(forms)[:: -1 if turn % 2 else 1]:
            start = time.perf_counter()
            for tensors in (*single, *batches):
                runs[form](tensors)
            least[form] = min(least[form], 1e3 * (time.perf_counter() - start))
    return {form: round(value, 3) for form, value in least.items()}
