"""Which attention a run trains with."""

from typing import Any

from ..errors import InvalidInput


def cpu_attention(*, bf16: bool) -> str:
    """In bf16, products and a softmax: the backward pass of the fused attention takes several times as long."""
    return "eager" if bf16 else "sdpa"


def fastest_attention(*, bf16: bool, packed: bool) -> str:
    """On a GPU that which leaves out what the sequences of a row do not see: flash attention where its package is, else flex
    attention."""
    import torch
    from transformers.utils import is_flash_attn_2_available

    if not torch.accelerator.is_available():
        return cpu_attention(bf16=bf16)
    if bf16 and is_flash_attn_2_available():
        return "flash_attention_2"
    return "flex_attention" if packed and torch.cuda.is_available() else "sdpa"


def use_attention(model: Any, name: str, *, bf16: bool, packed: bool) -> None:
    """Gives the model the attention of that name, or for `auto` the fastest.

    Raises:
        InvalidInput: one that cannot train here.
    """
    import torch

    repair = "use --attention auto"
    if name == "flex_attention" and not torch.accelerator.is_available():
        raise InvalidInput("--attention flex_attention needs a GPU to train", got="a CPU", repair=repair)
    if name == "flash_attention_2" and not bf16:
        raise InvalidInput("--attention flash_attention_2 needs --precision bf16", got="fp32", repair=repair)
    try:
        model.set_attn_implementation(fastest_attention(bf16=bf16, packed=packed) if name == "auto" else name)
    except (ImportError, ValueError) as error:
        raise InvalidInput(f"--attention {name} must be installed", got=str(error), repair=repair) from error


__all__ = ["cpu_attention", "fastest_attention", "use_attention"]
