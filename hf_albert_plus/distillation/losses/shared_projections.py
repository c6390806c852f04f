"""Shared projections: one pair of matrices turns every student parameter into the teacher's, or back."""

from collections.abc import Sequence

import torch
from torch.nn.functional import mse_loss

from ...errors import InvalidInput


def up_projection_loss(
    student: Sequence[torch.Tensor], teacher: Sequence[torch.Tensor], up: torch.Tensor, down: torch.Tensor
) -> torch.Tensor:
    """‖θ_T - up·θ_S·down‖², mean over a parameter's values, then over the parameters.

    Zhao et al. 2019 (Extreme Language Model Compression with Optimal Subwords and Shared Projections), section 3,
    shared projections. The paper sums, by which large parameters, and large models, weigh more. A vector is projected
    on one side: up·θ_S. Nothing is detached, as the paper trains the teacher too.

    Args:
        student: matrices and vectors of the student.
        teacher: those of the teacher they are paired with.
        up: the paper's U.
        down: the paper's V.

    Shape: θ_S `[out_S, in_S]` or `[out_S]`, θ_T `[out_T, in_T]` or `[out_T]`, `up` `[out_T, out_S]`, `down`
    `[in_S, in_T]` -> scalar.

    Raises:
        InvalidInput: parameters that are not paired or that the projections do not fit.
    """
    return _projection_loss(student, teacher, left=up, right=down, names=("up", "down"))


def down_projection_loss(
    student: Sequence[torch.Tensor], teacher: Sequence[torch.Tensor], up: torch.Tensor, down: torch.Tensor
) -> torch.Tensor:
    """‖down·θ_T·up - θ_S‖², mean over a parameter's values, then over the parameters.

    `up_projection_loss` the other way, with the paper's U on the left (`down`) and V on the right (`up`). Where the
    parameters are square one pair of matrices serves both losses.

    Shape: θ_S `[out_S, in_S]` or `[out_S]`, θ_T `[out_T, in_T]` or `[out_T]`, `up` `[in_T, in_S]`, `down`
    `[out_S, out_T]` -> scalar.

    Raises:
        InvalidInput: parameters that are not paired or that the projections do not fit.
    """
    return _projection_loss(teacher, student, left=down, right=up, names=("down", "up"))


def _projection_loss(
    sources: Sequence[torch.Tensor],
    targets: Sequence[torch.Tensor],
    *,
    left: torch.Tensor,
    right: torch.Tensor,
    names: tuple[str, str],
) -> torch.Tensor:
    if not sources or len(sources) != len(targets):
        raise InvalidInput(
            "student and teacher must hold as many parameters, one at least",
            got=f"{len(sources)} and {len(targets)}",
            repair="pair every student parameter with one teacher parameter",
        )
    errors = []
    for source, target in zip(sources, targets, strict=True):
        _check_fit(source, target, left=left, right=right, names=names)
        projected = left @ source if source.ndim == 1 else left @ source @ right
        errors.append(mse_loss(projected, target))
    return torch.stack(errors).mean()


def _check_fit(
    source: torch.Tensor, target: torch.Tensor, *, left: torch.Tensor, right: torch.Tensor, names: tuple[str, str]
) -> None:
    shapes = f"{list(source.shape)} for {list(target.shape)}"
    if source.ndim != target.ndim or source.ndim not in (1, 2):
        raise InvalidInput(
            "paired parameters must both be matrices or both vectors", got=shapes, repair="pair weights with weights"
        )
    needed = [[target.shape[0], source.shape[0]]]
    if source.ndim == 2:
        needed.append([source.shape[1], target.shape[1]])
    for name, projection, shape in zip(names, (left, right), needed, strict=False):
        if list(projection.shape) != shape:
            raise InvalidInput(
                f"{name} must be {shape} to project {shapes}",
                got=list(projection.shape),
                repair="leave the parameter out, or split it into blocks that the projections fit",
            )
