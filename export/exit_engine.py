"""onnxruntime on a graph with exits: rows stop where they may, and say how far they ran."""

from dataclasses import dataclass

import numpy
import torch
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import ModelOutput

from hf_albert_plus.export.exit_rules import THRESHOLD
from hf_albert_plus.export.onnx_engine import OnnxEngine


@dataclass
class ExitedOutput(SequenceClassifierOutput):
    """transformers' output with the number of layers that each row ran, `[batch]`."""

    layers: torch.Tensor | None = None


class ExitEngine(OnnxEngine):
    """A graph of `albert-plus export --to onnx-exits`.

    Attributes:
        threshold: of its criterion, for the calls to come; None for the graph's own, which its export found.
    """

    settings = (THRESHOLD,)
    facts = ("layers",)
    threshold: float | None = None

    def run(self, tensors: dict[str, torch.Tensor]) -> ModelOutput:
        feed = {name: tensor.numpy() for name, tensor in tensors.items()}
        if self.threshold is not None:
            feed[THRESHOLD] = numpy.asarray(self.threshold, dtype=numpy.float32)
        logits, layers = self.session.run(["logits", "layers"], feed)
        return ExitedOutput(logits=torch.from_numpy(logits), layers=torch.from_numpy(layers))


__all__ = ["ExitEngine", "ExitedOutput"]
