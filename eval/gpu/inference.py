"""Answers: one classifier in every way that torch has, at several shapes, and with exits where a batch shrinks as rows leave."""

import copy
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from hf_albert_plus.compression.exits.criteria import Criterion, normalised_entropy, run_with_exits, taken_exits
from hf_albert_plus.eval.gpu.gpu_rows import Attempts, Bench, GpuRow
from hf_albert_plus.eval.latency.costs import Arithmetic
from hf_albert_plus.eval.latency.device_calls import captured_call, torch_call
from hf_albert_plus.eval.latency.timed_models import in_transformers
from hf_albert_plus.eval.latency.timing import Call, summarise, time_calls
from hf_albert_plus.eval.scored_rows import architecture_hash
from hf_albert_plus.eval.targets import Shape, check_shapes, sample_tensors
from hf_albert_plus.random_inputs import sample_inputs
from hf_albert_plus.variants import get_variant

BASELINE = "torch fp32"
# As targets name their runtimes; a CUDA graph and a compiled model in bf16 are none of these.
_RUNTIMES = {
    BASELINE: "torch", "torch bf16": "torch-bf16", "torch.compile bf16": "torch-compile-bf16",
    "torch bf16 CUDA graph": "torch-bf16-cuda-graph", "transformers fp32": "transformers", "transformers bf16": "transformers-bf16",
}  # fmt: skip
# Random classifiers say much the same of every text; with weights so many times as large they tell texts apart.
_SPREAD = 50.0


def name_of(model: str) -> str:
    """What rows call the model."""
    return Path(model).resolve().name if Path(model).is_dir() else model


def measure_inference(bench: Bench) -> list[GpuRow]:
    """A row for each way and shape, in turns with this package's model in torch fp32."""
    ours = bench.classifier()
    check_shapes(list(bench.sizes.shapes), ours.config, name=bench.model)
    theirs: Any = copy.deepcopy(in_transformers(ours))
    theirs = theirs.to(bench.device.kind)
    halves = {"ours": copy.deepcopy(ours).to(torch.bfloat16), "theirs": copy.deepcopy(theirs).to(torch.bfloat16)}
    compiled: Any = torch.compile(halves["ours"], dynamic=True) if bench.sizes.compiles else None
    arithmetic, rows = Arithmetic(ours.config), list[GpuRow]()
    for shape in bench.sizes.shapes:
        load, attempts = str(shape), Attempts()
        tensors = on_device(ours, shape, bench)
        calls = {
            BASELINE: torch_call(ours, tensors),
            "torch bf16": torch_call(halves["ours"], tensors),
            "transformers fp32": torch_call(theirs, tensors),
            "transformers bf16": torch_call(halves["theirs"], tensors),
        }
        with own_stream(bench):
            if compiled is None:
                attempts.skip("torch.compile bf16", load, "small sizes are not compiled")
            else:
                calls["torch.compile bf16"] = torch_call(compiled, tensors)
            if bench.device.is_gpu:
                with attempts.attempt("torch bf16 CUDA graph", load):
                    calls["torch bf16 CUDA graph"] = captured_call(halves["ours"], tensors)
            else:
                attempts.skip("torch bf16 CUDA graph", load, "a CPU has no CUDA graphs")
            working = attempts.first_calls(calls, load)
            rows += timed_rows(bench, working, shape, baseline=BASELINE, operations=arithmetic.flops(shape))
        rows += attempts.rows
    of_model = {
        "parameters": arithmetic.parameters,
        "effective_parameters": arithmetic.effective_parameters,
        "sequence_flops": arithmetic.sequence_flops,
        "architecture_sha256": architecture_hash(ours.config),
    }
    return [replace(row, facts={**row.facts, **of_model}) for row in rows]


def own_stream(bench: Bench) -> AbstractContextManager[Any]:
    """A stream of its own on a GPU, behind what was asked of the default one, on which no graph is captured."""
    if not bench.device.is_gpu:
        return nullcontext()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    return torch.cuda.stream(stream)


def on_device(model: Any, shape: Shape, bench: Bench) -> dict[str, torch.Tensor]:
    """Random tokens without padding that a model reads."""
    made = sample_tensors(model.config, list(sample_inputs(model)), shape)
    return {name: tensor.to(bench.device.kind) for name, tensor in made.items()}


def timed_rows(bench: Bench, calls: dict[str, Call], shape: Shape, *, baseline: str, operations: int) -> list[GpuRow]:
    """Rows of calls that take turns on one batch.

    Args:
        operations: of the products of the batch, as the model is defined.
    """
    timings = time_calls(
        calls, baseline=baseline, seconds=bench.sizes.seconds, description=f"time {shape}", stopwatch=bench.device.time
    )
    rows = []
    for label, cell in summarise(timings, baseline=baseline, items=shape.batch).items():
        precision = next((name for name in ("bf16", "fp16", "int8") if name in label), "fp32")
        rows.append(
            GpuRow(
                label=label,
                load=str(shape),
                unit="sequences",
                runtime=_RUNTIMES.get(label),
                cell=cell,
                of_roof=bench.share_of_roof(operations=operations, ms=cell.p50_ms, precision=precision),
                peak_device_mb=bench.device.peak_mb(calls[label]),
                facts={"flops": operations},
            )
        )
    return rows


def measure_exits(bench: Bench) -> list[GpuRow]:
    """All layers against exits by entropy, at which about half of a batch's rows leave: how many layers they run, how near the speedup is to
    what that saves, and how far the answers lie from those of the same exits without leaving."""
    layers = get_variant(bench.sizes.model).fields["num_hidden_layers"]
    places = sorted({max(1, layers * quarter // 4) for quarter in (1, 2, 3)} - {layers})
    model = bench.random_classifier(bench.sizes.model, exit_layers=places)
    with torch.no_grad():
        for exit_ in model.exits:
            exit_.classifier.weight.mul_(_SPREAD)
    rows: list[GpuRow] = []
    for shape in bench.sizes.shapes:
        if shape.batch == 1:
            continue
        tensors = on_device(model, shape, bench)
        said_JBC = _exits_of(model, tensors)
        entropy_B = normalised_entropy(said_JBC[0]).sort().values
        # Between two rows, so that no row lies at it.
        threshold = float(entropy_B[shape.batch // 2 - 1 : shape.batch // 2 + 1].mean())
        criterion = Criterion("entropy", threshold)
        left = run_with_exits(model, criterion, **tensors)
        taken_B = taken_exits(said_JBC, criterion)
        expected_BC = said_JBC[taken_B, torch.arange(shape.batch, device=taken_B.device)]
        alike_B = left.layers_B == torch.tensor([*places, layers], device=taken_B.device)[taken_B]
        mean_layers = float(left.layers_B.float().mean())
        facts = {
            "mean_layers": round(mean_layers, 2),
            "of_layers": layers,
            "rows_that_leave_alike": int(alike_B.sum()),
            "largest_difference": float(((left.logits_BC - expected_BC).abs() * alike_B[:, None]).max()),
        }
        calls: dict[str, Call] = {
            "all layers fp32": torch_call(model, tensors),
            "exits fp32, rows leave": partial(run_with_exits, model, criterion, **tensors),
        }
        timed = timed_rows(
            bench, calls, shape, baseline="all layers fp32", operations=Arithmetic(model.config).flops(shape)
        )
        whole, exits = timed
        saved = facts | {"ideal_speedup": round(layers / mean_layers, 3)}
        rows += [whole, replace(exits, facts=saved, of_roof=None)]
    return rows


@torch.no_grad()
def _exits_of(model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """What every exit and the last layer say of every row, `[J, B, C]`."""
    output = model(**tensors, output_exits=True)
    return torch.stack([*output.exit_logits, output.logits])
