"""The engine of the graph of a classifier or of an encoder of texts for processes that only serve: onnxruntime and numpy, without torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy

from ..heads import SPAN_LOGITS, is_answerer, is_bare_encoder
from .artefacts import Runtime
from .input_checks import check_graph
from .onnx_session import LAYERS, THRESHOLD, open_graph
from .plain_config import PlainConfig, read_plain_config
from .span_answers import side_by_side

_OF_CLASSIFIERS = ("logits",)
_OF_ENCODERS = ("last_hidden_state", "pooler_output", "sentence_embedding")


class PlainOnnx:
    """A session on the graph of a classifier or of an encoder of texts, arrays in and logits or vectors out.

    Attributes:
        inputs: names of the tensors that it reads.
        outputs: names of what it gives.
        file: the graph.
    """

    def __init__(self, directory: Path, runtime: Runtime, config: PlainConfig, *, threads: int):
        """Opens the graph.

        Args:
            config: of the model.
            threads: threads of one inference.

        Raises:
            InvalidInput: it does not load, or is another model's.
        """
        self.runtime, self.config, self.file = runtime, config, directory / runtime.file
        self.session = open_graph(self.file, runtime, threads=threads)
        self.inputs, self.outputs = _names(self.session.get_inputs()), _names(self.session.get_outputs())
        known = _OF_ENCODERS if is_bare_encoder(config) else SPAN_LOGITS if is_answerer(config) else _OF_CLASSIFIERS
        check_graph(self.file, self.inputs, self.outputs, config, known=known)

    def output(self, name: str, arrays: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """One output in fp32 of int64 arrays `[batch, sequence]`, which are taken for sound: `logits` `[batch, labels]`, `[batch, sequence, labels]` of a
        tagger, or `[batch, sequence, 2]` of start and end; or `sentence_embedding` `[batch, hidden]`."""
        names = SPAN_LOGITS if name == "logits" and is_answerer(self.config) else (name,)
        values = side_by_side(self.session.run(names, {name: arrays[name] for name in self.inputs}))
        found: numpy.ndarray = values.astype(numpy.float32, copy=False)
        return found


def open_plain(directory: Path, runtime: Runtime, *, threads: int) -> PlainOnnx | None:
    """The engine of a model directory, without torch; None where a runtime or its config takes more.

    Raises:
        InvalidInput: the graph does not load, or is another model's.
    """
    config = read_plain_config(directory) if runtime.is_plain else None
    return None if config is None else PlainOnnx(directory, runtime, config, threads=threads)


def _names(nodes: list[Any]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes if node.name not in (THRESHOLD, LAYERS))
