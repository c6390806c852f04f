"""The tensors of an engine: what it checks of names, types, shapes, ids and lengths before it computes, and the output object that
transformers' models of a head return."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedConfig
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.models.bert.modeling_bert import BertForPreTrainingOutput
from transformers.utils import ModelOutput

from ..base_albert_plus import AlbertPlusForPreTrainingOutput
from ..errors import InvalidInput
from ..heads import architecture_of, head_of
from ..model_inputs import NAMES, input_rank, longest_input


def check_tensors(tensors: Mapping[str, Any], names: tuple[str, ...], config: PreTrainedConfig) -> None:
    """Refuses what a runtime would answer with an exception of its own, or with a wrong result.

    Args:
        names: the tensors that the engine reads.

    Raises:
        InvalidInput: a tensor is missing, no integer tensor, of another shape than the ids, or out of range.
    """
    missing = [name for name in names if tensors.get(name) is None]
    if missing:
        raise InvalidInput(
            f"this engine reads {', '.join(names)}",
            got=f"no {', '.join(missing)}",
            repair="pass what the tokenizer returns",
        )
    for name in names:
        _check_type(name, tensors[name])
    ids = tensors["input_ids"]
    if ids.dim() != input_rank(config) or ids.numel() == 0:
        axes = "[batch, sequence]" if input_rank(config) == 2 else "[batch, choices, sequence]"
        raise InvalidInput(
            f"input_ids must be {axes} with at least one token",
            got=f"shape {list(ids.shape)}",
            repair='tokenise a list of texts with return_tensors="pt"',
        )
    for name in names:
        if tensors[name].shape != ids.shape:
            raise InvalidInput(
                f"{name} must have the shape of input_ids, {list(ids.shape)}",
                got=list(tensors[name].shape),
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
            _check_range(name, tensors[name], limits[name])


def _check_type(name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise InvalidInput(
            f"{name} must be a tensor", got=type(tensor).__name__, repair='tokenise with return_tensors="pt"'
        )
    if tensor.dtype not in (torch.int64, torch.int32):
        raise InvalidInput(
            f"{name} must hold int64", got=str(tensor.dtype).removeprefix("torch."), repair="call .long()"
        )


def _check_range(name: str, tensor: torch.Tensor, limit: int) -> None:
    low, high = (int(value) for value in torch.aminmax(tensor))
    if low < 0 or high >= limit:
        raise InvalidInput(
            f"{name} must lie between 0 and {limit - 1}",
            got=low if low < 0 else high,
            repair="use the tokenizer of this model" if name == "input_ids" else "pass what the tokenizer returns",
        )


_OUTPUTS: dict[str, type[ModelOutput]] = {
    "Model": BaseModelOutputWithPooling,
    "ForMaskedLM": MaskedLMOutput,
    "ForMultipleChoice": MultipleChoiceModelOutput,
    "ForQuestionAnswering": QuestionAnsweringModelOutput,
    "ForSequenceClassification": SequenceClassifierOutput,
    "ForTokenClassification": TokenClassifierOutput,
}


def output_class(config: PreTrainedConfig, names: Sequence[str]) -> type[ModelOutput]:
    """The class of the outputs of a head, from the names of what a graph gives."""
    head = head_of(architecture_of(config), option="the target")
    if head == "ForPreTraining":
        return AlbertPlusForPreTrainingOutput if "sop_logits" in names else BertForPreTrainingOutput
    return _OUTPUTS[head]


def check_names(path: object, inputs: Sequence[str], outputs: Sequence[str], config: PreTrainedConfig) -> None:
    """Refuses a graph that is not an export of this model.

    Raises:
        InvalidInput: it reads or gives other tensors.
    """
    kind: Any = output_class(config, outputs)
    fields = [field.name for field in dataclasses.fields(kind)]
    known = "input_ids" in inputs and set(inputs) <= set(NAMES) and outputs and set(outputs) <= set(fields)
    if not known:
        raise InvalidInput(
            f"{path} must be an export of this directory's {architecture_of(config)}",
            got=f"a graph from {', '.join(inputs) or 'nothing'} to {', '.join(outputs) or 'nothing'}",
            repair="export the directory again",
        )


def as_output(kind: type[ModelOutput], values: dict[str, torch.Tensor]) -> ModelOutput:
    return kind(**{name: value.float() for name, value in values.items()})
