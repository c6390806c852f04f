"""The exports with exits: put together, checked against torch's exits, and counted."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import torch
from transformers import PreTrainedModel

from hf_albert_plus.compression.exits import Criterion, run_with_exits
from hf_albert_plus.errors import InvalidInput, ParityError
from hf_albert_plus.export.engines import physical_cores
from hf_albert_plus.export.exit_graph import assemble_loop, assemble_segments
from hf_albert_plus.export.exit_parts import branch_weights, export_segments, export_start, export_step, steps_of
from hf_albert_plus.export.int8 import quantise
from hf_albert_plus.export.parity import Case, Difference, check_parity, onnx_runner
from hf_albert_plus.export.runtimes import RUNTIMES

if TYPE_CHECKING:
    from hf_albert_plus.export.work import Work


Forms = dict[str, tuple[onnx.ModelProto, dict[str, Any]]]
# Rounds in which the forms are timed in turns, and batches that each runs.
_ROUNDS = 7
# Of the rows of a graph in int8, that must leave where torch's do: others are compared with nothing.
_LEAST_ALIKE = 0.5
_BATCHES = 8


def write_exits(work: "Work", name: str) -> dict[str, Any]:
    """Writes the graph of the model with its exits, and says which form it took and why: a loop where blocks repeat from exit to exit and
    it is as fast, else segments.

    Raises:
        InvalidInput: a model without exits, or without the threshold that `albert-plus calibrate` finds; or a loop asked for where
            there is none.
        ParityError: rows leave elsewhere, or with other logits, than in torch.
    """
    check_exits(work.model.config, name)
    config: Any = work.model.config
    criterion = Criterion(config.exit_criterion, config.exit_threshold)
    forms, why = _forms(work, criterion, is_int8=RUNTIMES[name].precision == "int8")
    timed = {"milliseconds": _milliseconds(work, forms)} if len(forms) > 1 else {}
    form = min(forms, key=lambda form: timed.get("milliseconds", {}).get(form, 0.0))
    proto, counts = forms[form]
    work.path(name).parent.mkdir(parents=True, exist_ok=True)
    work.path(name).write_bytes(proto.SerializeToString())
    return {
        "form": form,
        "criterion": criterion.kind,
        "threshold": criterion.threshold,
        **why,
        **timed,
        **counts,
        **_compare(work, name, criterion),
        **work.judged(name, repair="calibrate the exits with a smaller --max-drop, or export it without them"),
    }


def check_exits(config: Any, name: str) -> None:
    """
    Raises:
        InvalidInput: no exits, or no threshold to leave by.
    """
    if not getattr(config, "exit_layers", None) or config.exit_threshold is None:
        raise InvalidInput(
            f"{name} needs a classifier with exits and a threshold",
            got="no exits" if not getattr(config, "exit_layers", None) else "no threshold",
            repair="train exits (albert-plus distill --method fastbert --phases exits), then albert-plus calibrate",
        )


def _forms(work: "Work", criterion: Criterion, *, is_int8: bool) -> tuple[Forms, dict[str, Any]]:
    """The graphs to choose from with counts of their products, and why there is no loop where there is none."""
    model, wanted, why = work.model, work.settings.exit_form, {}
    try:
        steps_of(model.config)
    except InvalidInput as error:
        if wanted == "loop":
            raise
        wanted, why = "segments", {"no_loop": f"{error.rule}, got {error.got}"}
    names = ("loop", "segments") if wanted == "auto" else (wanted,)
    scratch = _scratch(work)
    rule: dict[str, Any] = {"kind": criterion.kind, "threshold": criterion.threshold}
    forms: Forms = {}
    for form in names:
        start, after = _traced(work, form)
        counts: dict[str, Any] = {}
        if is_int8:
            (start, *after), counts = _quantised([start, *after], scratch / f"int8-{form}")
        if form == "segments":
            forms[form] = assemble_segments(start, after, model, **rule), counts
            continue
        if is_int8:
            # The heads of all exits are one tensor, and so is each product of the branches, of which each step takes its own.
            kept = [name for name, stacked in branch_weights(model).items() if stacked.dim() == 3]
            counts["kept_fp32"] += ["exits.classifier", *(f"exits.{name}" for name in kept)]
            counts["weight_products"] += 1 + len(kept)
        forms[form] = assemble_loop(start, after[0], model, **rule), counts
    return forms, why


def _traced(work: "Work", form: str) -> tuple[Path, list[Path]]:
    """The start and what follows, in fp32, traced once for all exports."""
    folder, parts = _scratch(work), work.exit_parts
    if "start" not in parts:
        parts["start"] = [export_start(work.model, folder / "start.onnx")]
    if form not in parts:
        parts[form] = (
            [export_step(work.model, folder / "step.onnx")] if form == "loop" else export_segments(work.model, folder)
        )
    return parts["start"][0], parts[form]


def _scratch(work: "Work") -> Path:
    if work.scratch is None:
        raise ValueError("exits are put together in a folder of their own")
    return work.scratch


def _quantised(parts: list[Path], folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """The parts in int8, and counts of their products."""
    counts: dict[str, Any] = {"weight_products": 0, "quantised_products": 0, "kept_fp32": []}
    for part in parts:
        found = quantise(part, folder / part.name)
        for key in counts:
            counts[key] += found[key]
    return [folder / part.name for part in parts], counts


def _milliseconds(work: "Work", forms: Forms) -> dict[str, float]:
    """What each form takes for the examples, or for the cases where there are none, one by one and as batches: the least of several
    rounds, in which they take turns."""
    threads = work.settings.threads or physical_cores()
    runs = {form: onnx_runner(proto.SerializeToString(), threads=threads) for form, (proto, _) in forms.items()}
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


def _compare(work: "Work", name: str, criterion: Criterion) -> dict[str, Any]:
    work.made.append(name)
    return compare_exits(work.model, work.engine(name), work.cases, criterion)


def compare_exits(model: PreTrainedModel, engine: Any, cases: Sequence[Case], criterion: Criterion) -> dict[str, Any]:
    """Every row of the cases through torch and the graph: where it leaves, and with what.

    In int8 a row near the threshold may leave elsewhere: what is compared are the logits of rows that leave at the same layer.

    Raises:
        ParityError: rows leave elsewhere, or with other logits, than in torch.
    """
    name = engine.runtime.name
    same = rows = 0
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
    for case in cases:
        found, expected = engine(**case.tensors), run_with_exits(model, criterion, **case.tensors)
        alike_B = found.layers == expected.layers_B
        same, rows = same + int(alike_B.sum()), rows + len(alike_B)
        pairs.append((found.logits[alike_B].flatten(), expected.logits_BC[alike_B].flatten()))
    mine, theirs = (torch.cat(part).double() for part in zip(*pairs, strict=True))
    largest = float((mine - theirs).abs().max()) if len(mine) else 0.0
    scaled = largest / max(1.0, float(theirs.abs().max())) if len(mine) else 0.0
    cosine = float(torch.nn.functional.cosine_similarity(mine, theirs, dim=0)) if len(mine) else 1.0
    precision = engine.runtime.precision
    found = [Difference("logits", largest, scaled, cosine, f"{same} of {rows} rows, which leave alike")]
    if same < rows * (1 if precision == "fp32" else _LEAST_ALIKE):
        facts = [asdict(each) for each in found]
        if precision == "fp32":
            raise ParityError(facts, what=name, rule="rows must leave where torch's do")
        raise ParityError(
            facts,
            what=name,
            rule=f"{100 * _LEAST_ALIKE:g} % of the rows must leave where torch's do",
            repair="exits so unsure leave by what int8 rounds; train them longer or as --set exit_head=branch, or export onnx-exits",
        )
    return {**check_parity(found, what=name, precision=precision), "rows_compared": rows, "rows_that_leave_alike": same}


__all__ = ["check_exits", "compare_exits", "write_exits"]
