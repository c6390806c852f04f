"""transformers' own model: eager fp32 or bf16, compiled, or rounded as it was trained, with the attention that transformers picks (sdpa).

An encoder whose files say what its texts are read by gives their vectors besides, as its graphs do.
"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from transformers.utils import ModelOutput

from ..checkpoints import open_as_trained
from ..compression.quantisation.fake_quantisation import FakeQuantisation
from ..compression.quantisation.scheme import read_scheme
from ..errors import InvalidInput
from ..heads import is_bare_encoder
from ..machine import use_threads
from ..model_inputs import reads_token_types
from ..records.files import SCHEME
from .artefacts import Runtime
from .engine import Engine
from .pooled_encoder import SentenceEncoder
from .sentence_files import read_form
from .tensors import SentenceOutput


class TorchEngine(Engine):
    """PyTorch on the CPU. Compilation happens at the first call of each number of axes, with dynamic shapes."""

    def __init__(self, directory: Path, runtime: Runtime, *, threads: int, providers: Sequence[str] | None):
        use_threads(threads)
        self.runtime, self.directory, self.file = runtime, directory, directory / runtime.file
        model: Any = open_as_trained(directory, option="the target")
        self.model = model.to(torch.bfloat16) if runtime.precision == "bf16" else model
        if runtime.simulates_bits:
            fake_quantise(self.model, directory)
        self.config = self.model.config
        form = read_form(directory) if is_bare_encoder(self.config) else None
        if form is not None:
            self.model = SentenceEncoder(self.model, pooling=form.pooling, normalize=form.normalize).eval()
            self.outputs = tuple(field.name for field in fields(SentenceOutput))
        self.forward_model = torch.compile(self.model, dynamic=True) if runtime.compiled else self.model
        types = ("token_type_ids",) if reads_token_types(self.config) else ()
        self.inputs = ("input_ids", "attention_mask", *types)

    @torch.inference_mode()
    def run(self, tensors: dict[str, torch.Tensor]) -> ModelOutput:
        output: ModelOutput = self.forward_model(**tensors)
        if self.runtime.precision != "bf16":
            return output
        return type(output)(**{name: value.float() for name, value in output.items()})


def fake_quantise(model: Any, directory: Path) -> None:
    """Lets a model compute on the grids that its directory says it was trained on.

    Raises:
        InvalidInput: it says of none.
    """
    scheme = read_scheme(directory)
    if scheme is None:
        raise InvalidInput(
            f"torch-qat needs {directory / SCHEME}", got="no such file", repair="train for few bits: albert-plus qat"
        )
    FakeQuantisation.of(model, scheme)
