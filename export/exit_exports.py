"""The exports with exits: put together, checked against torch's exits, and counted."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hf_albert_plus.compression.exits import Criterion, run_with_exits
from hf_albert_plus.errors import InvalidInput, ParityError
from hf_albert_plus.export.exit_graph import assemble_loop, assemble_segments
from hf_albert_plus.export.exit_parts import export_segments, export_start, export_step, steps_of
from hf_albert_plus.export.int8 import quantise
from hf_albert_plus.export.parity import LEAST_COSINE, TOLERANCES
from hf_albert_plus.export.runtimes import RUNTIMES
from hf_albert_plus.records import CHECKPOINTS

if TYPE_CHECKING:
    from hf_albert_plus.export.work import Work


def write_exits(work: "Work", name: str) -> dict[str, Any]:
    """Writes the graph of the model with its exits, a loop where its blocks repeat and segments where not, and says which and why.

    Raises:
        InvalidInput: a model without exits, or without the threshold that `albert-plus calibrate` finds.
        ParityError: rows leave elsewhere, or with other logits, than in torch.
    """
    model: Any = work.model
    config = model.config
    if not getattr(config, "exit_layers", None) or config.exit_threshold is None:
        raise InvalidInput(
            f"{name} needs a classifier with exits and a threshold",
            got="no exits" if not getattr(config, "exit_layers", None) else "no threshold",
            repair="train exits (albert-plus distill --method fastbert --phases exits), then albert-plus calibrate",
        )
    criterion = Criterion(config.exit_criterion, config.exit_threshold)
    why = None
    try:
        steps_of(config)
    except InvalidInput as error:
        why = f"{error.rule}, got {error.got}"
    is_int8 = RUNTIMES[name].precision == "int8"
    with tempfile.TemporaryDirectory() as folder:
        counts: dict[str, Any] = {}
        parts = _traced(work, loop=why is None)
        if is_int8:
            parts, counts = _quantised(parts, Path(folder))
        rule: dict[str, Any] = {"kind": criterion.kind, "threshold": criterion.threshold}
        proto = (
            assemble_loop(parts[0], parts[1], model, **rule)
            if why is None
            else assemble_segments(parts[0], parts[1:], model, **rule)
        )
    work.path(name).parent.mkdir(parents=True, exist_ok=True)
    work.path(name).write_bytes(proto.SerializeToString())
    form = {"form": "loop"} if why is None else {"form": "segments", "no_loop": why}
    return {
        **form,
        "criterion": criterion.kind,
        "threshold": criterion.threshold,
        **counts,
        **_compare(work, name, criterion),
    }


def _traced(work: "Work", *, loop: bool) -> list[Path]:
    """The start and what follows, in fp32, traced once for all exports."""
    folder = work.directory / CHECKPOINTS / "exits"
    if not work.exit_parts:
        folder.mkdir(parents=True)
        start = export_start(work.model, folder / "start.onnx")
        after = [export_step(work.model, folder / "step.onnx")] if loop else export_segments(work.model, folder)
        work.exit_parts = [start, *after]
    return work.exit_parts


def _quantised(parts: list[Path], folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """The parts in int8, and counts of their products."""
    counts: dict[str, Any] = {"weight_products": 0, "quantised_products": 0, "kept_fp32": []}
    for part in parts:
        found = quantise(part, folder / part.name)
        for key in counts:
            counts[key] += found[key]
    return [folder / part.name for part in parts], counts


def _compare(work: "Work", name: str, criterion: Criterion) -> dict[str, Any]:
    """Every row of the cases through torch and the graph: where it leaves, and with what.

    In int8 a row near the threshold may leave elsewhere: what is compared are the logits of rows that leave at the same layer.
    """
    work.made.append(name)
    engine: Any = work.engine(name)
    same = rows = 0
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
    for case in work.cases:
        found, expected = engine(**case.tensors), run_with_exits(work.model, criterion, **case.tensors)
        alike_B = found.layers == expected.layers_B
        same, rows = same + int(alike_B.sum()), rows + len(alike_B)
        pairs.append((found.logits[alike_B].flatten(), expected.logits_BC[alike_B].flatten()))
    mine, theirs = (torch.cat(part).double() for part in zip(*pairs, strict=True))
    largest = float((mine - theirs).abs().max()) / max(1.0, float(theirs.abs().max())) if len(mine) else 0.0
    cosine = float(torch.nn.functional.cosine_similarity(mine, theirs, dim=0)) if len(mine) else 0.0
    precision = RUNTIMES[name].precision
    good = cosine >= LEAST_COSINE if precision == "int8" else largest <= TOLERANCES[precision] and same == rows
    if not good:
        raise ParityError(
            [
                {
                    "output": "logits",
                    "max_abs": largest,
                    "scaled": largest,
                    "cosine": cosine,
                    "inputs": f"{same} of {rows} rows leave alike",
                }
            ],
            what=name,
            rule="rows must leave where torch's do, with the same logits",
        )
    return {
        "max_abs_difference": largest, "least_cosine": cosine, "rows_compared": rows, "rows_that_leave_alike": same,
    }  # fmt: skip


__all__ = ["write_exits"]
