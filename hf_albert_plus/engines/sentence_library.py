"""Exports inside the library sentence-transformers: a module for its `SentenceTransformer`, and its `CrossEncoder` on a graph.

The library's own onnx and openvino backends go through releases of optimum that ask for older versions of transformers. Importing this file needs
sentence-transformers 6; nothing else in the package imports it.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from ..errors import InvalidInput, need
from ..heads import architecture_of, is_bare_encoder, is_classifier
from ..model_inputs import length_taken
from ..tasks.rows import load_tokenizer
from .artefacts import get_runtime
from .engine import Engine
from .runtime_files import weight_files
from .sentence_files import sentence_length
from .text_encoder import VECTORS, no_vectors

_MODULES: Any = need("sentence_transformers.base.modules", extra="sentences")
_CROSS_ENCODERS: Any = need("sentence_transformers.cross_encoder", extra="sentences")
# The outputs of a graph -> what the library calls them.
_FEATURES = {"last_hidden_state": "token_embeddings", VECTORS: VECTORS, "logits": "scores"}


class EngineModule(_MODULES.InputModule):
    """The first module of a `SentenceTransformer` or a `CrossEncoder`: the tokenizer of a model directory and one of its exports.

    Prompts, precision, `truncate_dim`, similarities and evaluators are the library's own, as behind any other module.

    Attributes:
        engine: what computes.
        tokenizer: the directory's.
        max_seq_length: tokens of a text, or of a pair, that are read; the rest is cut.

    Example:
        >>> SentenceTransformer(modules=[EngineModule("work/vectors", "onnx-int8")], device="cpu").encode(["a text"])
    """

    config_file_name = "engine.json"
    config_keys: ClassVar[list[str]] = ["runtime", "max_seq_length"]
    tokenizer: Any

    def __init__(
        self,
        directory: str | Path,
        runtime: str = "onnx-int8",
        *,
        max_seq_length: int | None = None,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
    ):
        """Opens an export.

        Args:
            max_seq_length: tokens of a text; None for as many as the files of a sentence encoder say, else the model's positions.
            threads: threads of one inference; the number of physical cores by default.
            providers: as `Engine.load` has them.

        Raises:
            InvalidInput: no such export, the model's own weights, a model that gives neither vectors nor labels of texts, or one with fewer
                positions than `max_seq_length`.
        """
        super().__init__()
        if get_runtime(runtime).artefact is None:
            raise InvalidInput(
                "this module runs exports",
                got=f"the runtime {runtime}",
                repair=f"open the model itself: SentenceTransformer({str(directory)!r}) or CrossEncoder({str(directory)!r})",
            )
        self.directory, self.runtime, self.threads, self.providers = Path(directory), runtime, threads, providers
        self.engine = Engine.load(directory, runtime, threads=threads, providers=providers)
        config: Any = self.engine.config
        self.is_encoder = is_bare_encoder(config)
        if not self.is_encoder and not is_classifier(config):
            raise InvalidInput(
                "this module runs encoders and classifiers of texts",
                got=f"{architecture_of(config)} in {directory}",
                repair="take Engine.load, in a pipeline or alone",
            )
        length_of = sentence_length if self.is_encoder else length_taken
        self.max_seq_length = length_of(config, self.directory, max_length=max_seq_length)
        self.tokenizer = load_tokenizer(self.directory, config)

    def get_embedding_dimension(self) -> int:
        """Numbers of a vector."""
        return int(self.engine.config.hidden_size)

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **_: Any) -> dict[str, torch.Tensor]:
        """Texts, or pairs of them, as tensors of one length. A prompt is put before a text, or before the first of a pair."""
        texts = [text if isinstance(text, str) else tuple(text) for text in inputs]
        if prompt:
            texts = [prompt + text if isinstance(text, str) else (prompt + text[0], *text[1:]) for text in texts]
        encoded = self.tokenizer(
            texts, padding=True, truncation="longest_first", max_length=self.max_seq_length, return_tensors="pt"
        )
        return dict(encoded)

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """The features of a batch with what the graph gives for it, on the CPU."""
        given = {name: features[name].cpu() for name in self.engine.inputs}
        found = {_FEATURES[name]: value for name, value in self.engine(**given).items() if name in _FEATURES}
        return {**features, **found}

    def on_model_ready(self, model: Any) -> None:
        """Refuses a graph that gives what this model has no use for.

        Raises:
            InvalidInput: vectors for a `CrossEncoder`, or none where no other module makes them.
        """
        if isinstance(model, _CROSS_ENCODERS.CrossEncoder):
            if self.is_encoder:
                raise InvalidInput(
                    "a CrossEncoder scores pairs by a classifier",
                    got=f"an encoder in {self.directory}",
                    repair="fine-tune it on pairs, or open it with SentenceTransformer(modules=[…])",
                )
        elif VECTORS not in self.engine.outputs and (len(model) == 1 or not self.is_encoder):
            raise no_vectors(self.directory, self.runtime)

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """Writes what `load` opens: config, tokenizer and graph, without the weights in torch and the other exports."""
        target = Path(output_path)
        for source in (self.directory / "config.json", *weight_files(self.engine.file)):
            copy = target / source.relative_to(self.directory)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
        self.save_tokenizer(output_path)
        self.save_config(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> "EngineModule":
        """Opens what `save` wrote, in a directory or on the Hub."""
        hub = {
            name: options[name] for name in ("token", "cache_folder", "revision", "local_files_only") if name in options
        }
        said = cls.load_config(model_name_or_path, subfolder=subfolder, **hub)
        directory = cls.load_dir_path(model_name_or_path, subfolder=subfolder, **hub)
        return cls(str(directory), **said)

    def __reduce__(self) -> Any:
        """A copy in another process opens the files itself."""
        return _open_again, (str(self.directory), self.runtime, self.max_seq_length, self.threads, self.providers)


def _open_again(directory: str, runtime: str, length: int, threads: int | None, providers: Any) -> EngineModule:
    return EngineModule(directory, runtime, max_seq_length=length, threads=threads, providers=providers)


class EngineCrossEncoder(_CROSS_ENCODERS.CrossEncoder):
    """The library's `CrossEncoder` on an export of a classifier of pairs: `predict` and `rank` give what `CrossEncoder(DIR)` gives in torch.

    Example:
        >>> EngineCrossEncoder("work/pairs", "onnx-int8").rank("a question", ["an answer", "another"])
    """

    def __init__(
        self,
        directory: str | Path,
        runtime: str = "onnx-int8",
        *,
        max_length: int | None = None,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
        **options: Any,
    ):
        """Opens an export.

        Args:
            max_length, threads, providers: as `EngineModule` has them.
            options: the library's own: `activation_fn`, `prompts`, `default_prompt_name`.

        Raises:
            InvalidInput: as `EngineModule`; or an encoder without a classifier.
        """
        module = EngineModule(directory, runtime, max_seq_length=max_length, threads=threads, providers=providers)
        super().__init__(modules=[module], device="cpu", **options)

    @property
    def config(self) -> Any:
        """The classifier's, which says what its scores are brought through."""
        return self[0].engine.config

    @property
    def num_labels(self) -> int:
        """Scores of a pair."""
        return int(self.config.num_labels)
