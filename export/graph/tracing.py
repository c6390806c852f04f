"""From a model to one ONNX graph: standard operators, dynamic batch and length, every unique tensor stored once.

Holding back what other libraries log of themselves."""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx_ir
import torch
from transformers import PreTrainedModel

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.graph.attention import fuse_attention
from hf_albert_plus.export.graph.first_token import keep_first_token
from hf_albert_plus.export.graph.masks import narrow_mask
from hf_albert_plus.export.graph.ordered_sums import add_in_order
from hf_albert_plus.export.graph.rewrites import (
    clear_metadata,
    deduplicate_initializers,
    fold_weight_transposes,
    name_axes,
    name_products,
    split_gemm,
    write_residuals_as_sum,
)
from hf_albert_plus.model_inputs import axis_names, longest_input
from hf_albert_plus.random_inputs import sample_inputs

_PROTOBUF_LIMIT = 2**31
_EXPORTERS = ("torch.onnx", "torch.onnx._internal.exporter._registration", "transformers.exporters", "onnxscript")

# Passes that make a graph faster, in the order in which they run. None changes what is computed. `albert-plus bench
# passes` times each: they are on where they were measured to win, residuals as sums and attention as one operator in int8 graphs only.
PASSES: dict[str, Callable[[onnx_ir.Model], int]] = {
    "narrow_mask": narrow_mask,
    "keep_first_token": keep_first_token,
    "write_residuals_as_sum": write_residuals_as_sum,
    "fuse_attention": fuse_attention,
}
FP32_PASSES = ("narrow_mask", "keep_first_token")
INT8_PASSES = ("write_residuals_as_sum", "fuse_attention")
# Of graphs of rounded weights in another form: operator set 23, which one attention asks for, is not known to all that read them.
ROUNDED_PASSES = ("write_residuals_as_sum",)
PASSES_KEY = "hf_albert_plus.passes"


def export_graph(model: PreTrainedModel, *, passes: Collection[str] = FP32_PASSES) -> onnx_ir.Model:
    """A model's fp32 graph, traced and made fast.

    Args:
        passes: names of the `PASSES` to run.

    Returns:
        A graph with the inputs `input_ids`, `attention_mask` and, where the model reads them, `token_type_ids`, all
        int64 `[batch, sequence]`, or `[batch, choices, sequence]` for multiple choice.
    """
    graph_model = trace_graph(model)
    apply_passes(graph_model, passes)
    return graph_model


def trace_graph(model: PreTrainedModel) -> onnx_ir.Model:
    """Traces a model through transformers' exporter and cleans the graph.

    Attention is traced in its eager form (scores, mask, softmax, context), which every runtime's fusions know. The model
    is handed back in eval mode with the attention it came with.
    """
    from transformers.exporters.configs import OnnxConfig
    from transformers.exporters.exporter_onnx import OnnxExporter

    inputs = sample_inputs(model)
    names = axis_names(model)
    longest = {"sequence": longest_input(model.config)}
    axes = {axis: torch.export.Dim(name, max=longest.get(name)) for axis, name in enumerate(names)}
    attention = model.config._attn_implementation
    model.eval()
    model.set_attn_implementation("eager")
    try:
        with quiet_exporters():
            exported: Any = OnnxExporter().export(
                model, dict(inputs), config=OnnxConfig(dynamic=True, dynamic_shapes=dict.fromkeys(inputs, axes))
            )
    finally:
        model.set_attn_implementation(attention)
        model.eval()
    # transformers 5.20 returns torch's own program, later releases wrap the graph.
    graph_model: onnx_ir.Model = exported.program if hasattr(exported, "program") else exported.model
    tidy(graph_model, names)
    return graph_model


def tidy(graph_model: onnx_ir.Model, names: Sequence[str]) -> None:
    """Cleans a traced graph: its axes named, each weight stored once, directly below its products, sums over tokens in one order."""
    name_axes(graph_model, names)
    split_gemm(graph_model)
    fold_weight_transposes(graph_model)
    add_in_order(graph_model)
    deduplicate_initializers(graph_model)
    name_products(graph_model)
    clear_metadata(graph_model)


def apply_passes(graph_model: onnx_ir.Model, passes: Collection[str] = tuple(PASSES)) -> None:
    """Runs passes, each in its place, and notes in the graph how often each applied."""
    applied = {name: apply(graph_model) for name, apply in PASSES.items() if name in passes}
    deduplicate_initializers(graph_model)
    before = json.loads(graph_model.metadata_props.get(PASSES_KEY, "{}"))
    graph_model.metadata_props[PASSES_KEY] = json.dumps({**before, **applied})


def applied_passes(proto: onnx.ModelProto) -> dict[str, int]:
    """How often each pass applied to a graph that was written here, which the file itself carries."""
    entries = {entry.key: entry.value for entry in proto.metadata_props}
    return dict(json.loads(entries.get(PASSES_KEY, "{}")))


def save_graph(graph_model: onnx_ir.Model, path: Path) -> None:
    """Writes one self-contained file.

    Raises:
        InvalidInput: the weights exceed what one protobuf file can hold.
    """
    size = sum(tensor.const_value.nbytes for tensor in graph_model.graph.initializers.values() if tensor.const_value)
    if size >= _PROTOBUF_LIMIT:
        raise InvalidInput(
            "one ONNX file holds at most 2 GB of weights", got=f"{size / 1e9:.1f} GB", repair="export a smaller model"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    proto = onnx_ir.to_proto(graph_model)
    # Traced shapes of inner values name other symbols than the inputs do now, and onnxruntime's quantiser contradicts
    # them after its own inference.
    del proto.graph.value_info[:]
    path.write_bytes(proto.SerializeToString())


@contextlib.contextmanager
def quiet_exporters() -> Iterator[None]:
    """Holds back the exporters' notes about themselves; their errors still come through as exceptions."""
    with (
        quiet_loggers(*_EXPORTERS),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def quiet_loggers(*names: str) -> Iterator[None]:
    """Lets errors alone through these loggers; `"root"` is the root logger."""
    loggers = [logging.getLogger(None if name == "root" else name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
