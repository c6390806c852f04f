"""OpenVINO's intermediate representation, fp32, and int8 by NNCF."""

import contextlib
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from hf_albert_plus.errors import QuantisationError, need
from hf_albert_plus.export.graph.tracing import quiet_loggers
from hf_albert_plus.export.precision.products import QuantisedProducts, WeightProducts
from hf_albert_plus.export.real_examples import Example, as_arrays

_PRODUCT = "MatMul"
_THROUGH = {"Convert", "Multiply", "Reshape", "Subtract", "Transpose", "FakeQuantize"}


def write_openvino(source: Path, target: Path) -> WeightProducts:
    """Converts an fp32 ONNX graph, its weights kept in fp32; the runtime narrows them where that is faster."""
    openvino = need("openvino", extra="openvino")
    model = openvino.convert_model(source)
    _save(openvino, model, target)
    products, _ = count_openvino_products(model)
    return WeightProducts(len(products))


def quantise_openvino(
    source: Path, target: Path, *, examples: list[Example], keep_fp32: Collection[str] = ()
) -> QuantisedProducts:
    """Quantises an fp32 ONNX graph for OpenVINO with NNCF, activations calibrated on examples.

    Args:
        keep_fp32: names of products to leave as they are.

    Raises:
        QuantisationError: another weight product stayed in floating point.
    """
    openvino = need("openvino", extra="openvino")
    with _quiet():
        nncf = need("nncf", extra="openvino")
        model = openvino.convert_model(source)
        inputs = [port.get_any_name() for port in model.inputs]
        rank = len(model.inputs[0].get_partial_shape())
        quantised = nncf.quantize(
            model,
            nncf.Dataset([{name: as_arrays(example, rank=rank)[name] for name in inputs} for example in examples]),
            model_type=nncf.ModelType.TRANSFORMER,
            preset=nncf.QuantizationPreset.MIXED,
            subset_size=len(examples),
            ignored_scope=nncf.IgnoredScope(names=list(keep_fp32)) if keep_fp32 else None,
            # SmoothQuant folds the scales of each layer's activations into its weights: a shared block would be stored
            # once a layer.
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(convolution=-1, matmul=-1)
            ),
        )
    products, floating = count_openvino_products(quantised)
    missing = [name for name in floating if name not in keep_fp32]
    if missing:
        raise QuantisationError(quantised=len(products) - len(floating), total=len(products), missing=missing)
    _save(openvino, quantised, target)
    return QuantisedProducts(
        weight_products=len(products),
        quantised_products=len(products) - len(floating),
        kept_fp32=tuple(sorted(floating)),
    )


def _save(openvino: Any, model: Any, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    openvino.save_model(model, target, compress_to_fp16=False)


def count_openvino_products(model: Any) -> tuple[list[str], list[str]]:
    """Names of the products with a stored weight, and of those whose weight is stored in floating point."""
    names, floating = [], []
    for node in model.get_ordered_ops():
        if node.get_type_name() != _PRODUCT:
            continue
        kinds = [kind for port in (0, 1) if (kind := _stored_type(node.input_value(port).get_node())) is not None]
        if kinds:
            names.append(node.get_friendly_name())
            if not any(kind in {"i8", "u8"} for kind in kinds):
                floating.append(node.get_friendly_name())
    return names, floating


def _stored_type(node: Any) -> str | None:
    """The element type of the matrix that a value is made of, None if it is computed."""
    while node.get_type_name() in _THROUGH:
        node = node.input_value(0).get_node()
    if node.get_type_name() != "Constant" or len(node.get_output_shape(0)) < 2:
        return None
    return str(node.get_element_type().get_type_name())


@contextlib.contextmanager
def _quiet() -> Any:
    """Holds back NNCF's notes and sends its progress bars, which it prints, to where bars belong."""
    with quiet_loggers("nncf"), contextlib.redirect_stdout(sys.stderr):
        yield
