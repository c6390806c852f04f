"""Static int8 with QuantizeLinear and DequantizeLinear around every weight product, calibrated on real examples.

Symmetric with zero points of 0, as TensorRT requires; OpenVINO and onnxruntime run it too.
"""

from collections.abc import Collection
from pathlib import Path

import numpy
import onnx
import onnx_ir

from hf_albert_plus.export.graph.rewrites import separate_weights
from hf_albert_plus.export.graph.tracing import quiet_loggers
from hf_albert_plus.export.precision.products import QuantisedGraph, check_counts, count_products
from hf_albert_plus.export.real_examples import Example, as_arrays


def quantise_static(
    source: Path, target: Path, *, examples: list[Example], keep_fp32: Collection[str] = ()
) -> QuantisedGraph:
    """Quantises the weight products of an fp32 graph with ranges observed on examples.

    Raises:
        QuantisationError: a weight product that is not to be kept stayed in fp32; the target is removed.
    """
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    names = count_products(onnx.load(source).graph).fp32
    target.parent.mkdir(parents=True, exist_ok=True)
    ports = onnx.load(source).graph.input
    inputs, rank = [port.name for port in ports], len(ports[0].type.tensor_type.shape.dim)
    graph_model = onnx_ir.load(source)
    separate_weights(graph_model, keep_fp32)
    with quiet_loggers("root"):
        quantize_static(
            onnx_ir.to_proto(graph_model),
            target,
            _Reader([{name: as_arrays(example, rank=rank)[name] for name in inputs} for example in examples]),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["MatMul"],
            nodes_to_quantize=[name for name in names if name not in keep_fp32],
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            extra_options={
                "ActivationSymmetric": True,
                "WeightSymmetric": True,
                # The mean of the examples' ranges, not the widest of all, as Q8BERT averages them: one outlier does not
                # spend the 8 bits of all.
                "CalibMovingAverage": True,
                "OpTypesToExcludeOutputQuantization": ["MatMul"],
            },
        )
    return check_counts(target, names, keep_fp32=keep_fp32)


class _Reader:
    """Examples in the form that onnxruntime's calibrators ask for."""

    def __init__(self, batches: list[dict[str, numpy.ndarray]]):
        self._rest = iter(batches)

    def get_next(self) -> dict[str, numpy.ndarray] | None:
        return next(self._rest, None)
