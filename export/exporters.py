"""The functions that make each artefact from the fp32 graph, verify it, and return what they measured: results whose fields are the record's
keys."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import onnx_ir

from hf_albert_plus.engines.artefacts import ARTEFACTS, Artefact
from hf_albert_plus.engines.batching import pad_rows
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.parity import Case, check_parity, differences, onnx_runner, random_cases
from hf_albert_plus.export.exits.exit_exports import write_exits
from hf_albert_plus.export.graph.tracing import applied_passes, save_graph
from hf_albert_plus.export.openvino_ir import quantise_openvino, write_openvino
from hf_albert_plus.export.precision.half import HalfType, check_range, emulate, load_typed, to_half
from hf_albert_plus.export.precision.int8 import quantise
from hf_albert_plus.export.precision.keep_fp32 import Kept, fewest_in_fp32, rank_by_sensitivity
from hf_albert_plus.export.precision.products import QuantisedGraph, WeightProducts, count_products
from hf_albert_plus.export.tensorrt_plan import TENSORRT_RELEASE, build_plan, unsupported
from hf_albert_plus.export.triton import write_repository
from hf_albert_plus.export.web_folder import write_web_folder
from hf_albert_plus.export.work import Score, Work
from hf_albert_plus.model_inputs import longest_input
from hf_albert_plus.random_inputs import with_choices

_SENSITIVITY_EXAMPLES = 32

# Frozen dataclasses, of which `facts_of` makes the record.
Results = tuple[Any, ...]


@dataclass(frozen=True)
class StaticCheck:
    """What TensorRT's parser does not list of a graph, without TensorRT."""

    tensorrt_unsupported: tuple[str, ...]
    tensorrt_operators_of: str

    @classmethod
    def of(cls, proto: onnx.ModelProto) -> "StaticCheck":
        return cls(tuple(unsupported(proto)), TENSORRT_RELEASE)


@dataclass(frozen=True)
class HalfRange:
    """How a half precision graph was computed for its comparison, and the largest value that any of its tensors took."""

    parity_computed: str
    largest_value: float


@dataclass(frozen=True)
class Passes:
    """How often each pass applied to a graph."""

    passes: dict[str, int]


@dataclass(frozen=True)
class Search:
    """How many graphs were tried for the fewest products in fp32."""

    searched_graphs: int


@dataclass(frozen=True)
class Calibration:
    """How many examples decided the ranges of a graph."""

    calibration_examples: int


@dataclass(frozen=True)
class PlanSizes:
    """What a TensorRT engine was built from, how far it lies from onnxruntime on that graph, and its size beside the graph's."""

    max_abs_difference_to_onnxruntime: float
    built_from: str
    unique_parameter_bytes: int
    bytes_over_graph_bytes: float


def _fp32(work: Work, artefact: Artefact) -> Results:
    products = WeightProducts(count_products(work.proto.graph).total)
    return work.parity(artefact), products, StaticCheck.of(work.proto)


def _half(work: Work, artefact: Artefact, *, half: HalfType) -> Results:
    largest = check_range(work.graph, half, [case.tensors for case in work.cases])
    model = load_typed(work.graph)
    counts = to_half(model, half)
    save_graph(model, work.path(artefact))
    proto = onnx.load(work.path(artefact))
    onnx.checker.check_model(proto, full_check=True)
    emulate(model)
    run = onnx_runner(onnx_ir.to_proto(model).SerializeToString())
    return (
        work.parity(artefact, run),
        HalfRange(f"each operator in fp32, its result rounded to {half}, on the CPU", largest),
        WeightProducts(count_products(proto.graph).total),
        counts,
        StaticCheck.of(proto),
    )


def _int8(work: Work, artefact: Artefact) -> Results:
    if work.scheme is not None:
        return work.as_trained(artefact)
    target = work.path(artefact)
    kept: Kept = ()
    search: Results = ()

    def quantised(kept: Kept) -> QuantisedGraph:
        return quantise(work.graph, target, ranges=work.ranges, keep_fp32=[*work.keep_fp32, *kept])

    counts = quantised(kept)
    scores: dict[Kept, Score] = {kept: work.score(artefact)}
    if work.loses_too_much(scores[kept]):
        kept = _search(work, artefact, quantised, scores)
        counts, search = quantised(kept), (Search(len(scores)),)
    proto = onnx.load(target)
    onnx.checker.check_model(proto)
    calibration = Calibration(len(work.examples))
    invariance = work.invariance(artefact)
    passes = Passes(applied_passes(proto))
    return work.parity(artefact), counts, calibration, *invariance, *search, passes, scores[kept]


def _search(work: Work, artefact: Artefact, quantised: Callable[[Kept], Any], scores: dict[Kept, Score]) -> Kept:
    """The fewest products found that, kept in fp32, hold the score; the scores of what was tried are added.

    Raises:
        ScoreError: all of them do not.
    """

    def holds(kept: Kept) -> bool:
        if kept not in scores:
            quantised(kept)
            scores[kept] = work.score(artefact)
        return not work.loses_too_much(scores[kept])

    rows = pad_rows(work.examples[:_SENSITIVITY_EXAMPLES], work.tokenizer)
    batch = {key: with_choices(tensor, work.model) for key, tensor in rows.items()}
    ranked = [
        product for product in rank_by_sensitivity(work.graph, batch, work.ranges) if product not in work.keep_fp32
    ]
    fewest = fewest_in_fp32(ranked, holds)
    if fewest is None:
        repair = "its 8-bit embedding tables cost that much: export onnx-fp16, or allow a larger --max-drop"
        raise work.score_error(artefact, scores[tuple(ranked)], repair=repair)
    return fewest


def _qdq(work: Work, artefact: Artefact) -> Results:
    path = work.path(artefact)
    if work.scheme is not None:
        return *work.as_trained(artefact), StaticCheck.of(onnx.load(path))
    counts = quantise(work.graph, path, ranges=work.ranges, form="qdq", keep_fp32=work.keep_fp32, passes=())
    proto = onnx.load(path)
    onnx.checker.check_model(proto)
    calibration = Calibration(len(work.examples))
    invariance = work.invariance(artefact)
    return work.parity(artefact), counts, calibration, *invariance, work.judged(artefact), StaticCheck.of(proto)


def _openvino(work: Work, artefact: Artefact) -> Results:
    counts = write_openvino(work.graph, work.path(artefact))
    return work.parity(artefact), counts


def _openvino_int8(work: Work, artefact: Artefact) -> Results:
    path = work.path(artefact)
    counts = quantise_openvino(work.graph, path, examples=work.examples, keep_fp32=work.keep_fp32)
    calibration = Calibration(len(work.examples))
    return work.parity(artefact), counts, calibration, *work.invariance(artefact), work.judged(artefact)


def _tensorrt(work: Work, artefact: Artefact) -> Results:
    source = ARTEFACTS[work.settings.tensorrt_from]
    graph, target = work.path(source), work.path(artefact)
    profile = work.settings.profile.fitted(longest_input(work.model.config))
    plan = build_plan(graph, target, profile=profile, timing_cache=work.settings.timing_cache)
    # A graph in half precision has half the bytes of the model.
    stored = sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in onnx.load(graph).graph.initializer)
    engine = work.engine(artefact.name)
    corners = random_cases(work.model, (profile.minimum, profile.optimum, profile.maximum))
    inputs = [case for case in [*work.cases, *corners] if profile.allows(case.tensors["input_ids"].shape)]
    compared = differences(work.reference, lambda tensors: dict(engine(**tensors)), inputs)
    parity = check_parity(compared, what=artefact.name, precision=source.precision)
    sizes = PlanSizes(
        max_abs_difference_to_onnxruntime=_to_onnxruntime(engine, graph, inputs),
        built_from=source.name,
        unique_parameter_bytes=sum(parameter.nbytes for parameter in work.model.parameters()),
        bytes_over_graph_bytes=round(target.stat().st_size / stored, 3),
    )
    return parity, plan, sizes


def _to_onnxruntime(engine: Engine, graph: Path, inputs: list[Case]) -> float:
    """The largest difference between an engine and onnxruntime on the graph that it was built from."""
    model = load_typed(graph)
    emulate(model)
    run = onnx_runner(onnx_ir.to_proto(model).SerializeToString())
    return max(
        float((engine(**case.tensors)[name] - value).abs().max())
        for case in inputs
        for name, value in run(case.tensors).items()
    )


def _triton(work: Work, artefact: Artefact) -> Results:
    repository = write_repository(
        work.directory,
        work.model,
        artefacts=work.made,
        largest_batch=work.settings.profile.maximum[0],
        padding_side="right" if work.tokenizer is None else work.tokenizer.padding_side,
    )
    return (repository,)


def _web(work: Work, artefact: Artefact) -> Results:
    return (write_web_folder(work.directory, work.model, work.tokenizer, artefacts=work.made),)


EXPORTERS: dict[str, Callable[[Work, Artefact], Results]] = {
    "onnx": _fp32,
    "onnx-fp16": partial(_half, half="fp16"),
    "onnx-bf16": partial(_half, half="bf16"),
    "onnx-int8": _int8,
    "onnx-qdq": _qdq,
    "onnx-nbits": Work.as_trained,
    "onnx-exits": write_exits,
    "onnx-int8-exits": write_exits,
    "openvino": _openvino,
    "openvino-int8": _openvino_int8,
    "tensorrt": _tensorrt,
    "triton": _triton,
    "web": _web,
}
