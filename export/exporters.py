"""What makes each artefact from the fp32 graph, verifies it, and says what came out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir

from hf_albert_plus.export.batching import pad_rows
from hf_albert_plus.export.engines import Engine
from hf_albert_plus.export.graph import applied_passes, save_graph, with_choices
from hf_albert_plus.export.half import HalfType, check_range, emulate, load_typed, to_half
from hf_albert_plus.export.inputs import longest_input
from hf_albert_plus.export.int8 import quantise
from hf_albert_plus.export.keep_fp32 import Kept, fewest_in_fp32, rank_by_sensitivity
from hf_albert_plus.export.parity import Case, check_parity, differences, onnx_runner, random_inputs
from hf_albert_plus.export.products import count_products
from hf_albert_plus.export.runtimes import RUNTIMES
from hf_albert_plus.export.tensorrt_operators import TENSORRT_RELEASE, unsupported
from hf_albert_plus.export.work import Work

_SENSITIVITY_EXAMPLES = 32


def _static_check(proto: onnx.ModelProto) -> dict[str, Any]:
    """What TensorRT's parser does not list, found without TensorRT."""
    return {"tensorrt_unsupported": unsupported(proto), "tensorrt_operators_of": TENSORRT_RELEASE}


def _onnx(work: Work) -> dict[str, Any]:
    return {
        **work.parity("onnx"),
        "weight_products": count_products(work.proto.graph).total,
        **_static_check(work.proto),
    }


def _half(work: Work, half: HalfType) -> dict[str, Any]:
    name = f"onnx-{half}"
    largest = check_range(work.graph, half, [case.tensors for case in work.cases])
    model = load_typed(work.graph)
    counts = to_half(model, half)
    save_graph(model, work.path(name))
    proto = onnx.load(work.path(name))
    onnx.checker.check_model(proto, full_check=True)
    emulate(model)
    run = onnx_runner(onnx_ir.to_proto(model).SerializeToString())
    return {
        **work.parity(name, run),
        "parity_computed": f"each operator in fp32, its result rounded to {half}, on the CPU",
        "largest_value": largest,
        "weight_products": count_products(proto.graph).total,
        **counts,
        **_static_check(proto),
    }


def _int8(work: Work) -> dict[str, Any]:
    name = "onnx-int8"
    if work.scheme is not None:
        return work.as_trained(name, "int8")
    target = work.path(name)
    kept: Kept = ()

    def quantised(kept: Kept) -> dict[str, Any]:
        return quantise(work.graph, target, keep_fp32=[*work.keep_fp32, *kept])

    counts = quantised(kept)
    scores: dict[Kept, float | None] = {kept: work.score(name)}
    if work.loses_too_much(scores[kept]):
        kept = _search(work, quantised, scores)
        counts = {**quantised(kept), "searched_graphs": len(scores)}
    proto = onnx.load(target)
    onnx.checker.check_model(proto)
    score = {"score": scores[kept], "drop": work.drop(scores[kept])}
    return {**work.parity(name), **counts, "passes": applied_passes(proto), **score}


def _search(work: Work, quantised: Callable[[Kept], Any], scores: dict[Kept, float | None]) -> Kept:
    """The fewest products found that, kept in fp32, hold the score; the scores of what was tried are added.

    Raises:
        ScoreError: all of them do not.
    """

    def holds(kept: Kept) -> bool:
        if kept not in scores:
            quantised(kept)
            scores[kept] = work.score("onnx-int8")
        return not work.loses_too_much(scores[kept])

    rows = pad_rows(work.examples[:_SENSITIVITY_EXAMPLES], work.tokenizer)
    batch = {key: with_choices(tensor, work.model) for key, tensor in rows.items()}
    ranked = [product for product in rank_by_sensitivity(work.graph, batch) if product not in work.keep_fp32]
    found = fewest_in_fp32(ranked, holds)
    if found is None:
        repair = "its 8-bit embedding tables cost that much: export onnx-fp16, or allow a larger --max-drop"
        raise work.score_error("onnx-int8", scores[tuple(ranked)], repair=repair)
    return found


def _qdq(work: Work) -> dict[str, Any]:
    from hf_albert_plus.export.qdq import quantise_static

    if work.scheme is not None:
        facts = work.as_trained("onnx-qdq", "qdq")
        return {**facts, **_static_check(onnx.load(work.path("onnx-qdq")))}
    counts = quantise_static(work.graph, work.path("onnx-qdq"), examples=work.examples, keep_fp32=work.keep_fp32)
    proto = onnx.load(work.path("onnx-qdq"))
    onnx.checker.check_model(proto)
    return {**work.parity("onnx-qdq"), **counts, **work.judged("onnx-qdq"), **_static_check(proto)}


def _openvino(work: Work) -> dict[str, Any]:
    from hf_albert_plus.export.openvino_ir import write_openvino

    counts = write_openvino(work.graph, work.path("openvino"))
    return {**work.parity("openvino"), **counts}


def _openvino_int8(work: Work) -> dict[str, Any]:
    from hf_albert_plus.export.openvino_ir import quantise_openvino

    counts = quantise_openvino(work.graph, work.path("openvino-int8"), examples=work.examples, keep_fp32=work.keep_fp32)
    return {**work.parity("openvino-int8"), **counts, **work.judged("openvino-int8")}


def _tensorrt(work: Work) -> dict[str, Any]:
    from hf_albert_plus.export.tensorrt_plan import build_plan

    graph = work.path(work.settings.tensorrt_from)
    profile = work.settings.profile.fitted(longest_input(work.model.config))
    facts = build_plan(graph, work.path("tensorrt"), profile=profile, timing_cache=work.settings.timing_cache)
    unique = sum(parameter.nbytes for parameter in work.model.parameters())
    # A graph in half precision has half the bytes of the model.
    stored = sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in onnx.load(graph).graph.initializer)
    engine = work.engine("tensorrt")
    corners = [
        Case(
            f"{batch} random sequences of up to {length} tokens", random_inputs(work.model, batch=batch, length=length)
        )
        for batch, length in dict.fromkeys((profile.minimum, profile.optimum, profile.maximum))
    ]
    inputs = [case for case in [*work.cases, *corners] if profile.allows(case.tensors["input_ids"].shape)]
    precision = RUNTIMES[work.settings.tensorrt_from].precision
    of_model = differences(work.reference, lambda tensors: dict(engine(**tensors)), inputs)
    work.made.append("tensorrt")
    return {
        **check_parity(of_model, what="tensorrt", precision=precision),
        "max_abs_difference_to_onnxruntime": _to_onnxruntime(engine, graph, inputs),
        **facts,
        "built_from": work.settings.tensorrt_from,
        "unique_parameter_bytes": unique,
        "bytes_over_graph_bytes": round(work.path("tensorrt").stat().st_size / stored, 3),
    }


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


def _triton(work: Work) -> dict[str, Any]:
    from hf_albert_plus.export.triton import write_repository

    side = "right" if work.tokenizer is None else work.tokenizer.padding_side
    return write_repository(
        work.directory,
        work.model,
        runtimes=work.made,
        largest_batch=work.settings.profile.maximum[0],
        padding_side=side,
    )


def _exits(work: Work, name: str) -> dict[str, Any]:
    from hf_albert_plus.export.exit_exports import write_exits

    return write_exits(work, name)


EXPORTERS: dict[str, Callable[[Work], dict[str, Any]]] = {
    "onnx": _onnx,
    "onnx-fp16": lambda work: _half(work, "fp16"),
    "onnx-bf16": lambda work: _half(work, "bf16"),
    "onnx-int8": _int8,
    "onnx-qdq": _qdq,
    "onnx-nbits": lambda work: work.as_trained("onnx-nbits", "nbits"),
    "onnx-exits": lambda work: _exits(work, "onnx-exits"),
    "onnx-int8-exits": lambda work: _exits(work, "onnx-int8-exits"),
    "openvino": _openvino,
    "openvino-int8": _openvino_int8,
    "tensorrt": _tensorrt,
    "triton": _triton,
}

__all__ = ["EXPORTERS"]
