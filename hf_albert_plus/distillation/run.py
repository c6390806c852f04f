"""One run of a method: its phases in turn, each resumable, the student handed on from one to the next."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, PreTrainedTokenizerBase, set_seed

from .. import processes
from ..checkpoints import load_classifier, load_config
from ..errors import InvalidInput
from ..finetune import fits_positions
from ..glue import Task, load_split, load_tokenizer
from ..heads import albert_plus_class
from ..initialise import initialise
from ..pretraining.masking import DynamicMasking, smoothed_weights
from ..records import CHECKPOINTS, discard, write_json
from ..training import TrainSettings, train, trains_in_bf16
from .distill import DistilSettings, stand_in
from .dual_training import DualCollator, DualDistiller, word_rows
from .phases import Phase
from .rows import Collator, documents, pair_rows, task_rows, text_rows
from .students import start_student, student_config
from .teachers import text_teacher, with_teacher_logits
from .trainer import DistillationTrainer, Distiller, stored_once

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass
class Run:
    """A method at work in a directory."""

    teacher_source: str
    data: str | None
    task: Task | None
    directory: Path
    settings: TrainSettings
    method: DistilSettings
    phases: tuple[Phase, ...]
    checkpoint_seconds: float

    def execute(self) -> dict[str, Any]:
        """Trains, saves, and says what came out."""
        set_seed(self.settings.seed)
        student, initialised = self._start()
        words = self._masked_lm(student) if any(phase.reads_tokens for phase in self.phases) else None
        self._check_vocabularies()
        results = {}
        for number, phase in enumerate(self.phases):
            model = words if phase.reads_tokens and words is not None else student
            results[phase.name] = self._phase(f"{number}-{phase.name}", phase, model)
        self._save(student, words)
        return {
            "phases": results,
            "parameters": student.num_parameters(),
            "teacher_parameters": self.teacher.num_parameters(),
            "initialised": initialised,
        }

    @property
    def general_source(self) -> str:
        return self.method.general_teacher or self.teacher_source

    @cached_property
    def teacher(self) -> Any:
        architectures = load_config(self.teacher_source, option="--teacher").architectures or []
        has_head = any("SequenceClassification" in name for name in architectures)
        new_head = None if self.task is not None or has_head else stand_in()
        return load_classifier(self.teacher_source, option="--teacher", task=new_head)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The teacher's."""
        return load_tokenizer(self.teacher_source, self.teacher.config)

    @cached_property
    def student_tokenizer(self) -> PreTrainedTokenizerBase:
        """The student directory's own where it has one of other words, the teacher's otherwise."""
        own = Path(self.method.student.student)
        if (own / "tokenizer_config.json").is_file():
            tokenizer = AutoTokenizer.from_pretrained(own)
            if tokenizer.get_vocab() != self.tokenizer.get_vocab():
                return load_tokenizer(own, load_config(own, option="--student"))
        return self.tokenizer

    def _start(self) -> tuple[Any, str]:
        task = self.task or stand_in()
        config = student_config(self.teacher.config, task=task, settings=self.method.student, method=self.method.row)
        source = self.teacher
        if self.method.general_teacher is not None:
            source = load_classifier(self.method.general_teacher, option="--general-teacher", task=task)
        return start_student(source, config, task=task, settings=self.method.student, method=self.method.row)

    def _masked_lm(self, student: Any) -> Any:
        """A masked language model around the student's encoder, its head from a general teacher where sizes agree."""
        readers = (
            phase for phase in self.phases if phase.reads_tokens and phase.of_teacher and not phase.trains_teacher
        )
        reader = next(readers, None)
        general = text_teacher(self.general_source, reader) if reader is not None else None
        config = student.config
        words: Any = albert_plus_class("ForMaskedLM")(config)
        if general is not None:
            words = initialise(general, config, method="auto")[0]
        words.albert_plus = student.albert_plus
        words.tie_weights()
        return words

    def _check_vocabularies(self) -> None:
        if self.student_tokenizer is self.tokenizer:
            return
        for phase in self.phases:
            if phase.of_teacher and not phase.caches_logits and not phase.trains_teacher:
                raise InvalidInput(
                    f"the phase {phase.name} of {self.method.method} compares token by token: student and teacher must have one vocabulary",
                    got=f"{len(self.student_tokenizer)} and {len(self.tokenizer)} tokens",
                    repair="use a student of the teacher's vocabulary, or a method that reads predictions alone, such as kd",
                )

    def _phase(self, name: str, phase: Phase, model: Any) -> dict[str, Any]:
        """Trains one phase, or takes up what a killed run had finished of it."""
        place = self.directory / CHECKPOINTS / name
        weights, outcome = place.with_suffix(".safetensors"), place.with_suffix(".json")
        if outcome.is_file():
            model.load_state_dict(load_file(weights), strict=False)
            return json.loads(outcome.read_text(encoding="utf-8"))
        set_seed(self.settings.seed)
        distiller, rows, collator = (self._dual if phase.trains_teacher else self._taught)(phase, model)
        result = train(
            distiller,
            rows=rows,
            collator=collator,
            settings=replace(self.settings, epochs=phase.epochs, learning_rate=phase.learning_rate),
            directory=self.directory,
            description=f"{self.method.method} {phase.name}",
            trainer_class=DistillationTrainer,
            checkpoint_seconds=self.checkpoint_seconds,
            checkpoints=place,
            keep_columns=True,
        )
        facts = {"terms": phase.formula, "epochs": phase.epochs, "learning_rate": phase.learning_rate}
        result = {**facts, **distiller.describe(), **result}
        model.requires_grad_(True).eval()
        if processes.is_first():
            place.parent.mkdir(parents=True, exist_ok=True)
            save_file(stored_once(model.state_dict()), weights)
            write_json(outcome, result)
            discard(place)
        processes.wait()
        return result

    def _taught(self, phase: Phase, model: Any) -> tuple[Distiller, "Dataset", Any]:
        """What trains the student alone: the loss, its rows, and what makes batches of them."""
        rows, teacher = self._taught_rows(phase)
        masking = None
        if phase.masks_words:
            smoothing, vocabulary = phase.mask_smoothing, len(self.student_tokenizer)
            weights = (
                smoothed_weights(rows["input_ids"], vocabulary=vocabulary, smoothing=smoothing) if smoothing else None
            )
            masking = DynamicMasking(self.student_tokenizer, seed=self.settings.seed, weights=weights)
        return Distiller(model, teacher, phase), rows, Collator(self.student_tokenizer, masking=masking)

    def _dual(self, phase: Phase, model: Any) -> tuple[Distiller, "Dataset", Any]:
        """What trains the student and its teacher, on words that either tokenizer cuts."""
        teacher: Any = text_teacher(self.general_source, phase)
        fits_positions(teacher.config, self.settings.max_length)
        cuts = {"teacher": load_tokenizer(self.general_source, teacher.config), "student": self.student_tokenizer}
        if not self.method.reads_task(phase):
            assert self.method.text is not None
            texts: Iterable[str] = documents(self.method.text)
        else:
            assert self.data is not None
            assert self.task is not None
            split = load_split(self.data, self.task, "train")
            texts = (row[column] for row in split for column in self.task.columns)
        rows = word_rows(texts, **cuts, max_length=self.settings.max_length)
        return (
            DualDistiller(model, teacher, phase),
            rows,
            DualCollator(**cuts, share=phase.dual_share or 0.0, seed=self.settings.seed),
        )

    def _taught_rows(self, phase: Phase) -> tuple["Dataset", Any]:
        """A phase's rows, and the teacher that is run beside the student, if any is."""
        if not self.method.reads_task(phase):
            assert self.method.text is not None
            rows = text_rows(self.method.text, self.student_tokenizer, max_length=self.settings.max_length)
            return rows, text_teacher(self.general_source, phase)
        assert self.data is not None
        assert self.task is not None
        own = (self.data, self.task, self.student_tokenizer)
        rows = (pair_rows if phase.rows == "pairs" else task_rows)(*own, max_length=self.settings.max_length)
        if phase.rows == "text":
            return rows.remove_columns("labels"), text_teacher(self.general_source, phase)
        if not phase.of_teacher:
            return rows, None
        if not phase.caches_logits:
            return rows, self.teacher
        cached = with_teacher_logits(
            rows,
            self.teacher,
            task_rows(self.data, self.task, self.tokenizer, max_length=self.settings.max_length),
            self.tokenizer,
            file=self.directory / CHECKPOINTS / "teacher_logits.safetensors",
            use_bf16=trains_in_bf16(self.settings.precision),
        )
        return cached, None

    def _save(self, student: Any, words: Any) -> None:
        """A classifier of the task; without one, the masked language model or the encoder."""
        if not processes.is_first():
            return
        model = student
        if self.task is None and words is not None:
            model = albert_plus_class("ForMaskedLM")(words.config)
            state = words.state_dict()
            model.load_state_dict({name: state[name] for name in model.state_dict()})
        elif self.task is None:
            model = student.albert_plus
        model.save_pretrained(self.directory)
        tokenizer = self.student_tokenizer
        if tokenizer is self.tokenizer:
            tokenizer = load_tokenizer(self.teacher_source, student.config)
        tokenizer.save_pretrained(self.directory)


__all__ = ["Run"]
