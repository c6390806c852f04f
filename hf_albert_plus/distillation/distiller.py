"""transformers' Trainer for a student beside its teacher."""

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, Trainer

from ..errors import InvalidInput
from ..heads import SPAN_LOGITS
from ..model_inputs import reads_token_types
from ..tasks.question_windows import POSITIONS
from ..training.units import Units
from .capture import capture
from .phase_rows import LABELLED, ORDER, TEACHER_LOGITS, TEACHER_VECTORS
from .phases import Phase, layer_map
from .terms import Batch, Term
from .turns import give_rates, rates_of_turn

_PASSES = "forward passes"


class Distiller(nn.Module):
    """A student with what it needs to be compared with its teacher; its forward pass is the loss of a phase.

    The teacher lies outside the module tree: it is neither trained nor saved, and stays in eval mode.

    Args:
        projections: learned maps to the teacher's width by their names, for the terms that compare states of other widths.
        units: of a task of numbers, in which the student learns them.

    Attributes:
        running_terms: sum of every term, unweighted, since the last log, and the passes that it is a sum over.
    """

    def __init__(
        self,
        student: PreTrainedModel,
        teacher: PreTrainedModel | None,
        phase: Phase,
        projections: Mapping[str, nn.Module] | None = None,
        units: Units | None = None,
    ):
        super().__init__()
        self.student: Any = student
        self.phase = phase
        self.units = units
        self._outside = (teacher.eval().requires_grad_(False) if teacher is not None else None,)
        ours: Any = student.config
        self.layers: tuple[int, ...] = ()
        if teacher is not None and any(term.paired for term in phase.terms):
            theirs: Any = teacher.config
            self.layers = layer_map(
                phase.layer_map, student_layers=ours.num_hidden_layers, teacher_layers=theirs.num_hidden_layers
            )
        self.projections = nn.ModuleDict(projections or {})
        self.depths = (*(getattr(ours, "exit_layers", None) or ()), ours.num_hidden_layers)
        if phase.trains == "exits":
            exits: Any = student.exits
            if len(exits) == 0:
                raise InvalidInput(
                    f"the phase {phase.name} needs exits with weights of their own",
                    got=f"exit_head {ours.exit_head!r}",
                    repair="use --set exit_head=branch or pooled, or --method pabee",
                )
            student.requires_grad_(False)
            self.student.exits.requires_grad_(True)
        # Of the learning rate, by the id of each parameter that does not learn at the whole of it.
        self.rates: dict[int, float] = {}
        if phase.turn is not None:
            self.rates = rates_of_turn(student, layer=phase.turn, lower=phase.lower_rate_share)
            for parameter in student.parameters():
                parameter.requires_grad_(self.rates[id(parameter)] > 0)
        self.running_terms: dict[str, float] = {}

    @property
    def teacher(self) -> Any:
        return self._outside[0]

    @property
    def config(self) -> Any:
        """The student's, for those who watch a training."""
        return self.student.config

    def train(self, mode: bool = True) -> "Distiller":
        """Training mode, but for what is not trained: exits follow predictions without dropout."""
        super().train(mode)
        if self.phase.trains == "exits":
            self.student.eval()
            self.student.exits.train(mode)
        return self

    def forward(self, **columns: torch.Tensor) -> dict[str, torch.Tensor]:
        seen = self.observe(columns)
        with torch.autocast(seen.mask_BS.device.type, enabled=False):
            terms = [(term, term.loss(seen)) for term in self.phase.terms]
        for name, value in (*((term.name, float(value.detach())) for term, value in terms), (_PASSES, 1.0)):
            self.running_terms[name] = self.running_terms.get(name, 0.0) + value
        return {"loss": torch.stack([term.weight * value for term, value in terms]).sum()}

    def observe(self, columns: dict[str, torch.Tensor]) -> Batch:
        """Runs the models on a batch."""
        teacher_logits = columns.pop(TEACHER_LOGITS, None)
        labels, labelled = columns.pop("labels", None), columns.pop(LABELLED, None)
        orders, teacher_vectors = columns.pop(ORDER, None), columns.pop(TEACHER_VECTORS, None)
        positions = {name: columns.pop(name) for name in POSITIONS if name in columns}
        given = read_by(self.student, columns)
        if labels is not None and self.units is not None:
            labels = self.units.standard(labels)
        if any(reads_labels(term) for term in self.phase.terms):
            given |= positions
            if labels is not None and labelled is None:
                given["labels"] = labels
        student = capture(self.student, given, needs=self.phase.needs)
        taught = None
        if self.teacher is not None and teacher_logits is None:
            with torch.no_grad():
                taught = capture(self.teacher, read_by(self.teacher, columns), needs=self.phase.of_teacher)
            teacher_logits = taught.logits if "logits" in self.phase.of_teacher else None
        if teacher_logits is not None and self.units is not None:
            teacher_logits = self.units.standard(teacher_logits)
        mask = columns["attention_mask" if "attention_mask" in columns else "query_attention_mask"]
        several = getattr(self.student.config, "problem_type", None) == "multi_label_classification"
        return Batch(
            student,
            taught,
            teacher_logits,
            mask,
            labels,
            self.layers,
            self.projections,
            self.depths,
            several,
            labelled_B=labelled,
            orders_B=orders,
            has_spans=SPAN_LOGITS[0] in student.output,
            teacher_vectors=teacher_vectors,
        )

    def describe(self) -> dict[str, Any]:
        """What a record says of it beside its phase."""
        return {}

    def take_terms(self) -> dict[str, float]:
        """Mean of every term, unweighted, since the last call."""
        passes = self.running_terms.pop(_PASSES, 1.0)
        means = {f"loss_{name}": total / passes for name, total in self.running_terms.items()}
        self.running_terms.clear()
        return means


def read_by(model: Any, columns: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The columns without token types, where the model has none."""
    if reads_token_types(model.config):
        return dict(columns)
    return {name: tensor for name, tensor in columns.items() if not name.endswith("token_type_ids")}


def projections_of(phase: Phase, student: Any, teacher: Any) -> dict[str, tuple[int, int]]:
    """The widths of the learned maps that a phase needs between two configs, by their names."""
    if teacher is None:
        return {}
    differ = student.hidden_size != teacher.hidden_size
    names = sorted({term.projection for term in phase.terms if term.projection and (differ or term.own_space)})
    return dict.fromkeys(names, (student.hidden_size, teacher.hidden_size))


def reads_labels(term: Term) -> bool:
    """Whether a term reads the loss that the student itself works out of the labels."""
    return not term.of_teacher and not term.reads_tokens and "exits" not in term.needs


class DistillerTrainer(Trainer):
    """Trains a `Distiller`. Logs every term beside the loss; its checkpoints hold the student and the projections."""

    def __init__(self, model: Distiller, *args: Any, **options: Any):
        super().__init__(model, *args, **options)
        # The loss is a mean over the batch: the Trainer has to divide it when it accumulates gradients.
        self.model_accepts_loss_kwargs = False
        self.distiller = model
        if model.teacher is not None:
            model.teacher.to(self.args.device)

    def create_optimizer(self, *args: Any, **options: Any) -> torch.optim.Optimizer:
        is_new = self.optimizer is None
        optimizer: torch.optim.Optimizer = super().create_optimizer(*args, **options)
        if is_new:
            give_rates(optimizer, self.distiller.rates)
        return optimizer

    def log(self, logs: dict[str, float], *args: Any, **options: Any) -> None:
        if "loss" in logs:
            logs = {**logs, **self.distiller.take_terms()}
        super().log(logs, *args, **options)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        state = self.distiller.state_dict() if state_dict is None else state_dict
        super()._save(output_dir, state_dict=stored_once(state))
        if self.args.should_save:
            # The Trainer writes its arguments as a pickle, which nothing here reads.
            os.remove(os.path.join(str(output_dir or self.args.output_dir), "training_args.bin"))

    @property
    def saved_module(self) -> nn.Module:
        """What its checkpoints hold the weights of."""
        return self.distiller

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Nothing to say of tied names: a checkpoint holds one of them alone, and loading it loads the others."""
        state, missing = self.saved_module.state_dict(), set(load_result.missing_keys)
        loaded = {tensor.data_ptr() for name, tensor in state.items() if name not in missing}
        absent = sorted(name for name in missing if state[name].data_ptr() not in loaded)
        if absent or load_result.unexpected_keys:
            raise ValueError(
                f"a checkpoint must hold what it resumes, got {absent} missing and {sorted(load_result.unexpected_keys)} "
                "left over; start again without it (a stage's own lie in its .partial directory)"
            )


def stored_once(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state for safetensors, which holds no tensor twice: of tied names the first. Loading it ties the others."""
    names = {tensor.data_ptr(): name for name, tensor in reversed(state.items())}
    return {name: state[name] for name in state if name in names.values()}
