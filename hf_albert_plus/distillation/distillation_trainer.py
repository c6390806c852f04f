"""transformers' Trainer for scripts of one's own: a student learns from a teacher by a phase of a published method."""

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedModel, TrainerCallback, TrainingArguments
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.utils.generic import find_labels

from ..engines.pooled_encoder import SentenceEncoder
from ..errors import InvalidInput, suggest
from .checks import check_phase
from .distiller import Distiller, DistillerTrainer, projections_of, read_by, reads_labels
from .phase_rows import LABELLED, TEACHER_LOGITS
from .phases import Phase, layers_of
from .sentence_students import as_teacher, check_spaces, save_sentence_student
from .settings import DEFAULT, DistilSettings

_PROJECTIONS = "projections.safetensors"
# The heads whose logits are those of labels.
_CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification")


class DistillationTrainer(DistillerTrainer):
    """transformers' Trainer whose loss is that of a phase of a method: datasets, collator, callbacks and arguments are the caller's own.

    The student is trained in place. `evaluate` and `predict` ask it alone, so that `eval_loss` is its loss against the labels; the
    training loss is logged with each of its terms, `loss_soft_targets` and the like. Checkpoints and `save_model` write the student as
    `from_pretrained` opens it. The teacher is put onto the device of this process and is neither trained nor saved; several devices
    are for `accelerate launch`, a process each. Epochs, learning rate and batch size are those of the arguments, not the method's.

    A method of vectors (`embeddings`) takes two bare encoders, and rows of texts without labels. The teacher's directory, or
    `settings={"pooling": "mean"}`, says how vectors are made; `evaluate` gives the method's own loss, and what is saved is a sentence encoder.

    Args:
        model: the student, with a head for the task.
        args: the Trainer's own.
        teacher: a model of the student's vocabulary. None where the rows have its logits as the column `teacher_logits`, or where the
            phase reads no teacher. Of vectors, a sentence encoder as AutoModel opens it.
        method: a row of the table of methods (`albert-plus distill --list-methods`).
        phase: which of its phases, where it has several. One trainer after the other makes the whole method.
        settings: of the method, as `--set` has them: `{"temperature": 4.0}`.
        projections: learned maps between the widths of student and teacher to go on with, `trainer.distiller.projections` of the
            phase before.
        options: the Trainer's own: `train_dataset`, `eval_dataset`, `data_collator`, `processing_class`, `callbacks`, ….

    Raises:
        InvalidInput: a phase that needs rows which are not the caller's to make (masked words, two towers, two vocabularies), a student or
            teacher that it cannot compare, or a batch without what it reads.

    Example:
        >>> DistillationTrainer(model=student, teacher=teacher, method="kd", args=args, train_dataset=rows, processing_class=tokenizer).train()
    """

    def __init__(
        self,
        model: PreTrainedModel,
        args: TrainingArguments | None = None,
        *,
        teacher: PreTrainedModel | None = None,
        method: str = DEFAULT,
        phase: str | None = None,
        settings: Mapping[str, Any] | None = None,
        projections: Mapping[str, nn.Module] | None = None,
        **options: Any,
    ):
        args = TrainingArguments() if args is None else args
        chosen = phase_to_train(method, phase, settings=settings or {}, student=model, teacher=teacher)
        _check_models(chosen, model, teacher)
        _check_arguments(args, options)
        if args.n_gpu > 1:
            args._n_gpu = 1
        widths = projections_of(chosen, model.config, None if teacher is None else teacher.config)
        maps = {name: nn.Linear(*width) for name, width in widths.items()}
        student = model
        if chosen.rows == "sentences" and teacher is not None:
            teacher = as_teacher(teacher, chosen)
            student = SentenceEncoder(model, pooling=teacher.pooling, normalize=teacher.normalize)
        super().__init__(Distiller(student, teacher, chosen, {**maps, **(projections or {})}), args, **options)
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise InvalidInput(
                "DistillationTrainer needs every weight whole in every process",
                got="FSDP or DeepSpeed, which keep shards",
                repair="launch it with DDP: accelerate launch --multi_gpu",
            )
        if self.args.label_names is None:
            self.label_names = find_labels(type(model))
        self.callback_handler.callbacks.insert(0, _ShowsStudent(self))

    @property
    def saved_module(self) -> nn.Module:
        student = self.distiller.student
        return student.encoder if isinstance(student, SentenceEncoder) else student

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        if model is not self.distiller.student:
            _check_batch(self.distiller, inputs)
        return super().compute_loss(model, inputs, *args, **options)

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        student = self.distiller.student
        if self.distiller.phase.rows == "sentences":
            return self._loss_of_vectors(inputs), None, None
        given = {name: value for name, value in inputs.items() if name not in (TEACHER_LOGITS, LABELLED)}
        return super().prediction_step(student, read_by(student, given), prediction_loss_only, ignore_keys)

    def _loss_of_vectors(self, inputs: dict[str, Any]) -> torch.Tensor:
        """The method's loss of a batch that nothing learns from, beside the terms that are counted for the log."""
        counted = dict(self.distiller.running_terms)
        with torch.no_grad():
            loss: torch.Tensor = self.distiller(**self._prepare_inputs(inputs))["loss"]
        self.distiller.running_terms = counted
        return loss

    def _set_signature_columns_if_needed(self) -> None:
        if self._signature_columns is None:
            readers = [each for each in (self.distiller.student, self.distiller.teacher) if each is not None]
            read = [name for each in readers for name in inspect.signature(each.forward).parameters]
            ours = ("label", "label_ids", TEACHER_LOGITS, LABELLED)
            self._signature_columns: Any = list(dict.fromkeys([*read, *self.label_names, *ours]))

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        super().save_model(output_dir, _internal_call)
        maps = self.distiller.projections.state_dict()
        if _internal_call and maps and self.args.should_save:
            save_file(maps, Path(output_dir or str(self.args.output_dir)) / _PROJECTIONS)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        if not self.args.should_save:
            return
        directory, student = str(output_dir or self.args.output_dir), self.distiller.student
        tokenizer = self.processing_class or getattr(self.data_collator, "tokenizer", None)
        if isinstance(student, SentenceEncoder):
            save_sentence_student(student, tokenizer, Path(directory), [self.distiller.phase])
        else:
            student.save_pretrained(directory)
            if tokenizer is not None:
                tokenizer.save_pretrained(directory)
        torch.save(self.args, os.path.join(directory, TRAINING_ARGS_NAME))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model=self.saved_module)
        maps = Path(resume_from_checkpoint) / _PROJECTIONS
        if len(self.distiller.projections):
            self.distiller.projections.load_state_dict(load_file(maps))

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(str(self.state.best_model_checkpoint))


class _ShowsStudent(TrainerCallback):
    """Hands all other callbacks the student as their model, not what computes its loss."""

    def __init__(self, trainer: DistillationTrainer):
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.callback_handler.model = self.trainer.saved_module


def phase_to_train(
    method: str,
    name: str | None,
    *,
    settings: Mapping[str, Any],
    student: PreTrainedModel,
    teacher: PreTrainedModel | None,
) -> Phase:
    """The phase of a method that a Trainer with rows of one's own is to train.

    Raises:
        InvalidInput: no such method, setting or phase, no name where there are several, or a phase whose rows only the stage makes.
    """
    how = DistilSettings(method, values=tuple(settings.items()))
    layers = layers_of(student.config, student.config if teacher is None else teacher.config)
    phases = {phase.name: phase for phase in how.row.phases(layers, how.settings)}
    if name is None and len(phases) > 1:
        ours = [each.name for each in phases.values() if _rows_of_the_stage(each) is None]
        raise InvalidInput(
            f"phase must be one of {method}'s, which has several: {', '.join(phases)}",
            got="none",
            repair=f"use phase={ours[0]!r}" + (f", then {ours[1]!r}" if len(ours) > 1 else ""),
        )
    chosen = phases.get(next(iter(phases)) if name is None else name)
    if chosen is None:
        raise InvalidInput(f"phase must be one of {method}'s", got=repr(name), repair=suggest(str(name), list(phases)))
    reason = _rows_of_the_stage(chosen)
    if reason is not None:
        raise InvalidInput(
            f"the phase {chosen.name} of {method} {reason}: DistillationTrainer has no such rows",
            got=f"method={method!r}",
            repair=f"use albert-plus distill --method {method}"
            + (f" --phases {chosen.name}" if len(phases) > 1 else ""),
        )
    return chosen


def _rows_of_the_stage(phase: Phase) -> str | None:
    """Why the rows of a phase are only the stage's to make; None where anybody's will do."""
    if phase.rows == "pairs":
        return "reads the two texts of a pair apart, for two towers"
    if phase.trains_teacher:
        return "reads words in two vocabularies and trains the teacher too"
    return "learns the masked words of text" if phase.reads_tokens else None


def _check_models(phase: Phase, student: PreTrainedModel, teacher: PreTrainedModel | None) -> None:
    """Refuses a student and a teacher that a phase cannot compare.

    Raises:
        InvalidInput: a head, labels, a vocabulary or layers that do not fit, or no teacher where more is read of it than its logits.
    """
    if "exits" in phase.needs and not getattr(student.config, "exit_layers", None):
        raise InvalidInput(
            f"the phase {phase.name} trains exits: the student must have some",
            got=type(student).__name__,
            repair="make one: AlbertPlusConfig(exit_layers=[…], exit_head='branch' or 'pooled', …)",
        )
    if phase.rows == "sentences":
        _check_encoders(phase, student, teacher)
    _check_head(phase, student, what="model", read=phase.needs)
    if teacher is not None and phase.of_teacher:
        _check_head(phase, teacher, what="teacher", read=phase.of_teacher)
        _check_labels(phase, student.config, teacher.config)
        _check_vocabulary(student.config, teacher.config)
        check_phase(phase, student=student.config, teacher=teacher.config)
    elif phase.of_teacher and not phase.caches_answers:
        raise InvalidInput(
            f"the phase {phase.name} compares what is inside of student and teacher: teacher must be a model",
            got="none",
            repair="give teacher=…, or a method that reads predictions alone, such as method='kd'",
        )


def _check_head(phase: Phase, model: PreTrainedModel, *, what: str, read: frozenset[str]) -> None:
    if {"logits", "exits"} & read and not type(model).__name__.endswith(_CLASSIFIERS):
        raise InvalidInput(
            f"{what} must be a classifier of texts or tokens, as the phase {phase.name} reads its logits",
            got=type(model).__name__,
            repair="open it with AutoModelForSequenceClassification or AutoModelForTokenClassification",
        )


def _check_encoders(phase: Phase, student: PreTrainedModel, teacher: PreTrainedModel | None) -> None:
    for what, model in {"model": student, "teacher": teacher}.items():
        if model is None or not (
            type(model).__name__.endswith("Model") or (isinstance(model, SentenceEncoder) and model is teacher)
        ):
            raise InvalidInput(
                f"{what} must be an encoder without a head, as the phase {phase.name} compares vectors of texts",
                got="none" if model is None else type(model).__name__,
                repair="open it with AutoModel",
            )
    check_spaces([phase], student=student.config, teacher=None if teacher is None else teacher.config)


def _check_labels(phase: Phase, ours: Any, theirs: Any) -> None:
    if "logits" not in phase.of_teacher:
        return
    names = [[str(config.id2label[i]).lower() for i in range(config.num_labels)] for config in (ours, theirs)]
    if len(names[0]) != len(names[1]) or (names[0] != names[1] and sorted(names[0]) == sorted(names[1])):
        raise InvalidInput(
            "student and teacher must have the same labels in the same order",
            got=" and ".join(f"{len(each)} ({', '.join(each[:3])}{', …' if len(each) > 3 else ''})" for each in names),
            repair="make the student with num_labels, id2label and label2id of the teacher's config",
        )


def _check_vocabulary(ours: Any, theirs: Any) -> None:
    if ours.vocab_size != theirs.vocab_size:
        raise InvalidInput(
            "student and teacher read the same token ids: they must have one vocabulary",
            got=f"{ours.vocab_size} and {theirs.vocab_size} tokens",
            repair="take a student of the teacher's tokenizer; or give method='kd' rows with the column teacher_logits and no teacher",
        )


def _check_arguments(args: TrainingArguments, options: Mapping[str, Any]) -> None:
    """Refuses what would put another loss in the place of the method's.

    Raises:
        InvalidInput: such an argument.
    """
    others = {
        "label_smoothing_factor": args.label_smoothing_factor,
        "compute_loss_func": options.get("compute_loss_func"),
        "model_init": options.get("model_init"),
    }
    for name, value in others.items():
        if value:
            raise InvalidInput(
                f"{name} must be left out: the loss is the method's, and the model the one that is given",
                got=str(value),
                repair="leave it out",
            )


def _check_batch(distiller: Distiller, batch: Mapping[str, Any]) -> None:
    """Refuses a batch without what the terms read.

    Raises:
        InvalidInput: such a batch.
    """
    phase = distiller.phase
    is_tagger = type(distiller.student).__name__.endswith("ForTokenClassification")
    reads = is_tagger and "logits" in phase.needs
    reads |= phase.trains != "exits" and any(reads_labels(term) or "exits" in term.needs for term in phase.terms)
    needed = {
        "attention_mask": (True, "let the collator pass on all that the tokenizer gives"),
        "labels": (reads, "keep the column of labels in the rows"),
        TEACHER_LOGITS: (bool(phase.of_teacher) and distiller.teacher is None, "add the column, or give teacher=…"),
    }
    for name, (is_needed, repair) in needed.items():
        if is_needed and name not in batch:
            raise InvalidInput(
                f"the phase {phase.name} reads {name} of a batch", got=f"{', '.join(batch)} alone", repair=repair
            )
