"""From named arrays to the output object that transformers' models of a head return."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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

from hf_albert_plus.errors import InvalidInput, first_line
from hf_albert_plus.export.inputs import NAMES, input_rank
from hf_albert_plus.heads import architecture_of, head_of
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTrainingOutput

if TYPE_CHECKING:
    from hf_albert_plus.export.engines import Engine

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


def check_answer(engine: "Engine") -> None:
    """Refuses a graph that is another model's by what it answers to one short text of the last token.

    Raises:
        InvalidInput: it does not run on what this model reads, or gives outputs of other sizes.
    """
    config, shape = engine.config, (1,) * (input_rank(engine.config) - 1) + (2,)
    last = {"input_ids": config.vocab_size - 1, "attention_mask": 1}
    tensors = {name: torch.full(shape, last.get(name, 0)) for name in engine.inputs}
    repair = "export the directory again"
    rule = f"{engine.file} must be an export of this directory's {architecture_of(config)}"
    try:
        answer = engine.run(tensors)
    except Exception as error:  # a class of its own for each failure of each runtime, none of them public
        raise InvalidInput(rule, got=f"a graph that does not run ({first_line(error)})", repair=repair) from error
    for name, width in _widths(config).items():
        if name in answer and answer[name].shape[-1] != width:
            got = f"{answer[name].shape[-1]} values in {name} where config.json has {width}"
            raise InvalidInput(rule, got=got, repair=repair)


def _widths(config: PreTrainedConfig) -> dict[str, int]:
    """How many values a model gives in the last axis of its outputs, for those of one size."""
    of_logits = {
        "ForMaskedLM": config.vocab_size,
        "ForSequenceClassification": config.num_labels,
        "ForTokenClassification": config.num_labels,
    }
    head = head_of(architecture_of(config), option="the target")
    known = {"last_hidden_state": config.hidden_size, "prediction_logits": config.vocab_size}
    return {**known, "logits": of_logits[head]} if head in of_logits else known


def as_output(kind: type[ModelOutput], values: dict[str, torch.Tensor]) -> ModelOutput:
    return kind(**{name: value.float() for name, value in values.items()})


__all__ = ["as_output", "check_answer", "check_names", "output_class"]
