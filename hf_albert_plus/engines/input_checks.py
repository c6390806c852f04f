"""What is checked of the inputs of an engine before it computes: names, shapes, ids and lengths. Nothing here needs torch."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy

from ..errors import InvalidInput
from ..heads import architecture_of
from ..model_inputs import NAMES, input_rank, longest_input


def check_all_given(given: Mapping[str, Any], names: Sequence[str]) -> None:
    """
    Raises:
        InvalidInput: one of the tensors that an engine reads is missing.
    """
    missing = [name for name in names if given.get(name) is None]
    if missing:
        raise InvalidInput(
            f"this engine reads {', '.join(names)}",
            got=f"no {', '.join(missing)}",
            repair="pass what the tokenizer returns",
        )


def check_arrays(arrays: Mapping[str, numpy.ndarray], names: Sequence[str], config: Any) -> None:
    """Refuses what a runtime would answer with an exception of its own, or with a wrong result.

    Args:
        arrays: whole numbers.
        names: the tensors that the engine reads.
        config: of the model.

    Raises:
        InvalidInput: a tensor is missing, of another shape than the ids, too long, or out of range.
    """
    check_all_given(arrays, names)
    ids = arrays["input_ids"]
    if ids.ndim != input_rank(config) or ids.size == 0:
        axes = "[batch, sequence]" if input_rank(config) == 2 else "[batch, choices, sequence]"
        raise InvalidInput(
            f"input_ids must be {axes} with at least one token",
            got=f"shape {list(ids.shape)}",
            repair='tokenise a list of texts with return_tensors="pt"',
        )
    for name in names:
        if arrays[name].shape != ids.shape:
            raise InvalidInput(
                f"{name} must have the shape of input_ids, {list(ids.shape)}",
                got=list(arrays[name].shape),
                repair="pass what one call of the tokenizer returns",
            )
    longest = longest_input(config)
    if ids.shape[-1] > longest:
        raise InvalidInput(
            f"sequences may have at most {longest} tokens",
            got=ids.shape[-1],
            repair=f"tokenise with truncation=True, max_length={longest}",
        )
    limits = {"input_ids": config.vocab_size, "attention_mask": 2}
    if getattr(config, "type_vocab_size", 0):
        limits["token_type_ids"] = config.type_vocab_size
    for name in names:
        if name in limits:
            _check_range(name, arrays[name], limits[name])


def _check_range(name: str, array: numpy.ndarray, limit: int) -> None:
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= limit:
        raise InvalidInput(
            f"{name} must lie between 0 and {limit - 1}",
            got=low if low < 0 else high,
            repair="use the tokenizer of this model" if name == "input_ids" else "pass what the tokenizer returns",
        )


def check_graph(
    path: object, inputs: Sequence[str], outputs: Sequence[str], config: Any, *, known: Collection[str]
) -> None:
    """Refuses a graph that is not an export of a model.

    Args:
        known: outputs that the model may have.

    Raises:
        InvalidInput: it reads or gives other tensors.
    """
    if "input_ids" not in inputs or not set(inputs) <= set(NAMES) or not outputs or not set(outputs) <= set(known):
        raise InvalidInput(
            f"{path} must be an export of this directory's {architecture_of(config)}",
            got=f"a graph from {', '.join(inputs) or 'nothing'} to {', '.join(outputs) or 'nothing'}",
            repair="export the directory again",
        )
