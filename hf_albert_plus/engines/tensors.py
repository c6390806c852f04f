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
from .input_checks import check_all_given, check_arrays, check_graph


def check_tensors(tensors: Mapping[str, Any], names: tuple[str, ...], config: PreTrainedConfig) -> None:
    """Refuses what a runtime would answer with an exception of its own, or with a wrong result.

    Args:
        names: the tensors that the engine reads.

    Raises:
        InvalidInput: a tensor is missing, no integer tensor, of another shape than the ids, or out of range.
    """
    check_all_given(tensors, names)
    for name in names:
        _check_type(name, tensors[name])
    check_arrays({name: tensors[name].numpy() for name in names}, names, config)


def _check_type(name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise InvalidInput(
            f"{name} must be a tensor", got=type(tensor).__name__, repair='tokenise with return_tensors="pt"'
        )
    if tensor.dtype not in (torch.int64, torch.int32):
        raise InvalidInput(
            f"{name} must hold int64", got=str(tensor.dtype).removeprefix("torch."), repair="call .long()"
        )


@dataclasses.dataclass
class SentenceOutput(ModelOutput):
    """An encoder's hidden states `[batch, sequence, hidden]` and the vector of each text, `[batch, hidden]`."""

    last_hidden_state: torch.Tensor | None = None
    sentence_embedding: torch.Tensor | None = None


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
    if head == "Model" and "sentence_embedding" in names:
        return SentenceOutput
    if head == "ForPreTraining":
        return AlbertPlusForPreTrainingOutput if "sop_logits" in names else BertForPreTrainingOutput
    return _OUTPUTS[head]


def check_names(path: object, inputs: Sequence[str], outputs: Sequence[str], config: PreTrainedConfig) -> None:
    """Refuses a graph that is not an export of this model.

    Raises:
        InvalidInput: it reads or gives other tensors.
    """
    kind: Any = output_class(config, outputs)
    check_graph(path, inputs, outputs, config, known=[field.name for field in dataclasses.fields(kind)])


def as_output(kind: type[ModelOutput], values: dict[str, torch.Tensor]) -> ModelOutput:
    return kind(**{name: value.float() for name, value in values.items()})
