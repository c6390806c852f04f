"""From a model to an ONNX graph, and the passes that make it fast."""
