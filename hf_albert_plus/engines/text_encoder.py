"""Vectors of texts on any engine of a sentence encoder, under the names that code for the library sentence-transformers calls.

That library's own onnx and openvino backends go through optimum releases that ask for older versions of transformers.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch

from ..conversion.sentence_modules import SentenceModules, read_modules
from ..errors import InvalidInput
from ..heads import architecture_of
from ..machine import physical_cores
from ..model_inputs import longest_input
from ..records.progress import track
from .artefacts import get_runtime
from .batch_plans import TOKEN_BUDGET, token_batches
from .engine import Engine
from .pooled_encoder import vectors_of
from .text_answers import Text
from .text_tokens import open_text_tokens

VECTORS = "sentence_embedding"


@dataclass(frozen=True)
class TextVectors:
    """Vectors of texts, in their order.

    Attributes:
        vectors: fp32, `[texts, hidden]`.
        tokens: that each text has, after cutting.
        truncated: which were cut.
    """

    vectors: numpy.ndarray
    tokens: list[int]
    truncated: list[bool]


class TextEncoder:
    """An engine of an encoder with its tokenizer: texts in, vectors out, as the graph of `albert-plus export --pooling` makes them, or as
    the directory's `modules.json` says where the graph, or the model in torch, gives hidden states alone.

    Attributes:
        engine: what computes.
        max_seq_length: tokens of a text that are read; the rest is cut.
    """

    def __init__(
        self,
        directory: str | Path,
        runtime: str = "onnx-int8",
        *,
        cores: int | None = None,
        max_length: int | None = None,
    ):
        """Opens a model directory.

        Args:
            cores: that it may use, the physical ones by default.
            max_length: tokens of a text, None for the model's positions.

        Raises:
            InvalidInput: no such engine, one that gives no vectors, or one with fewer positions than `max_length`.
        """
        directory, shares = Path(directory), get_runtime(runtime).share(cores or physical_cores())
        self.streams = shares.streams
        self.engine = Engine.load(directory, runtime, threads=shares.threads)
        gives_vectors = VECTORS in getattr(self.engine, "outputs", ())
        self._made_by = None if gives_vectors else _modules_of(directory, self.engine)
        if not gives_vectors and self._made_by is None:
            raise InvalidInput(
                "texts are encoded by a graph that gives their vectors",
                got=f"{directory}:{runtime} without {VECTORS}",
                repair="export the encoder with them: albert-plus export DIR --pooling mean --normalize --to onnx-int8",
            )
        longest = longest_input(self.engine.config)
        if max_length is not None and not 1 <= max_length <= longest:
            raise InvalidInput(
                f"--max-length must be from 1 to the {longest} positions of {directory}",
                got=max_length,
                repair=f"use --max-length {longest}",
            )
        self.max_seq_length = max_length or longest
        self._tokens = open_text_tokens(directory, self.engine.config, longest=self.max_seq_length)

    def get_sentence_embedding_dimension(self) -> int:
        """Numbers of a vector."""
        return int(self.engine.config.hidden_size)

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
        answers = self.answer(texts, batch_size=batch_size, token_budget=token_budget, description=shown)
        vectors_BH = torch.from_numpy(answers.vectors)
        if normalize_embeddings:
            vectors_BH = torch.nn.functional.normalize(vectors_BH, dim=-1)
        given = vectors_BH[0] if isinstance(sentences, str) else vectors_BH
        return given.numpy() if convert_to_numpy and not convert_to_tensor else given

    def answer(
        self,
        texts: Sequence[Text],
        *,
        batch_size: int | None = None,
        token_budget: int = TOKEN_BUDGET,
        description: str | None = None,
    ) -> TextVectors:
        """Vectors of texts, with what was read of each.

        Args:
            batch_size: texts a batch at most.
            token_budget: tokens a batch, padding included.
            description: of the bar; None for none.
        """
        encoded = self._tokens.encode(texts, longest=self.max_seq_length)
        lengths = [len(row["input_ids"]) for row in encoded.rows]
        most = batch_size or max(1, len(texts))
        batches = [
            batch[start : start + most]
            for batch in token_batches(lengths, budget=token_budget)
            for start in range(0, len(batch), most)
        ]
        vectors = numpy.empty((len(texts), self.get_sentence_embedding_dimension()), dtype=numpy.float32)

        def compute(batch: list[int]) -> None:
            arrays = self._tokens.padding.pad([encoded.rows[place] for place in batch], self.engine.inputs)
            tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
            answer = self.engine(**tensors)
            if self._made_by is None:
                vectors[batch] = answer[VECTORS].numpy()
            else:
                states, mask = answer["last_hidden_state"], tensors["attention_mask"]
                vectors[batch] = vectors_of(states, mask, **vars(self._made_by)).numpy()

        with ThreadPoolExecutor(max_workers=self.streams) as pool:
            for _ in track(pool.map(compute, batches), total=len(batches), description=description):
                pass
        return TextVectors(vectors, lengths, encoded.truncated)

    # Prompts for queries and documents are none of these models'.
    encode_query = encode_document = encode

    def similarity(self, some: "numpy.ndarray | torch.Tensor", others: "numpy.ndarray | torch.Tensor") -> torch.Tensor:
        """Cosines of vectors, `[n, hidden]` and `[m, hidden]` -> `[n, m]`."""
        one, other = (torch.nn.functional.normalize(torch.as_tensor(each).float(), dim=-1) for each in (some, others))
        return one @ other.T


def _modules_of(directory: Path, engine: Engine) -> SentenceModules | None:
    """What makes vectors of the hidden states of an engine; None where there are none, or nothing says it."""
    if not architecture_of(engine.config).endswith("Model"):
        return None
    return read_modules(directory, option="the target")
