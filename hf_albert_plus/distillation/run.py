"""One run of a method: its phases in turn, each resumable, the student handed on from one to the next."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file, save_file
from torch import nn
from transformers import set_seed

from .. import processes
from ..checkpoints import from_pretrained, load_classifier, load_config
from ..files import writing
from ..heads import albert_plus_class, architecture_of
from ..initialise import initialise
from ..kept_work import mark, taken_up
from ..pretraining.choosers import EachToken
from ..pretraining.masking import Masking, smoothed_weights
from ..records import CHECKPOINTS, discard
from ..training import train
from .distill import stand_in
from .dual_training import DualCollator, DualDistiller, word_rows
from .materials import Materials
from .phases import Phase
from .rows import Collator
from .students import start_student, student_config
from .tokenizers import Tokenizers
from .trainer import DistillationTrainer, Distiller, projections_of, stored_once

if TYPE_CHECKING:
    from datasets import Dataset


class Run:
    """A method at work.

    Attributes:
        projections: the learned maps between two widths by name and widths; a later phase goes on with them.
    """

    def __init__(self, materials: Materials, phases: tuple[Phase, ...], *, checkpoint_seconds: float):
        self.materials, self.phases, self.checkpoint_seconds = materials, phases, checkpoint_seconds
        self.method, self.settings = materials.method, materials.settings
        self.projections: dict[str, nn.Linear] = {}

    def execute(self) -> dict[str, Any]:
        """Trains, saves, and says what came out."""
        set_seed(self.settings.seed)
        student, initialised = self._start()
        words = self._masked_lm(student) if any(phase.reads_tokens for phase in self.phases) else None
        tokenizers = self.materials.tokenizers(student.config)
        results = {}
        for number, phase in enumerate(self.phases):
            model = words if phase.reads_tokens and words is not None else student
            place = self.materials.directory / CHECKPOINTS / f"{number}-{phase.name}"
            results[phase.name] = self._phase(place, phase, model, tokenizers)
        self._save(student, words, tokenizers)
        return {
            "phases": results,
            "parameters": student.num_parameters(),
            "teacher_parameters": self.materials.teacher.num_parameters(),
            "initialised": initialised,
        }

    def _start(self) -> tuple[Any, str]:
        task, chosen = self.materials.task or stand_in(), self.method.student
        source = self.materials.teacher
        config = student_config(source.config, task=task, settings=chosen, method=self.method.row)
        if self.method.general_teacher is not None and not chosen.has_weights:
            source = load_classifier(self.method.general_teacher, option="--general-teacher", task=task)
        return start_student(source, config, task=task, settings=chosen, method=self.method.row)

    def _masked_lm(self, student: Any) -> Any:
        """A masked language model around the student's encoder. Its head is that of the student's directory, or else a
        general teacher's where sizes agree."""
        config, source = student.config, self.method.student
        reader = next((p for p in self.phases if p.reads_tokens and p.of_teacher and not p.trains_teacher), None)
        if source.has_weights and architecture_of(load_config(source.student, option="--student")).endswith(
            ("ForMaskedLM", "ForPreTraining")
        ):
            words, _ = from_pretrained(albert_plus_class("ForMaskedLM"), source.student, option="--student")
        elif reader is not None:
            words, _ = initialise(self.materials.text_teacher(reader), config, method="auto")
        else:
            words = albert_plus_class("ForMaskedLM")(config)
        words.albert_plus = student.albert_plus
        words.tie_weights()
        return words

    def _phase(self, place: Path, phase: Phase, model: Any, tokenizers: Tokenizers) -> dict[str, Any]:
        """Trains one phase, or takes up what a killed run had finished of it."""
        weights, outcome = place.with_suffix(".safetensors"), place.with_suffix(".json")
        done: dict[str, Any] | None = processes.first_alone(lambda: taken_up(outcome, shape=dict[str, Any]))
        if done is not None:
            self._take_up(weights, model)
            return done
        set_seed(self.settings.seed)
        distiller, rows, collator = (self._dual if phase.trains_teacher else self._taught)(phase, model, tokenizers)
        result = train(
            distiller,
            rows=rows,
            collator=collator,
            settings=replace(self.settings, epochs=phase.epochs, learning_rate=phase.learning_rate),
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
            kept = {f"student.{name}": tensor for name, tensor in stored_once(model.state_dict()).items()}
            for key, projection in self.projections.items():
                kept |= {f"projections.{key}.{name}": tensor for name, tensor in projection.state_dict().items()}
            place.parent.mkdir(parents=True, exist_ok=True)
            with writing(weights) as temporary:
                save_file(kept, temporary)
            mark(outcome, [weights], facts=result)
            discard(place)
        processes.wait()
        return result

    def _take_up(self, weights: Path, model: Any) -> None:
        kept = load_file(weights)
        model.load_state_dict(_part(kept, "student."), strict=False)
        maps = _part(kept, "projections.")
        for key in {name.rpartition(".")[0] for name in maps}:
            self._projection(key, maps[f"{key}.weight"].shape[::-1]).load_state_dict(_part(maps, f"{key}."))

    def _projection(self, key: str, widths: Any) -> nn.Linear:
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
        widths = projections_of(phase, model.config, None if teacher is None else teacher.config)
        maps = {name: self._projection(f"{name}-{old}-{new}", (old, new)) for name, (old, new) in widths.items()}
        return Distiller(model, teacher, phase, maps), rows, Collator(tokenizers.rows, masking=masking)

    def _dual(self, phase: Phase, model: Any, tokenizers: Tokenizers) -> tuple[Distiller, "Dataset", Any]:
        """What trains the student and its teacher, on words that either tokenizer cuts."""
        cuts = {"teacher": tokenizers.general, "student": tokenizers.rows}
        rows = word_rows(self.materials.texts(phase), **cuts, max_length=self.settings.max_length)
        collator = DualCollator(**cuts, share=phase.dual_share or 0.0, seed=self.settings.seed)
        return DualDistiller(model, self.materials.text_teacher(phase), phase), rows, collator

    def _save(self, student: Any, words: Any, tokenizers: Tokenizers) -> None:
        """A classifier of the task; without one, the masked language model or the encoder."""
        if not processes.is_first():
            return
        model = student
        if self.materials.task is None and words is not None:
            model = albert_plus_class("ForMaskedLM")(words.config)
            state = words.state_dict()
            model.load_state_dict({name: state[name] for name in model.state_dict()})
        elif self.materials.task is None:
            model = student.albert_plus
        model.save_pretrained(self.materials.directory)
        tokenizers.saved.save_pretrained(self.materials.directory)


def _part(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The tensors whose names begin so, by what follows."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


__all__ = ["Run"]
