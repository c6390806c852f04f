"""One interface, several runtimes: an engine takes the model's named tensors and returns the model's output object."""

import os
from abc import ABC, abstractmethod
from pathlib import Path

import torch
from transformers import PreTrainedConfig
from transformers.modeling_outputs import SequenceClassifierOutput

from hf_albert_plus.checkpoints import load_classifier, load_config
from hf_albert_plus.errors import InvalidInput, suggest
from hf_albert_plus.glue import reads_token_types
from hf_albert_plus.records import file_sha256

# Runtime -> the file that it runs, below the model directory. Hub tools look for these names.
FILES = {"torch": "model.safetensors", "onnx": "onnx/model.onnx", "onnx-int8": "onnx/model_int8.onnx"}
RUNTIMES = tuple(FILES)
PRECISIONS = {"torch": "fp32", "onnx": "fp32", "onnx-int8": "int8"}


class Engine(ABC):
    """A loaded classifier.

    Attributes:
        config: the model's config.
        inputs: names of the tensors it reads; others are passed over.
        file: the file with its weights.
    """

    config: PreTrainedConfig
    inputs: tuple[str, ...]
    file: Path

    @abstractmethod
    def __call__(self, **tensors: torch.Tensor) -> SequenceClassifierOutput:
        """Named int64 tensors `[batch, sequence]` -> an output whose `logits` are fp32 `[batch, num_labels]`."""

    @staticmethod
    def load(directory: str | Path, runtime: str = "torch", *, threads: int | None = None) -> "Engine":
        """Opens a model directory on a runtime.

        Args:
            threads: threads of one inference; the number of physical cores by default.

        Raises:
            InvalidInput: no such runtime, or the directory lacks its file.
        """
        engine_file(directory, runtime)
        return _ENGINES[runtime](Path(directory), runtime, threads or physical_cores())


def engine_file(directory: str | Path, runtime: str) -> Path:
    """The file that a runtime runs in a model directory, there and readable.

    Raises:
        InvalidInput: no such runtime, directory or file.
    """
    if runtime not in FILES:
        raise InvalidInput(
            "a target's runtime must be known", got=repr(runtime), repair=suggest(runtime, list(RUNTIMES))
        )
    if not Path(directory).is_dir():
        raise InvalidInput("a target must be a model directory", got=str(directory), repair="check the path")
    path = Path(directory) / FILES[runtime]
    if not path.is_file():
        make = (
            "albert-plus finetune" if runtime == "torch" else f"albert-plus export {directory} --to {runtime} --out OUT"
        )
        raise InvalidInput(
            f"the target {directory}:{runtime} needs {path}", got="no such file", repair=f"make it: {make}"
        )
    return path


def physical_cores() -> int:
    """Physical cores this process may run on."""
    import psutil

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or 1, allowed))


class TorchEngine(Engine):
    """transformers' own model, eager fp32, with the attention that transformers picks (sdpa)."""

    def __init__(self, directory: Path, runtime: str, threads: int):
        torch.set_num_threads(threads)
        self.model = load_classifier(directory, option="the target").eval()
        self.config = self.model.config
        self.file = directory / FILES[runtime]
        types = ("token_type_ids",) if reads_token_types(self.config) else ()
        self.inputs = ("input_ids", "attention_mask", *types)

    @torch.inference_mode()
    def __call__(self, **tensors: torch.Tensor) -> SequenceClassifierOutput:
        return self.model(**{name: tensors[name] for name in self.inputs if name in tensors})


class OnnxEngine(Engine):
    """onnxruntime on the CPU, fp32 or int8."""

    def __init__(self, directory: Path, runtime: str, threads: int):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.file = directory / FILES[runtime]
        try:
            self.session = onnxruntime.InferenceSession(
                str(self.file), sess_options=options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime raises a class of its own for each failure, none of them public
            raise InvalidInput(
                "an ONNX file must load in onnxruntime", got=f"{self.file} ({error})", repair="export it again"
            ) from error
        self.config = load_config(directory, option="the target")
        self.inputs = tuple(node.name for node in self.session.get_inputs())

    def __call__(self, **tensors: torch.Tensor) -> SequenceClassifierOutput:
        missing = [name for name in self.inputs if name not in tensors]
        if missing:
            raise InvalidInput(
                f"this engine reads {', '.join(self.inputs)}",
                got=f"no {', '.join(missing)}",
                repair="pass what the tokenizer returns",
            )
        (logits,) = self.session.run(["logits"], {name: tensors[name].numpy() for name in self.inputs})
        return SequenceClassifierOutput(logits=torch.from_numpy(logits))


_ENGINES: dict[str, type] = {"torch": TorchEngine, "onnx": OnnxEngine, "onnx-int8": OnnxEngine}


def model_hash(directory: str | Path, runtime: str) -> str:
    """SHA-256 of the file that a target runs: what joins its scores with its timings."""
    return file_sha256(engine_file(directory, runtime))


__all__ = [
    "FILES",
    "PRECISIONS",
    "RUNTIMES",
    "Engine",
    "OnnxEngine",
    "TorchEngine",
    "engine_file",
    "model_hash",
    "physical_cores",
]
