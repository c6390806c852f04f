"""What makes each artefact from the fp32 graph, verifies it, and says what came out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import onnx_ir
from transformers import PreTrainedModel

from hf_albert_plus.errors import InvalidInput, ScoreError
from hf_albert_plus.export.batching import pad_rows
from hf_albert_plus.export.calibration import Example, task_examples, text_examples
from hf_albert_plus.export.engines import Engine, weight_files
from hf_albert_plus.export.graph import applied_passes, export_graph, save_graph, with_choices
from hf_albert_plus.export.half import HalfType, check_range, emulate, load_typed, to_half
from hf_albert_plus.export.inputs import longest_input
from hf_albert_plus.export.int8 import matching_products, quantise
from hf_albert_plus.export.keep_fp32 import Kept, fewest_in_fp32, rank_by_sensitivity
from hf_albert_plus.export.parity import Case, Tensors, cases, check_parity, differences, onnx_runner, random_inputs
from hf_albert_plus.export.products import count_products
from hf_albert_plus.export.runtimes import RUNTIMES
from hf_albert_plus.export.tensorrt_operators import TENSORRT_RELEASE, unsupported

if TYPE_CHECKING:
    from hf_albert_plus.export.stage import ExportSettings, Scorer

_SENSITIVITY_EXAMPLES = 32


@dataclass
class Work:
    """One export under way: the model, its fp32 graph, and what the artefacts are checked on."""

    model: PreTrainedModel
    directory: Path
    settings: "ExportSettings"
    scorer: "Scorer | None"
    graph: Path
    cases: list[Case]
    examples: list[Example]
    tokenizer: Any
    keep_fp32: list[str]
    proto: onnx.ModelProto
    torch_score: float | None = None
    made: list[str] = field(default_factory=list)
    exit_parts: list[Path] = field(default_factory=list)

    @classmethod
    def begin(
        cls,
        model: PreTrainedModel,
        source: Path,
        directory: Path,
        settings: "ExportSettings",
        scorer: "Scorer | None",
    ) -> "Work":
        """Traces the model and reads the examples."""
        examples = _examples(source, model, settings)
        graph = directory / RUNTIMES["onnx"].file
        save_graph(export_graph(model), graph)
        proto = onnx.load(graph)
        onnx.checker.check_model(proto)
        tokenizer = _tokenizer(source, model)
        checked = cases(model, tokenizer)
        if examples:
            batch = {name: with_choices(t, model) for name, t in pad_rows(examples[:8], tokenizer).items()}
            checked.append(Case(f"{len(examples[:8])} of the examples", batch))
        keep = matching_products(graph, settings.keep_fp32)
        work = cls(model, directory, settings, scorer, graph, checked, examples, tokenizer, keep, proto)
        if scorer is not None:
            work.torch_score = scorer(work.engine("torch"))
        return work

    def engine(self, name: str) -> Engine:
        return Engine.load(self.directory, name, threads=self.settings.threads, verify=False)

    def path(self, name: str) -> Path:
        return self.directory / RUNTIMES[name].file

    def parity(self, name: str, run: Callable[[Tensors], Any] | None = None) -> dict[str, Any]:
        """Compares an artefact with the model, through the engine that users load unless told otherwise."""
        self.made.append(name)
        if run is None:
            engine = self.engine(name)
            found = differences(self.model, lambda tensors: dict(engine(**tensors)), self.cases)
        else:
            found = differences(self.model, run, self.cases)
        return check_parity(found, what=name, precision=RUNTIMES[name].precision)

    def score(self, name: str) -> float | None:
        """The score of an int8 artefact on the task, if there is one."""
        return None if self.scorer is None else self.scorer(self.engine(name))

    def drop(self, score: float | None) -> float | None:
        return None if score is None or self.torch_score is None else round(self.torch_score - score, 4)

    def loses_too_much(self, score: float | None) -> bool:
        drop, most = self.drop(score), self.settings.max_drop
        return drop is not None and most is not None and drop > most

    def score_error(self, name: str, score: float | None, *, repair: str) -> ScoreError:
        return ScoreError(
            what=name,
            score=score or 0.0,
            reference=self.torch_score or 0.0,
            max_drop=self.settings.max_drop or 0.0,
            repair=repair,
        )

    def judged(self, name: str) -> dict[str, Any]:
        """The score of a calibrated artefact for the record.

        Raises:
            ScoreError: it loses more than it may.
        """
        score = self.score(name)
        if self.loses_too_much(score):
            repair = "calibrate on more --examples, or use onnx-int8, which finds the products to keep in fp32"
            raise self.score_error(name, score, repair=repair)
        return {"score": score, "drop": self.drop(score)}

    def described(self, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        """The facts with the artefact's file and size in front."""
        files = weight_files(self.path(name))
        return {
            "file": RUNTIMES[name].file,
            "bytes": sum(path.stat().st_size for path in files),
            "precision": RUNTIMES[name].precision,
            **facts,
        }

    def close(self, *, keep_fp32_graph: bool) -> None:
        if not keep_fp32_graph:
            self.graph.unlink()
            if not any(self.graph.parent.iterdir()):
                self.graph.parent.rmdir()


def _examples(source: Path, model: PreTrainedModel, settings: "ExportSettings") -> list[Example]:
    if settings.texts is not None:
        return text_examples(source, model.config, texts=settings.texts, count=settings.examples)
    if settings.data is not None and settings.task is not None:
        return task_examples(source, model.config, data=settings.data, task=settings.task, count=settings.examples)
    return []


def _tokenizer(source: Path, model: PreTrainedModel) -> Any:
    """The directory's tokenizer; None where it has none, as a bare encoder may."""
    from hf_albert_plus.glue import load_tokenizer

    try:
        return load_tokenizer(source, model.config)
    except InvalidInput:
        return None


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
    of_model = differences(work.model, lambda tensors: dict(engine(**tensors)), inputs)
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
    "onnx-exits": lambda work: _exits(work, "onnx-exits"),
    "onnx-int8-exits": lambda work: _exits(work, "onnx-int8-exits"),
    "openvino": _openvino,
    "openvino-int8": _openvino_int8,
    "tensorrt": _tensorrt,
    "triton": _triton,
}

__all__ = ["EXPORTERS", "Work"]
