"""Vectors of texts on any engine whose graph pools, under the names that code for the library sentence-transformers calls.

That library's own onnx and openvino backends go through optimum releases that ask for older versions of transformers.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from ..errors import InvalidInput
from ..heads import is_bare_encoder
from ..machine import physical_cores
from .artefacts import Runtime
from .batch_plans import TOKEN_BUDGET
from .sentence_files import read_form, sentence_length
from .text_answers import EncoderFacts
from .text_model import TextModel
from .vector_prefixes import prefixes_of, unit_vectors

if TYPE_CHECKING:
    import torch

VECTORS = "sentence_embedding"


class TextEncoder(TextModel):
    """An engine of an encoder with its tokenizer: texts in, vectors out, as the graph of `albert-plus export --pooling` makes them, or as
    torch does where the files of a sentence encoder say what its texts are read by.

    Attributes:
        engine: what computes.
        max_seq_length: tokens of a text that are read; the rest is cut.
    """

    output, plural = VECTORS, "vectors"
    facts: EncoderFacts

    def __init__(
        self,
        directory: str | Path,
        runtime: str = "onnx-int8",
        *,
        cores: int | None = None,
        max_length: int | None = None,
        verify: bool = True,
    ):
        """Opens a model directory.

        Args:
            cores: that it may use, the physical ones by default.
            max_length: tokens of a text; None for as many as the files of a sentence encoder say, else the model's positions.
            verify: compare its files with the hashes in its record.

        Raises:
            InvalidInput: no such engine, one that gives no vectors, or one with fewer positions than `max_length`.
        """
        super().__init__(directory, runtime, cores=cores or physical_cores(), max_length=max_length, verify=verify)
        self.max_seq_length = self.facts.max_length

    def get_sentence_embedding_dimension(self) -> int:
        """Numbers of a vector."""
        return self.facts.dimension

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        token_budget: int = TOKEN_BUDGET,
    ) -> "numpy.ndarray | torch.Tensor":
        """Vectors of texts, each the same beside any others.

        Args:
            batch_size: texts a batch at most. By default the token budget alone decides.
            convert_to_numpy: give an array, else a tensor.
            convert_to_tensor: give a tensor, whatever `convert_to_numpy` says.
            normalize_embeddings: divide each by its length, where the graph does not.
            token_budget: tokens a batch, padding included; texts of similar length share one.

        Returns:
            fp32, `[texts, hidden]`, or `[hidden]` for a text alone.
        """
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        shown = "encode" if show_progress_bar else None
        vectors_BH = numpy.empty((0, self.facts.dimension), dtype=numpy.float32)
        if texts:
            answers = self.answer(texts, batch_size=batch_size, token_budget=token_budget, description=shown)
            vectors_BH = answers.values
        if normalize_embeddings:
            vectors_BH = unit_vectors(vectors_BH)
        given: numpy.ndarray = vectors_BH[0] if isinstance(sentences, str) else vectors_BH
        if convert_to_numpy and not convert_to_tensor:
            return given
        import torch

        return torch.from_numpy(given)

    # Prompts for queries and documents are none of these models'.
    encode_query = encode_document = encode

    def similarity(
        self, some: "numpy.ndarray | torch.Tensor", others: "numpy.ndarray | torch.Tensor"
    ) -> "torch.Tensor":
        """Cosines of vectors, `[n, hidden]` and `[m, hidden]` -> `[n, m]`."""
        import torch

        one, other = (torch.nn.functional.normalize(torch.as_tensor(each).float(), dim=-1) for each in (some, others))
        return one @ other.T

    def _read_facts(self, directory: Path, *, max_length: int | None) -> EncoderFacts:
        if VECTORS not in self.engine.outputs:
            raise no_vectors(directory, self.engine.runtime.name)
        config: Any = self.engine.config
        form = read_form(directory)
        return EncoderFacts(
            dimension=int(config.hidden_size),
            prefixes=prefixes_of(config),
            is_normalized=form is not None and form.normalize,
            max_length=sentence_length(config, directory, max_length=max_length),
            **self._common_facts(),
        )

    def _shape_of_one(self, tokens: int) -> tuple[int, ...]:
        return (self.facts.dimension,)

    def _counted(self) -> str:
        return f"a vector of {self.facts.dimension} numbers for a text, the hidden_size of its config"


def check_encoder(config: Any, directory: Path, runtime: Runtime) -> None:
    """Refuses a model that cannot give vectors, as far as its directory tells before anything is opened.

    Raises:
        InvalidInput: a model with a head; in torch, an encoder whose files do not say what its texts are read by; or prefixes that cannot
            be.
    """
    if not is_bare_encoder(config) or (runtime.artefact is None and read_form(directory) is None):
        raise no_vectors(directory, runtime.name)
    prefixes_of(config)


def no_vectors(directory: Path, runtime: str) -> InvalidInput:
    """What is wrong with a model that gives no vectors."""
    return InvalidInput(
        "texts are encoded by a graph that gives their vectors",
        got=f"{directory}:{runtime} without {VECTORS}",
        repair="export the encoder with them: albert-plus export DIR --pooling mean --normalize --to onnx-int8",
    )
