"""The state of one export under way: the model, its fp32 graph, and what every artefact is checked on."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx
from transformers import PreTrainedModel

from hf_albert_plus.checkpoints import has_tokenizer
from hf_albert_plus.compression.quantisation.fake_quantisation import FakeQuantisation
from hf_albert_plus.compression.quantisation.scheme import Scheme, read_scheme
from hf_albert_plus.engines.artefacts import ARTEFACTS, Artefact
from hf_albert_plus.engines.batching import pad_rows
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.invariance import Invariance, check_invariance, measure_invariance
from hf_albert_plus.engines.onnx_engine import OnnxEngine
from hf_albert_plus.engines.parity import (
    AS_TRAINED,
    Agreement,
    Case,
    Parity,
    agreement,
    cases,
    check_agreement,
    check_parity,
    differences,
)
from hf_albert_plus.engines.runtime_files import weight_files
from hf_albert_plus.errors import ScoreError
from hf_albert_plus.export.exits.int8_thresholds import Recalibration
from hf_albert_plus.export.graph.tracing import export_graph, save_graph
from hf_albert_plus.export.precision.input_ranges import Range, find_ranges
from hf_albert_plus.export.precision.products import matching_products
from hf_albert_plus.export.precision.trained import TrainedGraph, write_trained
from hf_albert_plus.export.real_examples import (
    LENGTH,
    Example,
    as_arrays,
    sample_examples,
    task_examples,
    text_examples,
)
from hf_albert_plus.export.settings import ExportSettings, Scorer
from hf_albert_plus.model_inputs import axis_names, longest_input
from hf_albert_plus.random_inputs import Tensors, with_choices
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.rows import load_tokenizer
from hf_albert_plus.tasks.task_file import read_task

_BATCH = 8
# Examples that are answered alone and in batches.
_IN_BATCHES = 32
# Examples that the predictions of a model trained for few bits are counted on, at least.
_COUNTED = 1000


@dataclass(frozen=True)
class ArtefactFile:
    """The file of an artefact below the directory, its size with the weights beside it, and what it multiplies in."""

    file: str
    bytes: int
    precision: str


@dataclass(frozen=True)
class Score:
    """The points of an artefact on the settings' task, and how many fewer than torch's; None without a task."""

    score: float | None
    drop: float | None


@dataclass(frozen=True)
class Agreed:
    """How often an artefact predicts what the model that was trained for few bits does."""

    agreement: Agreement


@dataclass
class Work:
    """The model, its fp32 graph, and what the artefacts are checked on.

    Attributes:
        made: the artefacts that are done.
        exit_parts: the graphs that those with exits are put together from, by their form.
        scheme: of a model that was trained for few bits.
        scratch: a folder for graphs on the way, which somebody else empties.
        recalibration: what the threshold of a graph with exits in int8 is found with; None without a task.
    """

    model: PreTrainedModel
    directory: Path
    settings: ExportSettings
    scorer: Scorer | None
    graph: Path
    proto: onnx.ModelProto
    cases: list[Case]
    examples: list[Example]
    tokenizer: Any
    keep_fp32: list[str]
    scheme: Scheme | None
    scratch: Path
    torch_score: float | None = None
    made: list[Artefact] = field(default_factory=list)
    exit_parts: dict[str, list[Path]] = field(default_factory=dict)
    recalibration: Recalibration | None = None

    @classmethod
    def begin(
        cls,
        model: PreTrainedModel,
        source: Path,
        directory: Path,
        settings: ExportSettings,
        scorer: Scorer | None,
        *,
        scratch: Path,
    ) -> "Work":
        """Traces the model and reads the examples."""
        scheme = read_scheme(source)
        tokenizer = _tokenizer(source, model)
        examples = _examples(source, model, settings, count=max(settings.examples, _COUNTED if scheme else 1))
        graph = directory / str(ARTEFACTS["onnx"].file)
        save_graph(export_graph(model), graph)
        proto = onnx.load(graph)
        onnx.checker.check_model(proto)
        checked = cases(model, tokenizer)
        if tokenizer is not None:
            batch = {name: with_choices(t, model) for name, t in pad_rows(examples[:8], tokenizer).items()}
            checked.append(Case(f"{len(examples[:8])} of the examples", batch))
        work = cls(
            model=model,
            directory=directory,
            settings=settings,
            scorer=scorer,
            graph=graph,
            proto=proto,
            cases=checked,
            examples=examples,
            tokenizer=tokenizer,
            keep_fp32=matching_products(graph, settings.keep_fp32),
            scheme=scheme,
            scratch=scratch,
        )
        if scorer is not None:
            work.torch_score = scorer(work.engine("torch" if scheme is None else "torch-qat"))
        return work

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """The ranges of the inputs of products, as the examples have them."""
        rank = len(axis_names(self.model))
        return find_ranges(self.graph, [as_arrays(example, rank=rank) for example in self.examples])

    @cached_property
    def reference(self) -> PreTrainedModel:
        """What graphs are to compute: the model, with the roundings that it was trained with."""
        if self.scheme is None:
            return self.model
        rounded = copy.deepcopy(self.model)
        FakeQuantisation.of(rounded, self.scheme, keep_fp32=self.keep_fp32)
        return rounded

    def engine(self, runtime: str) -> Engine:
        return Engine.load(self.directory, runtime, threads=self.settings.threads, verify=False)

    def path(self, artefact: Artefact) -> Path:
        return self.directory / str(artefact.file)

    def files(self, artefact: Artefact) -> tuple[ArtefactFile, ...]:
        """The file of an artefact that was made; none of a folder of several."""
        if artefact.file is None:
            return ()
        size = sum(path.stat().st_size for path in weight_files(self.path(artefact)))
        return (ArtefactFile(artefact.file, size, artefact.precision),)

    def parity(self, artefact: Artefact, run: Callable[[Tensors], Any] | None = None) -> Parity:
        """Compares an artefact with the model, through the engine that users load unless told otherwise.

        Raises:
            ParityError: an output differs by more than the precision's tolerance.
        """
        if run is None:
            engine = self.engine(artefact.name)
            compared = differences(self.model, lambda tensors: dict(engine(**tensors)), self.cases)
        else:
            compared = differences(self.model, run, self.cases)
        return check_parity(compared, what=artefact.name, precision=artefact.precision)

    def as_trained(self, artefact: Artefact) -> tuple[Parity | TrainedGraph | Invariance | Agreed | Score, ...]:
        """Writes and verifies a graph with the roundings that the model was trained with: it is compared with the model that computes with
        them, and predictions on the examples are counted."""
        if self.scheme is None or artefact.trained_form is None:
            raise ValueError(f"{artefact.name} needs a scheme and a form")
        path = self.path(artefact)
        counts = write_trained(
            self.graph, path, scheme=self.scheme, form=artefact.trained_form, keep_fp32=self.keep_fp32
        )
        onnx.checker.check_model(onnx.load(path))
        engine = self.engine(artefact.name)
        compared = differences(self.reference, lambda tensors: dict(engine(**tensors)), self.cases)
        parity = check_parity(compared, what=artefact.name, precision=AS_TRAINED)
        agreed = agreement(self.reference, engine, self.example_batches())
        check_agreement(agreed, what=artefact.name)
        invariance = self.invariance(artefact)
        score = self.judged(
            artefact, repair="train it longer or with more bits (albert-plus qat), or allow a larger --max-drop"
        )
        return (parity, counts, *invariance, *(() if agreed is None else (Agreed(agreed),)), score)

    def invariance(self, artefact: Artefact) -> tuple[Invariance, ...]:
        """How far the answers to examples depend on their batch; nothing without a tokenizer, which pads them.

        Raises:
            InvarianceError: an artefact of ours in int8, whose answers do.
        """
        if self.tokenizer is None:
            return ()
        has_choices = len(axis_names(self.model)) == 3

        def pad(rows: Sequence[Example]) -> Tensors:
            padded = pad_rows(rows, self.tokenizer)
            return {name: tensor[:, None] for name, tensor in padded.items()} if has_choices else padded

        def measure(engine: Engine) -> Invariance:
            return measure_invariance(
                engine,
                self.examples[:_IN_BATCHES],
                batches=(_BATCH, _IN_BATCHES),
                longest=min(128, longest_input(self.model.config)),
                pad=pad,
            )

        engine = self.engine(artefact.name)
        measured = measure(engine)
        # A model may depend on padding itself: MobileBERT's embeddings read the next token.
        if isinstance(engine, OnnxEngine) and not measured.holds and measure(self.engine("torch")).holds:
            check_invariance(measured, what=artefact.name)
        return (measured,)

    def example_batches(self) -> Iterator[Tensors]:
        """The examples, a few at a time; none without a tokenizer, which pads them."""
        for start in range(0, len(self.examples) if self.tokenizer else 0, _BATCH):
            rows = pad_rows(self.examples[start : start + _BATCH], self.tokenizer)
            yield {name: with_choices(tensor, self.model) for name, tensor in rows.items()}

    def score(self, artefact: Artefact) -> Score:
        """The score of an artefact on the task, if there is one."""
        score = None if self.scorer is None else self.scorer(self.engine(artefact.name))
        drop = None if score is None or self.torch_score is None else round(self.torch_score - score, 4)
        return Score(score, drop)

    def loses_too_much(self, score: Score) -> bool:
        most = self.settings.max_drop
        return score.drop is not None and most is not None and score.drop > most

    def score_error(self, artefact: Artefact, score: Score, *, repair: str) -> ScoreError:
        return ScoreError(
            what=artefact.name,
            score=score.score or 0.0,
            reference=self.torch_score or 0.0,
            max_drop=self.settings.max_drop or 0.0,
            repair=repair,
        )

    def judged(
        self,
        artefact: Artefact,
        *,
        repair: str = "calibrate on more --examples, or use onnx-int8, which finds the products to keep in fp32",
    ) -> Score:
        """The score of an artefact, once it holds.

        Raises:
            ScoreError: it loses more than it may.
        """
        score = self.score(artefact)
        if self.loses_too_much(score):
            raise self.score_error(artefact, score, repair=repair)
        return score

    def close(self, *, keep_fp32_graph: bool) -> None:
        if not keep_fp32_graph:
            self.graph.unlink()
            if not any(self.graph.parent.iterdir()):
                self.graph.parent.rmdir()


def _examples(source: Path, model: PreTrainedModel, settings: ExportSettings, *, count: int) -> list[Example]:
    if settings.texts is not None:
        return text_examples(
            source, model.config, texts=settings.texts, count=count, max_length=_trained_length(source)
        )
    if settings.data is not None and settings.task is not None:
        task = get_task(settings.task)
        return task_examples(
            source, model.config, data=settings.data, task=task, count=count, max_length=task.max_length
        )
    return sample_examples(source, model, count=settings.examples, max_length=_trained_length(source))


def _trained_length(source: Path) -> int:
    """The longest input in tokens that a model was trained with, where that is known."""
    task = read_task(source)
    return LENGTH if task is None else task.max_length


def _tokenizer(source: Path, model: PreTrainedModel) -> Any:
    """The directory's tokenizer; None where it has none, as a bare encoder may."""
    return load_tokenizer(source, model.config) if has_tokenizer(source) else None
