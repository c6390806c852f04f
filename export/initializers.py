"""Storing tensors in a graph."""

import numpy
import onnx_ir


def store(model: onnx_ir.Model, name: str, array: numpy.ndarray) -> onnx_ir.Value:
    """The stored tensor of a name, made of the array where there is none yet."""
    if name not in model.graph.initializers:
        tensor = onnx_ir.tensor(numpy.array(array, order="C"), name=name)
        model.graph.initializers[name] = onnx_ir.Value(
            name=name, type=onnx_ir.TensorType(tensor.dtype), shape=onnx_ir.Shape(array.shape), const_value=tensor
        )
    return model.graph.initializers[name]


__all__ = ["store"]
