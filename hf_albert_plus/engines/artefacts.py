"""The artefacts that an export makes, and the runtimes that run them: each is one row of a table, and nothing else says what it is.

The module imports no library: the command line reads it for its help.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from ..errors import InvalidInput, suggest

# The file of a model's own weights.
WEIGHTS = "model.safetensors"

TrainedForm = Literal["int8", "qdq", "nbits"]


@dataclass(frozen=True)
class EngineClass:
    """An engine's class, by name, so that its library is imported when it is opened.

    Attributes:
        module: module of the class.
        concurrent: whether one engine answers calls from several threads at once.
        leaves_early: whether the cost of a call depends on its texts.
        is_plain: whether a graph of a classifier runs without torch as well.
    """

    module: str
    name: str
    concurrent: bool = False
    leaves_early: bool = False
    is_plain: bool = False


_TORCH = EngineClass("hf_albert_plus.engines.torch_engine", "TorchEngine")
_ONNX = EngineClass("hf_albert_plus.engines.onnx_engine", "OnnxEngine", concurrent=True, is_plain=True)
_EXITS = EngineClass(
    "hf_albert_plus.engines.onnx_engine", "ExitEngine", concurrent=True, leaves_early=True, is_plain=True
)
_OPENVINO = EngineClass("hf_albert_plus.engines.openvino_engine", "OpenVinoEngine")
_TENSORRT = EngineClass("hf_albert_plus.engines.tensorrt_engine", "TensorRtEngine")


@dataclass(frozen=True)
class Artefact:
    """One thing that `albert-plus export --to NAME` makes.

    Attributes:
        file: its file below the model directory, where the Hub's tools look for it; None for a folder of several.
        label: how the first column of a table calls it.
        precision: what it multiplies in.
        engine: what runs it; None where only a server does.
        extra: `pip install 'hf-albert-plus[extra]'` brings its libraries.
        libraries: modules that making it imports last of all, and that are looked for first.
        calibrated: whether real examples decide its ranges.
        trained_form: the form in which it holds the roundings of a model that was trained for few bits; None where it would leave them
            out.
        needs_training: whether it takes such a model alone.
        has_exits: whether rows leave it early.
        is_typed_graph: whether it is a graph that says the type of every value, as TensorRT reads it.
        for_gpu: whether it runs well on a GPU alone.
        made_of_others: whether it is made of other artefacts, not of the model.
        triton_backend: the backend of Triton that serves it; None where none does.
        dtypes: what transformers.js calls it; none where it does not run it.
    """

    name: str
    file: str | None
    label: str
    precision: str
    engine: EngineClass | None
    extra: str | None = None
    libraries: tuple[str, ...] = ()
    calibrated: bool = False
    trained_form: TrainedForm | None = None
    needs_training: bool = False
    has_exits: bool = False
    is_typed_graph: bool = False
    for_gpu: bool = False
    made_of_others: bool = False
    triton_backend: Literal["onnxruntime", "tensorrt"] | None = None
    dtypes: tuple[str, ...] = ()


# A graph that onnxruntime runs, and serves in Triton.
_onnx = partial(Artefact, engine=_ONNX, extra="cpu", triton_backend="onnxruntime")
_exits = partial(_onnx, engine=_EXITS, has_exits=True)

# In the order in which they are made.
ARTEFACTS: dict[str, Artefact] = {
    artefact.name: artefact
    for artefact in (
        _onnx("onnx", "onnx/model.onnx", "onnx fp32", "fp32", dtypes=("fp32",)),
        _onnx(
            "onnx-fp16", "onnx/model_fp16.onnx", "onnx fp16", "fp16", is_typed_graph=True, for_gpu=True, dtypes=("fp16",)
        ),
        _onnx("onnx-bf16", "onnx/model_bf16.onnx", "onnx bf16", "bf16", is_typed_graph=True, for_gpu=True),
        _onnx("onnx-int8", "onnx/model_int8.onnx", "onnx int8", "int8", trained_form="int8", dtypes=("q8", "int8")),
        _onnx(
            "onnx-qdq", "onnx/model_qdq.onnx", "onnx qdq int8", "int8",
            calibrated=True, trained_form="qdq", is_typed_graph=True,
        ),
        _onnx(
            "onnx-nbits", "onnx/model_nbits.onnx", "onnx few bits", "few bits",
            trained_form="nbits", needs_training=True, dtypes=("q4",),
        ),
        _exits("onnx-exits", "onnx/model_exits.onnx", "onnx fp32 with exits", "fp32"),
        _exits("onnx-int8-exits", "onnx/model_exits_int8.onnx", "onnx int8 with exits", "int8"),
        Artefact(
            "openvino", "openvino/openvino_model.xml", "openvino fp32", "fp32", _OPENVINO,
            extra="openvino", libraries=("openvino",),
        ),
        Artefact(
            "openvino-int8", "openvino/openvino_model_qint8_quantized.xml", "openvino int8", "int8", _OPENVINO,
            extra="openvino", libraries=("openvino", "nncf"), calibrated=True,
        ),
        Artefact(
            "tensorrt", "tensorrt/model.plan", "tensorrt", "as its graph", _TENSORRT,
            extra="tensorrt", for_gpu=True, made_of_others=True, triton_backend="tensorrt",
        ),
        Artefact(
            "triton", None, "triton", "as its artefacts", None,
            extra="triton", libraries=("tritonclient.grpc.model_config_pb2",), made_of_others=True,
        ),
        Artefact("web", None, "web", "as its artefacts", None, extra="cpu", made_of_others=True),
    )
}  # fmt: skip


# The graphs that TensorRT builds from.
TYPED_GRAPHS = [name for name, artefact in ARTEFACTS.items() if artefact.is_typed_graph]


@dataclass(frozen=True)
class CoreShares:
    """How an engine uses cores.

    Attributes:
        threads: threads of one inference.
        streams: batches that are computed at a time.
    """

    threads: int
    streams: int


@dataclass(frozen=True)
class Runtime:
    """One way to run a model directory: an artefact or the model's own weights, on an engine.

    Attributes:
        label: how the first column of a table calls it.
        precision: what it multiplies in.
        artefact: what it runs; None for the model's own weights.
        compiled: whether torch compiles the model.
        simulates_bits: whether the model computes on the grids that it was trained on.
    """

    name: str
    label: str
    precision: str
    engine: EngineClass
    artefact: Artefact | None = None
    compiled: bool = False
    simulates_bits: bool = False

    @property
    def file(self) -> str:
        """What it runs, below the directory."""
        return WEIGHTS if self.artefact is None or self.artefact.file is None else self.artefact.file

    @property
    def target(self) -> str | None:
        """The value of `albert-plus export --to` that makes its file; None for the model's own weights."""
        return None if self.artefact is None else self.artefact.name

    @property
    def concurrent(self) -> bool:
        """Whether one engine answers calls from several threads at once."""
        return self.engine.concurrent

    @property
    def is_plain(self) -> bool:
        """Whether a classifier's graph runs on it without torch as well."""
        return self.engine.is_plain

    @property
    def leaves_early(self) -> bool:
        """Whether the cost of a call depends on its texts."""
        return self.engine.leaves_early

    @property
    def as_trained(self) -> bool:
        """Whether its file holds the roundings of a model that was trained for few bits."""
        return self.artefact is not None and self.artefact.trained_form is not None

    def share(self, cores: int) -> "CoreShares":
        """How an engine of this runtime uses some cores best: a batch on each of them where it can, else all of them on one batch."""
        if self.concurrent:
            return CoreShares(threads=1, streams=cores)
        return CoreShares(threads=cores, streams=1)

    def command(self, directory: object) -> str:
        """What to type for its file in a directory."""
        if self.target is None:
            return "albert-plus finetune"
        return f"albert-plus export {directory} --to {self.target} --out OUT"


# Beside the artefacts, each of which is run under its own name.
_OTHER_WAYS = (
    Runtime("torch", "torch fp32", "fp32", _TORCH),
    Runtime("torch-bf16", "torch bf16", "bf16", _TORCH),
    Runtime("torch-compile", "torch.compile fp32", "fp32", _TORCH, compiled=True),
    Runtime("torch-qat", "torch, few bits simulated", "few bits", _TORCH, simulates_bits=True),
    Runtime("openvino-bf16", "openvino bf16", "bf16", _OPENVINO, ARTEFACTS["openvino"]),
)


def _runtimes() -> list[Runtime]:
    """The model's own weights first, then each artefact under its own name and in the other ways that it is run."""
    runtimes = [way for way in _OTHER_WAYS if way.artefact is None]
    for artefact in ARTEFACTS.values():
        if artefact.engine is not None:
            runtimes.append(Runtime(artefact.name, artefact.label, artefact.precision, artefact.engine, artefact))
        runtimes += [way for way in _OTHER_WAYS if way.artefact is artefact]
    return runtimes


RUNTIMES: dict[str, Runtime] = {runtime.name: runtime for runtime in _runtimes()}


def get_runtime(name: str) -> Runtime:
    """A runtime by name.

    Raises:
        InvalidInput: no such runtime.
    """
    if name not in RUNTIMES:
        raise InvalidInput("a target's runtime must be known", got=repr(name), repair=suggest(name, list(RUNTIMES)))
    return RUNTIMES[name]


def directory_and_runtime(text: str) -> tuple[str, str | None]:
    """`DIR:RUNTIME` -> DIR and RUNTIME; None where there is none. A path may hold colons itself."""
    head, colon, tail = text.rpartition(":")
    is_path = not colon or not head or Path(text).is_dir() or "/" in tail or "\\" in tail
    return (text, None) if is_path else (head, tail)


def names_in_words(names: list[str]) -> str:
    """`["a", "b", "c"]` -> `"a, b or c"`."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
