"""From model directories to ONNX graphs and the engines that run them."""

if __name__ != "hf_albert_plus.export":
    raise ImportError("import this package as hf_albert_plus.export, from an installed hf-albert-plus")
