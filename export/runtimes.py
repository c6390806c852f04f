"""The runtimes: what each is called, the file it runs, and the precision it multiplies in."""

from dataclasses import dataclass

from hf_albert_plus.errors import InvalidInput, suggest


@dataclass(frozen=True)
class Runtime:
    """One way to run a model directory.

    Attributes:
        file: what it runs, below the directory, where the Hub's tools look for it.
        label: as in a table's first column.
        engine: module and class of the engine below `hf_albert_plus.export`.
        target: the value of `albert-plus export --to` that makes its file; None for the model's own weights.
        extra: what `pip install 'hf-albert-plus[extra]'` brings it.
    """

    name: str
    file: str
    label: str
    precision: str
    engine: str
    target: str | None
    extra: str | None

    @property
    def concurrent(self) -> bool:
        """Whether one engine answers calls from several threads at once."""
        return self.engine.startswith("onnx_engine") or self.leaves_early

    def command(self, directory: object) -> str:
        """What to type for its file in a directory."""
        if self.target is None:
            return "albert-plus finetune"
        return f"albert-plus export {directory} --to {self.target} --out OUT"

    @property
    def leaves_early(self) -> bool:
        """Whether what a call costs depends on its texts."""
        return self.engine.startswith("exit_engine")


def _runtime(name: str, file: str, label: str, precision: str, engine: str, **options: str | None) -> Runtime:
    return Runtime(name, file, label, precision, engine, **{"target": name, "extra": None, **options})


RUNTIMES: dict[str, Runtime] = {
    runtime.name: runtime
    for runtime in (
        _runtime("torch", "model.safetensors", "torch fp32", "fp32", "torch_engine:TorchEngine", target=None),
        _runtime("torch-bf16", "model.safetensors", "torch bf16", "bf16", "torch_engine:TorchEngine", target=None),
        _runtime(
            "torch-compile", "model.safetensors", "torch.compile fp32", "fp32", "torch_engine:TorchEngine", target=None
        ),
        _runtime(
            "torch-qat",
            "model.safetensors",
            "torch, few bits simulated",
            "few bits",
            "torch_engine:TorchEngine",
            target=None,
        ),
        _runtime("onnx", "onnx/model.onnx", "onnx fp32", "fp32", "onnx_engine:OnnxEngine", extra="cpu"),
        _runtime("onnx-fp16", "onnx/model_fp16.onnx", "onnx fp16", "fp16", "onnx_engine:OnnxEngine", extra="cpu"),
        _runtime("onnx-bf16", "onnx/model_bf16.onnx", "onnx bf16", "bf16", "onnx_engine:OnnxEngine", extra="cpu"),
        _runtime("onnx-int8", "onnx/model_int8.onnx", "onnx int8", "int8", "onnx_engine:OnnxEngine", extra="cpu"),
        _runtime("onnx-qdq", "onnx/model_qdq.onnx", "onnx qdq int8", "int8", "onnx_engine:OnnxEngine", extra="cpu"),
        _runtime(
            "onnx-nbits", "onnx/model_nbits.onnx", "onnx few bits", "few bits", "onnx_engine:OnnxEngine", extra="cpu"
        ),
        _runtime(
            "onnx-exits", "onnx/model_exits.onnx", "onnx fp32 with exits", "fp32", "exit_engine:ExitEngine", extra="cpu"
        ),
        _runtime(
            "onnx-int8-exits",
            "onnx/model_exits_int8.onnx",
            "onnx int8 with exits",
            "int8",
            "exit_engine:ExitEngine",
            extra="cpu",
        ),
        _runtime(
            "openvino",
            "openvino/openvino_model.xml",
            "openvino fp32",
            "fp32",
            "openvino_engine:OpenVinoEngine",
            extra="openvino",
        ),
        _runtime(
            "openvino-bf16",
            "openvino/openvino_model.xml",
            "openvino bf16",
            "bf16",
            "openvino_engine:OpenVinoEngine",
            target="openvino",
            extra="openvino",
        ),
        _runtime(
            "openvino-int8",
            "openvino/openvino_model_qint8_quantized.xml",
            "openvino int8",
            "int8",
            "openvino_engine:OpenVinoEngine",
            extra="openvino",
        ),
        _runtime(
            "tensorrt",
            "tensorrt/model.plan",
            "tensorrt",
            "as its graph",
            "tensorrt_engine:TensorRtEngine",
            extra="tensorrt",
        ),
    )
}


def get_runtime(name: str) -> Runtime:
    """A runtime by name.

    Raises:
        InvalidInput: no such runtime.
    """
    if name not in RUNTIMES:
        raise InvalidInput("a target's runtime must be known", got=repr(name), repair=suggest(name, list(RUNTIMES)))
    return RUNTIMES[name]


__all__ = ["RUNTIMES", "Runtime", "get_runtime"]
