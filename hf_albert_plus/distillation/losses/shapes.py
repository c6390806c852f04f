"""Checks of what goes into a loss: the axes a tensor's name ends in."""

import torch

from ...errors import InvalidInput

AXES = {
    "B": ("batch", "give both models one batch"),
    "C": ("classes", "use models with the same classes"),
    "D": ("head width", "take both from one layer of one model"),
    "H": ("hidden", "use models of one width, or hidden_state_loss with a projection"),
    "M": ("layers", "pair every student layer with one teacher layer"),
    "N": ("heads", "use models with as many heads, or relation_loss on states from split_heads"),
    "S": ("sequence", "give both models one tokenised text, and its attention mask to the loss"),
    "V": ("vocabulary", "use models with one vocabulary"),
}


def check_shapes(**tensors: torch.Tensor) -> None:
    """Checks that tensors have the axes their names end in (`mask_BS`), with one size for each letter.

    Raises:
        InvalidInput: another number of axes, or two sizes for one letter.
    """
    seen: dict[str, tuple[str, int]] = {}
    for name, tensor in tensors.items():
        axes = name.rpartition("_")[2]
        if tensor.ndim != len(axes):
            words = ", ".join(AXES[axis][0] for axis in axes)
            raise InvalidInput(
                f"{name} must have {len(axes)} axes", got=f"shape {list(tensor.shape)}", repair=f"pass [{words}]"
            )
        for axis, size in zip(axes, tensor.shape, strict=True):
            first, expected = seen.setdefault(axis, (name, size))
            if size != expected:
                words, repair = AXES[axis]
                raise InvalidInput(
                    f"{first} and {name} must agree in {axis} ({words})", got=f"{expected} and {size}", repair=repair
                )


__all__ = ["AXES", "check_shapes"]
