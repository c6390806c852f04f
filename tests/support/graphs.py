"""Traced graphs of small models; tracing is slow, so each is made once."""

import copy
import json
from pathlib import Path

import onnx
import onnx_ir
import torch

from hf_albert_plus.export.graph.tracing import FP32_PASSES, ROUNDED_PASSES, apply_passes, save_graph, trace_graph
from hf_albert_plus.heads import albert_plus_class
from tests.support.small_models import randomise, small_config

_TRACED: dict[tuple[str, str], tuple[torch.nn.Module, bytes]] = {}


def traced(head: str = "ForSequenceClassification", **fields) -> tuple[torch.nn.Module, onnx_ir.Model]:
    """A small model with random weights and its traced graph without passes; tracing is slow, so it is kept for the
    tests that ask for the same."""
    key = (head, json.dumps(fields, sort_keys=True))
    if key not in _TRACED:
        model = randomise(albert_plus_class(head)(small_config(**fields)))
        _TRACED[key] = (model, onnx_ir.to_proto(trace_graph(model)).SerializeToString())
    model, graph = _TRACED[key]
    return copy.deepcopy(model), onnx_ir.from_proto(onnx.load_model_from_string(graph))


def exported_graph(path: Path, head: str = "ForSequenceClassification", **fields) -> torch.nn.Module:
    """Writes the graph of a small model with every pass that other precisions can follow, and returns the model."""
    model, graph = traced(head, **fields)
    apply_passes(graph, (*FP32_PASSES, *ROUNDED_PASSES))
    save_graph(graph, path)
    return model


def quantise_dynamically(source: Path, target: Path) -> None:
    """The usual int8 of onnxruntime, whose ranges are those of the batch."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    proto = onnx.load(source)
    del proto.graph.value_info[:]
    quantize_dynamic(proto, target, per_channel=True, weight_type=QuantType.QInt8)
