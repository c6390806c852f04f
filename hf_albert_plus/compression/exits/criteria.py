"""When a row may leave at an exit, and a classifier in torch whose batches shrink as rows leave.

B rows, C classes, J exits with the last layer's classifier.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from transformers.masking_utils import create_bidirectional_mask

from ...engines.classifier_config import label_thresholds_of, problem_type_of
from ...errors import InvalidInput, check_name
from ..settings import Kind

# How far apart two predictions of a regression are the same (PABEE, section 3.3), and the deviation of STS-B's numbers, which it is for.
TOLERANCE, _DEVIATION = 0.1, 1.5


@dataclass(frozen=True)
class Criterion:
    """A rule for leaving.

    Attributes:
        kind: `entropy` leaves where H(p)/log C is below the threshold, FastBERT's speed from 0 (never) to 1 (at the first exit, unless all
            classes are as likely); at the threshold a row stays (FastBERT, section 3.3, and its package; its script leaves).
            `confidence` where the largest probability is at least the threshold. `patience` (PABEE) where the prediction
            stayed the same over as many exits in a row as the threshold says. Of several labels the least sure one is looked at, which
            may hold or not; the prediction is all of them that are given.
        label_thresholds: of several labels, the probability from which each is given; empty where labels exclude each other.
        tolerance: of `patience` in regression: how far apart two predictions are the same.
    """

    kind: Kind
    threshold: float
    tolerance: float = TOLERANCE
    label_thresholds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.kind, get_args(Kind), option="--criterion")
        whole = self.kind == "patience"
        right = self.threshold >= 1 and self.threshold == int(self.threshold) if whole else 0 <= self.threshold <= 1
        if not right:
            raise InvalidInput(
                f"the threshold of {self.kind} must be {'a whole number from 1' if whole else 'from 0 to 1'}",
                got=self.threshold,
                repair=f"use {2 if whole else 0.3 if self.kind == 'entropy' else 0.9}",
            )

    def check(self, *, classes: int) -> None:
        """Refuses a rule on probabilities for one logit.

        Raises:
            InvalidInput: in regression, any but patience.
        """
        if classes == 1 and self.kind != "patience" and not self.label_thresholds:
            raise InvalidInput("a regression has no probabilities to leave by", got=self.kind, repair="use patience")


def never_leaves(kind: Kind, *, exits: int) -> float:
    """The threshold by which no row leaves at any of these exits; but for `confidence`, by which one of probability 1 does."""
    return {"entropy": 0.0, "confidence": 1.0, "patience": float(exits + 1)}[kind]


def tolerance_for(numbers: torch.Tensor) -> float:
    """How far apart two predictions of these numbers are the same: as far as PABEE's of STS-B, in deviations."""
    deviation = float(numbers.double().std())
    return TOLERANCE * deviation / _DEVIATION if 0 < deviation < math.inf else TOLERANCE


def criterion_of(config: Any, threshold: float) -> Criterion:
    """The criterion of a classifier's config with a threshold, its own or that of an export.

    Raises:
        InvalidInput: one that its answers have no numbers for.
    """
    return criterion_for(config, Criterion(config.exit_criterion, threshold, tolerance=config.exit_tolerance))


def criterion_for(config: Any, criterion: Criterion) -> Criterion:
    """A criterion for the labels of a model.

    Raises:
        InvalidInput: one that its answers have no numbers for.
    """
    if problem_type_of(config) == "regression" and config.num_labels > 1:
        raise InvalidInput(
            "a regression may leave by exits where it gives one number",
            got=config.num_labels,
            repair="run it without exits, or train one model a number",
        )
    fitting = replace(criterion, label_thresholds=label_thresholds_of(config))
    fitting.check(classes=config.num_labels)
    return fitting


def least_sure(logits_BC: torch.Tensor) -> torch.Tensor:
    """Of several labels, the logits of the one that is least sure, that it is what it is not and what it is, `[B, 2]`: two classes, whose
    probabilities are that label's."""
    nearest_B = logits_BC.abs().amin(-1)
    return torch.stack([torch.zeros_like(nearest_B), nearest_B], dim=-1)


def label_cuts(label_thresholds: Sequence[float]) -> torch.Tensor:
    """The logits from which labels are given, `[C]`."""
    return torch.tensor(label_thresholds, dtype=torch.float64).logit().float()


def normalised_entropy(logits_BC: torch.Tensor) -> torch.Tensor:
    """H(p)/log C, `[B]`, from 0 to 1 (FastBERT, eq. 7)."""
    log_BC = logits_BC.log_softmax(-1)
    return -(log_BC.exp() * log_BC).sum(-1) / math.log(logits_BC.shape[-1])


def confidence(logits_BC: torch.Tensor) -> torch.Tensor:
    """The largest probability, `[B]`."""
    return logits_BC.softmax(-1).amax(-1)


class Watch:
    """A criterion at work over the exits of one batch, of which rows leave."""

    def __init__(self, criterion: Criterion):
        self.criterion = criterion
        self.last: torch.Tensor | None = None
        self.same_B: torch.Tensor | None = None

    def may_leave(self, logits_BC: torch.Tensor) -> torch.Tensor:
        """Which of the rows that are here may leave, `[B]`."""
        criterion = self.criterion
        if criterion.kind == "patience":
            return self._same_for(logits_BC) >= criterion.threshold
        if criterion.label_thresholds:
            logits_BC = least_sure(logits_BC)
        if criterion.kind == "entropy":
            return normalised_entropy(logits_BC) < criterion.threshold
        return confidence(logits_BC) >= criterion.threshold

    def _same_for(self, logits_BC: torch.Tensor) -> torch.Tensor:
        """Over how many exits in a row the prediction of each row has stayed the same, `[B]`."""
        cuts = self.criterion.label_thresholds
        is_number = logits_BC.shape[1] == 1 and not cuts
        if cuts:
            said = logits_BC >= label_cuts(cuts).to(logits_BC)
        else:
            said = logits_BC[:, 0] if is_number else logits_BC.argmax(-1)
        if self.last is None or self.same_B is None:
            self.same_B = torch.zeros(len(said), dtype=torch.long, device=said.device)
        else:
            agrees = (said - self.last).abs() < self.criterion.tolerance if is_number else said == self.last
            self.same_B = torch.where(agrees.all(-1) if cuts else agrees, self.same_B + 1, 0)
        self.last = said
        return self.same_B

    def keep(self, stays_B: torch.Tensor) -> None:
        """Goes on with the rows that stay; the others have left."""
        if self.last is not None and self.same_B is not None:
            self.last, self.same_B = self.last[stays_B], self.same_B[stays_B]


def taken_exits(logits_JBC: torch.Tensor, criterion: Criterion) -> torch.Tensor:
    """The exit that each row takes, `[B]` from 0; the last one takes who is left.

    Args:
        logits_JBC: what every exit says of every row.
    """
    criterion.check(classes=logits_JBC.shape[-1])
    watch = Watch(criterion)
    taken_B = torch.full((logits_JBC.shape[1],), len(logits_JBC) - 1, device=logits_JBC.device)
    for exit_, logits_BC in enumerate(logits_JBC[:-1]):
        leaves_B = watch.may_leave(logits_BC)
        taken_B = torch.where(leaves_B, taken_B.clamp(max=exit_), taken_B)
    return taken_B


@dataclass(frozen=True)
class Exited:
    """What came out, in the caller's order.

    Attributes:
        logits_BC: of the exit that each row took.
        layers_B: how many layers each row ran.
    """

    logits_BC: torch.Tensor
    layers_B: torch.Tensor


@torch.no_grad()
def run_with_exits(model: Any, criterion: Criterion, **inputs: torch.Tensor) -> Exited:
    """Runs a batch `[B, S]` through a classifier with exits. Layers compute the rows that are left and nothing else. The thresholds of
    several labels are those of its config.

    Raises:
        InvalidInput: a model without exits, or a criterion that its task has no numbers for.
    """
    config = model.config
    if not config.exit_layers:
        raise InvalidInput(
            "a model must have exits to leave by",
            got="none",
            repair="train some: albert-plus distill --method fastbert --student DIR …",
        )
    criterion = criterion_for(config, criterion)
    encoder, watch = model.albert_plus.encoder, Watch(criterion)
    ids_BS = inputs["input_ids"]
    mask_BS = inputs.get("attention_mask", torch.ones_like(ids_BS))
    hidden_BSH = model.albert_plus.embeddings(ids_BS, inputs.get("token_type_ids"), None, None)
    rows_B = torch.arange(len(ids_BS), device=ids_BS.device)
    logits_BC = hidden_BSH.new_empty(len(ids_BS), config.num_labels)
    layers_B = torch.full_like(rows_B, config.num_hidden_layers)
    mask: Any = create_bidirectional_mask(config=config, inputs_embeds=hidden_BSH, attention_mask=mask_BS)
    done = 0
    for exit_, depth in enumerate(config.exit_layers):
        hidden_BSH, done = encoder.run(hidden_BSH, mask, done, depth), depth
        said_BC = model.exit(exit_, hidden_BSH, mask_BS)
        leaves_B = watch.may_leave(said_BC)
        if not leaves_B.any():
            continue
        logits_BC[rows_B[leaves_B]], layers_B[rows_B[leaves_B]] = said_BC[leaves_B], depth
        stays_B = ~leaves_B
        rows_B, hidden_BSH, mask_BS = rows_B[stays_B], hidden_BSH[stays_B], mask_BS[stays_B]
        watch.keep(stays_B)
        if not len(rows_B):
            return Exited(logits_BC, layers_B)
        mask = create_bidirectional_mask(config=config, inputs_embeds=hidden_BSH, attention_mask=mask_BS)
    hidden_BSH = encoder.run(hidden_BSH, mask, done)
    logits_BC[rows_B] = model.exit(len(config.exit_layers), hidden_BSH, mask_BS)
    return Exited(logits_BC, layers_B)
