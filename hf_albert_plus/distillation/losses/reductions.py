"""One mean for every loss over tokens: over an example's real tokens, then over the batch; and checks of the tensors that go in.

The loss of a batch is the mean of the losses of its examples, so that neither padding, nor what else is in the batch, nor gradient
accumulation, nor the number of processes changes it, as long as they split it evenly.
"""

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
    "W": ("vector", "bring the student's vectors to the teacher's width by torch.nn.Linear"),
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


def mean_over_tokens(values_BS: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
    """Mean over each example's real tokens, then over the batch: 1/B Σ_b 1/n_b Σ_s mask · value.

    An example without a real token counts 0. Values at padding may be NaN or infinite; their gradient is 0.

    Shape: `[batch, sequence]` and a mask `[batch, sequence]` of any dtype, 1 real and 0 padding -> scalar.
    """
    check_shapes(values_BS=values_BS, mask_BS=mask_BS)
    real_BS = mask_BS.bool()
    sums_B = values_BS.masked_fill(~real_BS, 0).sum(dim=1)
    return (sums_B / real_BS.sum(dim=1).clamp(min=1)).mean()


def mean_over_selected(values_T: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
    """`mean_over_tokens` of values computed at the real tokens alone, in the order of `states_BSV[mask_BS.bool()]`.

    Shape: `[real tokens]` and a mask `[batch, sequence]` -> scalar.
    """
    real_BS = mask_BS.bool()
    return mean_over_tokens(values_T.new_zeros(real_BS.shape).masked_scatter(real_BS, values_T), real_BS)


def zero_padding(states: torch.Tensor, mask_BS: torch.Tensor, *, sequence: int = 1) -> torch.Tensor:
    """States with zeros at padding.

    A mean that leaves padding out is not enough: the backward of a product, a norm or a softmax multiplies the zero
    gradient by the NaN it met in the forward.

    Args:
        sequence: the axis of the tokens; the batch is axis 0.
    """
    shape = [1] * states.ndim
    shape[0], shape[sequence] = mask_BS.shape
    return states.masked_fill(~mask_BS.bool().view(shape), 0)
