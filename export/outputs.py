"""From named arrays to the output object that transformers' models of a head return."""

import dataclasses
from collections.abc import Sequence
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

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.inputs import NAMES
from hf_albert_plus.heads import architecture_of, head_of
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTrainingOutput

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


__all__ = ["as_output", "check_names", "output_class"]
