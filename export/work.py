"""One export under way: the model, its fp32 graph, and what every artefact is checked on."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
from transformers import PreTrainedModel

from hf_albert_plus.compression.quantisation import FakeQuantisation, Scheme, read_scheme
from hf_albert_plus.errors import ScoreError
from hf_albert_plus.export.batching import pad_rows
from hf_albert_plus.export.calibration import Example, task_examples, text_examples
from hf_albert_plus.export.engines import Engine, weight_files
from hf_albert_plus.export.graph import export_graph, save_graph, with_choices
from hf_albert_plus.export.int8 import matching_products
from hf_albert_plus.export.parity import (
    AS_TRAINED,
    Case,
    Tensors,
    agreement,
    cases,
    check_agreement,
    check_parity,
    differences,
)
from hf_albert_plus.export.runtimes import RUNTIMES
from hf_albert_plus.export.trained import Form, write_trained
from hf_albert_plus.tokenizer_files import has_tokenizer

if TYPE_CHECKING:
    from hf_albert_plus.export.stage import ExportSettings, Scorer

_BATCH = 8
# Examples that the predictions of a model trained for few bits are counted on, at least.
_COUNTED = 1000


@dataclass
class Work:
    """The model, its fp32 graph, and what the artefacts are checked on."""

    model: PreTrainedModel
    directory: Path
    settings: "ExportSettings"
    scorer: "Scorer | None"
    graph: Path
    cases: list[Case]
    examples: list[Example]
    tokenizer: Any
    keep_fp32: list[str]
    proto: onnx.ModelProto
    torch_score: float | None = None
    made: list[str] = field(default_factory=list)
    exit_parts: dict[str, list[Path]] = field(default_factory=dict)
    scheme: Scheme | None = None
    scratch: Path | None = None

    @classmethod
    def begin(
        cls,
        model: PreTrainedModel,
        source: Path,
        directory: Path,
        settings: "ExportSettings",
        scorer: "Scorer | None",
        *,
        scratch: Path | None = None,
    ) -> "Work":
        """Traces the model and reads the examples.

        Args:
            scratch: a folder for graphs on the way, which somebody else empties.
        """
        scheme = read_scheme(source)
        tokenizer = _tokenizer(source, model)
        examples = _examples(source, model, settings, count=max(settings.examples, _COUNTED if scheme else 1))
        graph = directory / RUNTIMES["onnx"].file
        save_graph(export_graph(model), graph)
        proto = onnx.load(graph)
        onnx.checker.check_model(proto)
        checked = cases(model, tokenizer)
        if examples:
            batch = {name: with_choices(t, model) for name, t in pad_rows(examples[:8], tokenizer).items()}
            checked.append(Case(f"{len(examples[:8])} of the examples", batch))
        keep = matching_products(graph, settings.keep_fp32)
        work = cls(model, directory, settings, scorer, graph, checked, examples, tokenizer, keep, proto)
        work.scheme, work.scratch = scheme, scratch
        if scorer is not None:
            work.torch_score = scorer(work.engine("torch" if work.scheme is None else "torch-qat"))
        return work

    @cached_property
    def reference(self) -> PreTrainedModel:
        """What graphs are to compute: the model, with the roundings that it was trained with."""
        if self.scheme is None:
            return self.model
        rounded = copy.deepcopy(self.model)
        FakeQuantisation.of(rounded, self.scheme, keep_fp32=self.keep_fp32)
        return rounded

    def engine(self, name: str) -> Engine:
        return Engine.load(self.directory, name, threads=self.settings.threads, verify=False)

    def path(self, name: str) -> Path:
        return self.directory / RUNTIMES[name].file

    def parity(self, name: str, run: Callable[[Tensors], Any] | None = None) -> dict[str, Any]:
        """Compares an artefact with the model, through the engine that users load unless told otherwise."""
        self.made.append(name)
        if run is None:
            engine = self.engine(name)
            found = differences(self.model, lambda tensors: dict(engine(**tensors)), self.cases)
        else:
            found = differences(self.model, run, self.cases)
        return check_parity(found, what=name, precision=RUNTIMES[name].precision)

    def as_trained(self, name: str, form: Form) -> dict[str, Any]:
        """Writes and verifies a graph with the roundings that the model was trained with: it is compared with the model that computes with
        them, and predictions on the examples are counted."""
        if self.scheme is None:
            raise ValueError(f"{name} needs a scheme")
        counts = write_trained(self.graph, self.path(name), scheme=self.scheme, form=form, keep_fp32=self.keep_fp32)
        proto = onnx.load(self.path(name))
        onnx.checker.check_model(proto)
        self.made.append(name)
        engine = self.engine(name)
        found = differences(self.reference, lambda tensors: dict(engine(**tensors)), self.cases)
        return {
            **check_parity(found, what=name, precision=AS_TRAINED),
            **counts,
            **check_agreement(agreement(self.reference, engine, self.example_batches()), what=name),
            **self.judged(
                name, repair="train it longer or with more bits (albert-plus qat), or allow a larger --max-drop"
            ),
        }

    def example_batches(self) -> Iterator[Tensors]:
        """The examples, a few at a time."""
        for start in range(0, len(self.examples), _BATCH):
            rows = pad_rows(self.examples[start : start + _BATCH], self.tokenizer)
            yield {name: with_choices(tensor, self.model) for name, tensor in rows.items()}

    def score(self, name: str) -> float | None:
        """The score of an int8 artefact on the task, if there is one."""
        return None if self.scorer is None else self.scorer(self.engine(name))

    def drop(self, score: float | None) -> float | None:
        return None if score is None or self.torch_score is None else round(self.torch_score - score, 4)

    def loses_too_much(self, score: float | None) -> bool:
        drop, most = self.drop(score), self.settings.max_drop
        return drop is not None and most is not None and drop > most

    def score_error(self, name: str, score: float | None, *, repair: str) -> ScoreError:
        return ScoreError(
            what=name,
            score=score or 0.0,
            reference=self.torch_score or 0.0,
            max_drop=self.settings.max_drop or 0.0,
            repair=repair,
        )

    def judged(
        self,
        name: str,
        *,
        repair: str = "calibrate on more --examples, or use onnx-int8, which finds the products to keep in fp32",
    ) -> dict[str, Any]:
        """The score of an artefact for the record.

        Raises:
            ScoreError: it loses more than it may.
        """
        score = self.score(name)
        if self.loses_too_much(score):
            raise self.score_error(name, score, repair=repair)
        return {"score": score, "drop": self.drop(score)}

    def described(self, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        """The facts with the artefact's file and size in front."""
        files = weight_files(self.path(name))
        return {
            "file": RUNTIMES[name].file,
            "bytes": sum(path.stat().st_size for path in files),
            "precision": RUNTIMES[name].precision,
            **facts,
        }

    def close(self, *, keep_fp32_graph: bool) -> None:
        if not keep_fp32_graph:
            self.graph.unlink()
            if not any(self.graph.parent.iterdir()):
                self.graph.parent.rmdir()


def _examples(source: Path, model: PreTrainedModel, settings: "ExportSettings", *, count: int) -> list[Example]:
    if settings.texts is not None:
        return text_examples(source, model.config, texts=settings.texts, count=count)
    if settings.data is not None and settings.task is not None:
        return task_examples(source, model.config, data=settings.data, task=settings.task, count=count)
    return []


def _tokenizer(source: Path, model: PreTrainedModel) -> Any:
    """The directory's tokenizer; None where it has none, as a bare encoder may."""
    from hf_albert_plus.glue import load_tokenizer

    return load_tokenizer(source, model.config) if has_tokenizer(source) else None


__all__ = ["Work"]
