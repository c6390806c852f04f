"""One run of a method: its phases in turn, each resumable, and the teachers and rows that they learn from, each opened once."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import set_seed

from ..checkpoints import load_classifier, open_as_trained
from ..config_files import load_config
from ..conversion.initialise import initialise
from ..conversion.occurrences import Occurrences, occurrences_in_task
from ..conversion.settings import Initialisation
from ..engines.pooled_encoder import SentenceEncoder
from ..heads import albert_plus_class, architecture_of, gives_labels
from ..last_layers import last_layers
from ..pretraining.masking import EachToken, Masking, smoothed_weights
from ..records import processes
from ..records.files import writing
from ..records.record import CHECKPOINTS
from ..records.stage import discard, mark, taken_up
from ..tasks.splits import load_split
from ..tasks.task_file import write_task
from ..training.answer_limits import set_answer_limits
from ..training.label_thresholds import set_label_thresholds
from ..training.loop import TrainingResult, train
from ..training.units import Units
from ..weight_files import from_pretrained
from .distiller import Distiller, DistillerTrainer, projections_of, stored_once
from .dual_training.dual_teacher import DualDistiller
from .dual_training.segmentation import DualCollator, word_rows
from .materials import Materials
from .phase_rows import Collator, task_rows
from .phases import Phase
from .sentence_students import save_sentence_student, sentence_student
from .settings import stand_in
from .students import start_student, student_config
from .teachers import Tokenizers

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class PhaseResult:
    """What came out of one phase.

    Attributes:
        terms: the formula of its loss.
        epochs: passes over its rows.
        facts: what the distiller says of itself, by the names that a record has for it.
        training: what came out of its training loop.
    """

    terms: str
    epochs: float
    learning_rate: float
    facts: dict[str, Any]
    training: TrainingResult

    def describe(self) -> dict[str, Any]:
        """The facts as a record has them."""
        settings = {"terms": self.terms, "epochs": self.epochs, "learning_rate": self.learning_rate}
        return {**settings, **self.facts, **self.training.describe()}


@dataclass(frozen=True)
class DistillationResult:
    """What came out of a run.

    Attributes:
        phases: what came out of every phase, by its name.
        teacher_parameters: None where the data have its answers.
        initialised: where the student's weights started.
    """

    phases: dict[str, PhaseResult]
    parameters: int
    teacher_parameters: int | None
    initialised: str

    def describe(self) -> dict[str, Any]:
        """The facts as a record has them."""
        return {
            "phases": {name: phase.describe() for name, phase in self.phases.items()},
            "parameters": self.parameters,
            "teacher_parameters": self.teacher_parameters,
            "initialised": self.initialised,
        }


class MethodRun:
    """A method at work: it trains a student phase after phase.

    Attributes:
        projections: the learned maps between two widths by name and widths; a later phase goes on with them.
    """

    def __init__(self, materials: Materials, phases: tuple[Phase, ...], *, checkpoint_seconds: float):
        self.materials, self.phases, self.checkpoint_seconds = materials, phases, checkpoint_seconds
        self.method, self.settings = materials.method, materials.settings
        self.projections: dict[str, nn.Linear] = {}
        self.units: Units | None = None

    def execute(self) -> DistillationResult:
        """Trains the student through all phases and saves it."""
        set_seed(self.settings.seed)
        student, initialised = self._start()
        self.units = self._enter_units(student)
        words = self._masked_lm(student) if any(phase.reads_tokens for phase in self.phases) else None
        vectors = self._sentence_student(student)
        tokenizers = self.materials.tokenizers(student.config)
        results: dict[str, PhaseResult] = {}
        for number, phase in enumerate(self.phases):
            model = vectors or (words if phase.reads_tokens and words is not None else student)
            kept = self.materials.directory / CHECKPOINTS / f"{number}-{phase.name}"
            results[phase.name] = self._phase(kept, phase, model, tokenizers)
        if vectors is None:
            self._save(student, words, tokenizers)
        elif processes.is_first():
            save_sentence_student(vectors, tokenizers.saved, self.materials.directory, self.phases)
        return DistillationResult(
            phases=results,
            parameters=(vectors or student).num_parameters(),
            teacher_parameters=self.materials.teacher.num_parameters() if self.method.soft_labels is None else None,
            initialised=initialised,
        )

    def _start(self) -> tuple[Any, str]:
        """The student at its start, and where that is."""
        task, chosen = self.materials.task or stand_in(), self.method.student
        source = self.materials.teacher
        config = student_config(source.config, task=task, settings=chosen, method=self.method.row)
        if self.method.general_teacher is not None and not chosen.has_weights:
            source = load_classifier(self.method.general_teacher, option="--general-teacher", task=task)
        return start_student(
            source,
            config,
            task=task,
            settings=chosen,
            method=self.method.row,
            occurrences=self._occurrences(source.config, config),
        )

    def _sentence_student(self, student: Any) -> SentenceEncoder | None:
        """The student as a sentence encoder, where the method trains one."""
        if not self.method.row.vectors:
            return None
        return sentence_student(student, self.materials.sentence_teacher(self.phases[-1]))

    def _occurrences(self, theirs: Any, ours: Any) -> Occurrences | None:
        """How often embeddings of a student are read that are narrower than those that they start from; None where they are not, or where
        there is no task."""
        data, task = self.materials.data, self.materials.task
        wide = getattr(theirs, "embedding_size", theirs.hidden_size)
        if data is None or task is None or ours.embedding_size >= wide or ours.vocab_size != theirs.vocab_size:
            return None
        tokenizer = self.materials.tokenizers(ours).rows
        return occurrences_in_task(data, task, tokenizer, ours, max_length=self.settings.max_length)

    def _enter_units(self, student: Any) -> Units | None:
        """The units that a task of numbers is learned in. A student whose classifier answers already, its own or the teacher's, goes
        over to them."""
        data, task = self.materials.data, self.materials.task
        layers = last_layers(student)
        if data is None or task is None or layers is None:
            return None
        units = Units.of(load_split(data, task, "train")["label"], task, student)
        if units is None:
            return None
        of_teacher = (last_layers(self.materials.teacher) or layers)["last"].weight
        own = self.method.student.student
        trained = self.method.student.has_weights and gives_labels(load_config(own, option="--student"))
        answers = gives_labels(load_config(self.materials.teacher_source, option="--teacher"))
        copied = (
            answers
            and of_teacher.shape == layers["last"].weight.shape
            and torch.equal(of_teacher, layers["last"].weight)
        )
        if trained or copied:
            units.enter(student)
        return units

    def _masked_lm(self, student: Any) -> Any:
        """A masked language model around the student's encoder, with a head for the order of segments where a phase asks for it. Its
        heads are those of the student's directory, or else a general teacher's where sizes agree."""
        config, source = student.config, self.method.student
        kind = albert_plus_class("ForPreTraining" if any(p.asks_order for p in self.phases) else "ForMaskedLM")
        reader = next((p for p in self.phases if p.reads_tokens and p.of_teacher and not p.trains_teacher), None)
        heads = None
        if source.has_weights and _trained_on_words(source.student, option="--student"):
            heads, _ = from_pretrained(kind, source.student, option="--student")
        elif reader is not None:
            start: Initialisation = "embeddings" if self.method.row.initialise == "embeddings" else "auto"
            heads, _ = initialise(self._teacher_of_words(reader), config, method=start)
        words: Any = kind(config)
        if heads is not None:
            state = heads.state_dict()
            words.load_state_dict({name: state.get(name, value) for name, value in words.state_dict().items()})
        words.albert_plus = student.albert_plus
        words.tie_weights()
        return words

    def _teacher_of_words(self, phase: Phase) -> Any:
        """The teacher on text whose heads the student's start from, with all that it was trained with."""
        general = self.materials.general_source
        if phase.asks_order and architecture_of(load_config(general, option="--general-teacher")).endswith(
            "ForPreTraining"
        ):
            return open_as_trained(general, option="--general-teacher")
        return self.materials.text_teacher(phase)

    def _phase(self, checkpoints: Path, phase: Phase, model: Any, tokenizers: Tokenizers) -> PhaseResult:
        """Trains one phase, or takes up what a killed run had finished of it."""
        weights, outcome = checkpoints.with_suffix(".safetensors"), checkpoints.with_suffix(".json")
        done: PhaseResult | None = processes.first_alone(lambda: taken_up(outcome, shape=PhaseResult))
        if done is not None:
            self._take_up(weights, model)
            return done
        set_seed(self.settings.seed)
        distiller, rows, collator = (self._dual if phase.trains_teacher else self._taught)(phase, model, tokenizers)
        training = train(
            distiller,
            rows=rows,
            collator=collator,
            settings=replace(self.settings, epochs=phase.epochs, learning_rate=phase.learning_rate),
            description=f"{self.method.name} {phase.name}",
            trainer_class=DistillerTrainer,
            checkpoint_seconds=self.checkpoint_seconds,
            checkpoints=checkpoints,
            keep_columns=True,
        )
        result = PhaseResult(
            terms=phase.formula,
            epochs=phase.epochs,
            learning_rate=phase.learning_rate,
            facts=distiller.describe(),
            training=training,
        )
        model.requires_grad_(True).eval()
        if processes.is_first():
            kept = {f"student.{name}": tensor for name, tensor in stored_once(model.state_dict()).items()}
            for key, projection in self.projections.items():
                kept |= {f"projections.{key}.{name}": tensor for name, tensor in projection.state_dict().items()}
            weights.parent.mkdir(parents=True, exist_ok=True)
            with writing(weights) as temporary:
                save_file(kept, temporary)
            mark(outcome, [weights], facts=asdict(result))
            discard(checkpoints)
        processes.wait()
        return result

    def _take_up(self, weights: Path, model: Any) -> None:
        """Loads the student and the projections of a phase that was finished before."""
        kept = load_file(weights)
        model.load_state_dict(_part(kept, "student."), strict=False)
        maps = _part(kept, "projections.")
        for key in {name.rpartition(".")[0] for name in maps}:
            self._projection(key, maps[f"{key}.weight"].shape[::-1]).load_state_dict(_part(maps, f"{key}."))

    def _projection(self, key: str, widths: Any) -> nn.Linear:
        """The learned map of that name, made at its first use."""
        if key not in self.projections:
            self.projections[key] = nn.Linear(*widths)
        return self.projections[key]

    def _taught(self, phase: Phase, model: Any, tokenizers: Tokenizers) -> tuple[Distiller, "Dataset", Any]:
        """What trains the student alone: the loss, its rows, and what makes batches of them."""
        rows, teacher = self.materials.taught_rows(phase, tokenizers)
        masking = None
        if phase.masks_words:
            vocabulary, smoothing = len(tokenizers.rows), phase.mask_smoothing
            weights = None
            if smoothing:
                weights = smoothed_weights(rows["input_ids"], vocabulary=vocabulary, smoothing=smoothing)
            masking = Masking(
                tokenizers.rows, chooser=EachToken(tokenizers.rows, weights=weights), seed=self.settings.seed
            )
        compared = self.materials.sentence_teacher(phase) if phase.rows == "sentences" else teacher
        widths = projections_of(phase, model.config, None if compared is None else compared.config)
        maps = {name: self._projection(f"{name}-{old}-{new}", (old, new)) for name, (old, new) in widths.items()}
        units = None if phase.reads_tokens or phase.rows == "text" else self.units
        return Distiller(model, teacher, phase, maps, units), rows, Collator(tokenizers.rows, masking=masking)

    def _dual(self, phase: Phase, model: Any, tokenizers: Tokenizers) -> tuple[Distiller, "Dataset", Any]:
        """What trains the student and its teacher, on words that either tokenizer cuts."""
        cuts = {"teacher": tokenizers.general, "student": tokenizers.rows}
        rows = word_rows(self.materials.texts(phase), **cuts, max_length=self.settings.max_length)
        collator = DualCollator(**cuts, share=phase.dual_share or 0.0, seed=self.settings.seed)
        return DualDistiller(model, self.materials.text_teacher(phase), phase), rows, collator

    def _save(self, student: Any, words: Any, tokenizers: Tokenizers) -> None:
        """Saves a classifier of the task; without a task, the masked language model with its heads or the encoder."""
        if not processes.is_first():
            return
        if self.units is not None:
            self.units.leave(student)
        model, data, task = student, self.materials.data, self.materials.task
        if data is not None and task is not None and task.has_several_labels:
            rows = task_rows(data, task, tokenizers.rows, max_length=self.settings.max_length)
            set_label_thresholds(student, rows, tokenizer=tokenizers.rows, task=task)
        if data is not None and task is not None and task.has_spans:
            length = self.settings.max_length
            rows = task_rows(data, task, tokenizers.rows, max_length=length)
            set_answer_limits(student, rows, data=data, task=task, tokenizer=tokenizers.rows, max_length=length)
        if self.materials.task is None and words is not None:
            model = type(words)(words.config)
            state = words.state_dict()
            model.load_state_dict({name: state[name] for name in model.state_dict()})
        elif self.materials.task is None:
            model = student.albert_plus
        model.save_pretrained(self.materials.directory)
        tokenizers.saved.save_pretrained(self.materials.directory)
        if self.materials.task is not None:
            write_task(self.materials.directory, self.materials.task, max_length=self.settings.max_length)


def _trained_on_words(source: str, *, option: str) -> bool:
    """Whether a checkpoint has a masked language modelling head."""
    return architecture_of(load_config(source, option=option)).endswith(("ForMaskedLM", "ForPreTraining"))


def _part(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The tensors whose names begin so, by what follows."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
