"""What a forward pass computes inside, one set of tensors a *call*, so that a shared block gives one for each layer."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from ..errors import InvalidInput
from ..model_outputs import logits_of
from ..pooling_albert_plus import read_sequences

Need = Literal["logits", "hidden_states", "attention", "exits", "vectors"]


@dataclass(frozen=True)
class Capture:
    """What one model computed for a batch.

    Attributes:
        output: the model's own output object, its loss among it where labels were given.
        hidden_states: the first layer's input and every layer's output, M + 1 of `[B, S, H]`.
        queries, keys, values: of every layer's call, M of `[B, N, S, D]` each.
        pooling: what the model's heads read of hidden states.
    """

    output: Any
    hidden_states: tuple[torch.Tensor, ...] = ()
    queries: tuple[torch.Tensor, ...] = ()
    keys: tuple[torch.Tensor, ...] = ()
    values: tuple[torch.Tensor, ...] = ()
    pooling: str = "first"

    @property
    def logits(self) -> torch.Tensor:
        """Of classes, of start and end at every token, or of a vocabulary there: the last has another name beside a head for the order of
        segments."""
        has_order = "prediction_logits" in self.output
        return (self.output.prediction_logits if has_order else logits_of(self.output)).float()

    @property
    def vectors(self) -> torch.Tensor:
        """Of the texts, `[B, W]`, where the model is a sentence encoder."""
        vectors_BW: torch.Tensor = self.output.sentence_embedding
        return vectors_BW.float()

    def read(self, states: slice | Sequence[int], mask_BS: torch.Tensor) -> torch.Tensor:
        """What heads would read of these hidden states, M of them, `[B, M, H]`."""
        chosen = self.hidden_states[states] if isinstance(states, slice) else [self.hidden_states[i] for i in states]
        return torch.stack([read_sequences(state, mask_BS, pooling=self.pooling) for state in chosen], dim=1)


class AttentionCalls(TorchFunctionMode):
    """Keeps, while entered, queries, keys and values of each call of torch's scaled dot product attention, in order.

    It sees calls and not modules: who owns the weights does not matter, and no model is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is scaled_dot_product_attention:
            named = dict(zip(("query", "key", "value"), args, strict=False)) | kwargs
            self.calls.append((named["query"], named["key"], named["value"]))
        return function(*args, **kwargs)


def capture(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], *, needs: frozenset[Need]) -> Capture:
    """Runs `model(**inputs)` and returns what of its inside is needed, in fp32 and with gradients where the model has them.

    Raises:
        InvalidInput: attention is needed of a model whose layers do not go through scaled dot product attention.
    """
    options = {f"output_{name}": True for name in ("hidden_states", "exits") if name in needs}
    with AttentionCalls() if "attention" in needs else nullcontext() as attention:
        output = model(**inputs, **options)
    hidden_states = _floats(output.hidden_states if "hidden_states" in needs else ())
    pooling = getattr(model.config, "pooling", "first")
    if attention is None:
        return Capture(output, hidden_states, pooling=pooling)
    layers = model.config.num_hidden_layers
    if len(attention.calls) != layers:
        raise InvalidInput(
            "attention can be captured where every layer calls scaled_dot_product_attention once",
            got=f"{len(attention.calls)} calls of {type(model).__name__} with {layers} layers and "
            f"attn_implementation={model.config._attn_implementation!r}",
            repair="open it with attn_implementation='sdpa', or choose a method without attention terms",
        )
    queries, keys, values = zip(*attention.calls, strict=True)
    return Capture(output, hidden_states, _floats(queries), _floats(keys), _floats(values), pooling)


def _floats(tensors: Any) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.float() for tensor in tensors)
