"""The parts of what a device is asked: what each does, what it needs, how long it takes, and what it is measured by."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from hf_albert_plus.eval.gpu.gpu_rows import Bench, GpuRow


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        does: what it does, in a sentence.
        libraries: modules that it imports, beside torch and transformers.
        seconds: what it takes on an H200 at full sizes, about; those of graphs are guesses.
        cuda_alone: whether there is none of it on a CPU.
        measure: its rows.
    """

    name: str
    does: str
    seconds: int
    measure: Callable[[Bench], list[GpuRow]]
    libraries: tuple[str, ...] = ()
    cuda_alone: bool = False

    def lacks(self, *, is_gpu: bool) -> str | None:
        """Why it cannot be measured here; None where it can."""
        missing = [name for name in self.libraries if importlib.util.find_spec(name) is None]
        if self.cuda_alone and not is_gpu:
            return "it needs a GPU"
        return f"{' and '.join(missing)} not installed" if missing else None


def _roof(bench: Bench) -> list[GpuRow]:
    from hf_albert_plus.eval.gpu.roof import measure_roof

    return measure_roof(bench)


def _attention(bench: Bench) -> list[GpuRow]:
    from hf_albert_plus.eval.gpu.attention_backends import compare_attention

    return compare_attention(bench)


def _inference(bench: Bench) -> list[GpuRow]:
    from hf_albert_plus.eval.gpu.inference import measure_inference

    return measure_inference(bench)


def _exits(bench: Bench) -> list[GpuRow]:
    from hf_albert_plus.eval.gpu.inference import measure_exits

    return measure_exits(bench)


def _pretraining(bench: Bench) -> list[GpuRow]:
    from hf_albert_plus.eval.gpu.pretraining import measure_pretraining

    return measure_pretraining(bench)


def _distillation(bench: Bench) -> list[GpuRow]:
    from hf_albert_plus.eval.gpu.distillation import measure_distillation

    return measure_distillation(bench)


def _onnx(bench: Bench) -> list[GpuRow]:
    from hf_albert_plus.eval.gpu.graphs import measure_onnx

    return measure_onnx(bench)


def _tensorrt(bench: Bench) -> list[GpuRow]:
    from hf_albert_plus.eval.gpu.graphs import measure_tensorrt

    return measure_tensorrt(bench)


_OF_GRAPHS = ("onnx", "onnx_ir", "onnxscript")

# In the order in which they are measured: the roof, which the others are shares of, and then what is asked first.
PARTS: tuple[Part, ...] = (
    Part("roof", "multiplies two large matrices in fp32, bf16, fp16 and int8: every share is one of these", 10, _roof),
    Part("attention", "compares sdpa, flex and flash attention with eager attention, forward and backward, padded and packed", 80, _attention),
    Part("inference", "times a classifier in torch: fp32, bf16, compiled and as a CUDA graph, beside transformers' own", 95, _inference),
    Part("exits", "times exits whose batches shrink as rows leave, and checks what they answer", 20, _exits),
    Part("pretraining", "times steps of pretraining, padded and packed, beside transformers' own", 55, _pretraining),
    Part("distillation", "times steps of distillation", 10, _distillation),
    Part(
        "onnxruntime", "times fp32, fp16 and int8 graphs in onnxruntime, on a GPU by its CUDA provider, and compares what they answer", 90,
        _onnx, libraries=(*_OF_GRAPHS, "onnxruntime"),
    ),
    Part(
        "tensorrt", "builds fp16 and int8 engines, times them, and compares what they answer and their bytes with their graphs'", 180,
        _tensorrt, libraries=(*_OF_GRAPHS, "onnxruntime", "tensorrt", "polygraphy"), cuda_alone=True,
    ),
)  # fmt: skip
