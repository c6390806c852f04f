"""One interface, several runtimes: an engine takes the model's named tensors and returns the model's output object."""

import os
from abc import ABC, abstractmethod
from pathlib import Path

import torch
from transformers import PreTrainedConfig
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.models.bert.modeling_bert import BertForPreTrainingOutput
from transformers.utils import ModelOutput

from hf_albert_plus.checkpoints import load_config, open_as_trained
from hf_albert_plus.errors import InvalidInput, suggest
from hf_albert_plus.glue import reads_token_types
from hf_albert_plus.heads import head_of
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTrainingOutput
from hf_albert_plus.records import file_sha256

# Runtime -> the file that it runs, below the model directory. Hub tools look for these names.
FILES = {"torch": "model.safetensors", "onnx": "onnx/model.onnx", "onnx-int8": "onnx/model_int8.onnx"}
RUNTIMES = tuple(FILES)
PRECISIONS = {"torch": "fp32", "onnx": "fp32", "onnx-int8": "int8"}
_OUTPUTS: dict[str, type[ModelOutput]] = {
    "Model": BaseModelOutputWithPooling,
    "ForMaskedLM": MaskedLMOutput,
    "ForMultipleChoice": MultipleChoiceModelOutput,
    "ForQuestionAnswering": QuestionAnsweringModelOutput,
    "ForSequenceClassification": SequenceClassifierOutput,
    "ForTokenClassification": TokenClassifierOutput,
}


class Engine(ABC):
    """A loaded model of any head.

    Attributes:
        config: the model's config.
        inputs: names of the tensors it reads; others are passed over.
        file: the file with its weights.
    """

    config: PreTrainedConfig
    inputs: tuple[str, ...]
    file: Path

    @abstractmethod
    def __call__(self, **tensors: torch.Tensor) -> ModelOutput:
        """Named int64 tensors `[batch, sequence]` (`[batch, choices, sequence]` for multiple choice) -> the output object
        of transformers' models with that head, in fp32."""

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
        self.model = open_as_trained(directory, option="the target")
        self.config = self.model.config
        self.file = directory / FILES[runtime]
        types = ("token_type_ids",) if reads_token_types(self.config) else ()
        self.inputs = ("input_ids", "attention_mask", *types)

    @torch.inference_mode()
    def __call__(self, **tensors: torch.Tensor) -> ModelOutput:
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
        self.outputs = tuple(node.name for node in self.session.get_outputs())
        self.output_class = _output_class(self.config, self.outputs)

    def __call__(self, **tensors: torch.Tensor) -> ModelOutput:
        missing = [name for name in self.inputs if name not in tensors]
        if missing:
            raise InvalidInput(
                f"this engine reads {', '.join(self.inputs)}",
                got=f"no {', '.join(missing)}",
                repair="pass what the tokenizer returns",
            )
        values = self.session.run(self.outputs, {name: tensors[name].numpy() for name in self.inputs})
        return self.output_class(**{k: torch.from_numpy(v) for k, v in zip(self.outputs, values, strict=True)})


def _output_class(config: PreTrainedConfig, outputs: tuple[str, ...]) -> type[ModelOutput]:
    head = head_of((config.architectures or ["no architecture in its config"])[0], option="the target")
    if head == "ForPreTraining":
        return AlbertPlusForPreTrainingOutput if "sop_logits" in outputs else BertForPreTrainingOutput
    return _OUTPUTS[head]


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
