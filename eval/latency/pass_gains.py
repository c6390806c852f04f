"""The bench of graph passes, which tells what each wins on this machine."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir

from hf_albert_plus.eval.latency.bench import time_engines
from hf_albert_plus.eval.latency.comparison import Comparison, PassesRow
from hf_albert_plus.eval.latency.peers import Peer, graph_peer
from hf_albert_plus.eval.latency.timed_models import open_source
from hf_albert_plus.eval.measured_documents import Environment
from hf_albert_plus.eval.targets import Shape, check_shapes
from hf_albert_plus.export.graph.gelu import fuse_gelu
from hf_albert_plus.export.graph.tracing import (
    PASSES,
    applied_passes,
    apply_passes,
    save_graph,
    trace_graph,
)
from hf_albert_plus.export.precision.input_ranges import find_ranges
from hf_albert_plus.export.precision.int8 import quantise
from hf_albert_plus.machine import physical_cores, use_threads
from hf_albert_plus.model_inputs import longest_input
from hf_albert_plus.random_inputs import sample_inputs, whole_inputs
from hf_albert_plus.records.progress import steps

ALL = "all passes"


def bench_passes(source: str, *, shapes: list[Shape], seconds: float = 3.0, threads: int | None = None) -> Comparison:
    """Times the fp32 and int8 graphs with all passes, without each, and without any, in turns. A pass that is off by
    default (one operator for GELU, which onnxruntime makes by itself) is timed as an addition.

    Args:
        source: a model directory, or the name of a variant, which gets random weights.

    Returns:
        A row for each graph; a pass won where the graph without it has a speedup under 1 over the
        one with all.
    """
    cores = threads or physical_cores()
    use_threads(cores)
    model = open_source(source)
    check_shapes(shapes, model.config, name=source)
    extra: dict[str, Callable[[Any], int]] = {"fuse_gelu": fuse_gelu}
    choices: dict[str, tuple[list[str], list[str]]] = {ALL: (list(PASSES), [])}
    choices |= {f"without {name}": ([other for other in PASSES if other != name], []) for name in PASSES}
    choices |= {"without any": ([], []), **{f"with {name} too": (list(PASSES), [name]) for name in extra}}
    rows: list[PassesRow] = []
    with tempfile.TemporaryDirectory() as folder:
        fp32: dict[str, Peer] = {}
        int8: dict[str, Peer] = {}
        applied: dict[str, dict[str, int]] = {}
        with steps("build", total=len(choices)) as begin:
            traced = onnx_ir.to_proto(trace_graph(model)).SerializeToString()
            whole, length = Path(folder) / "whole.onnx", min(128, longest_input(model.config))
            whole.write_bytes(traced)
            random = whole_inputs(model.config, tuple(sample_inputs(model)), batch=1, length=length)
            ranges = find_ranges(whole, [{name: tensor.numpy() for name, tensor in random.items()}])
            for index, (label, (chosen, added)) in enumerate(choices.items()):
                begin(label)
                graph = onnx_ir.from_proto(onnx.load_model_from_string(traced))
                apply_passes(graph, chosen)
                counts = {name: extra[name](graph) for name in added}
                path, narrow = Path(folder) / f"{index}.onnx", Path(folder) / f"{index}_int8.onnx"
                save_graph(graph, path)
                quantise(path, narrow, ranges=ranges, passes=())
                applied[label] = {**applied_passes(onnx.load(path)), **counts}
                for peers, file in ((fp32, path), (int8, narrow)):
                    peers[label] = graph_peer(
                        file, config=model.config, inputs=tuple(sample_inputs(model)), threads=cores
                    )
        for precision, peers in (("fp32", fp32), ("int8", int8)):
            timings = time_engines(peers, shapes=shapes, baseline=ALL, seconds=seconds)
            rows += [
                PassesRow(label=f"{precision} {label}", passes=applied[label], loads=timings[label]) for label in peers
            ]
    return Comparison(
        kind="passes",
        source=source,
        baseline=ALL,
        loads=[str(shape) for shape in shapes],
        rows=rows,
        environment=Environment.here(threads=cores),
    )
