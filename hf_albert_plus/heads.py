"""The heads, by the suffix that transformers' class names have in common."""

from typing import TYPE_CHECKING, Any

from .errors import InvalidInput

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from .tasks.task import Task

HEADS = (
    "Model",
    "ForPreTraining",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
# What transformers calls the outputs of a model of spans, `[batch, sequence]` each.
SPAN_LOGITS = ("start_logits", "end_logits")
# Classes whose names end as a bare encoder's, and which are none.
_OTHER_MODELS = ("LMHeadModel", "TwinModel")


def architecture_of(config: "PreTrainedConfig") -> str:
    """Name of the class that a model was saved as; words that no class ends with where the config has none."""
    named = getattr(config, "architectures", None) or ["no architecture in its config"]
    return str(named[0])


def is_classifier(config: "PreTrainedConfig") -> bool:
    """Whether a model was saved with a head that classifies whole texts."""
    return architecture_of(config).endswith("ForSequenceClassification")


def is_tagger(config: "PreTrainedConfig") -> bool:
    """Whether a model was saved with a head that classifies tokens."""
    return architecture_of(config).endswith("ForTokenClassification")


def is_answerer(config: Any) -> bool:
    """Whether a model was saved with a head that answers questions by spans of their contexts."""
    return architecture_of(config).endswith("ForQuestionAnswering")


def gives_labels(config: Any) -> bool:
    """Whether a model was saved with a head that learned labels: one that classifies texts or tokens, or answers questions by spans."""
    return is_classifier(config) or is_tagger(config) or is_answerer(config)


def task_head(config: "PreTrainedConfig") -> str:
    """The suffix of the head of a model that was trained on a task, that of a classifier of texts where it was not."""
    heads = {"ForTokenClassification": is_tagger, "ForQuestionAnswering": is_answerer}
    return next((head for head, has_it in heads.items() if has_it(config)), "ForSequenceClassification")


def is_bare_encoder(config: Any) -> bool:
    """Whether a model was saved without a head."""
    name = architecture_of(config)
    return name.endswith("Model") and not name.endswith(_OTHER_MODELS)


def answers(config: "PreTrainedConfig", task: "Task") -> bool:
    """Whether a model was saved with the head that a task asks for."""
    return architecture_of(config).endswith(task.head)


def head_of(architecture: str, *, option: str) -> str:
    """Suffix of an architecture's name: `BertForMaskedLM` -> `ForMaskedLM`.

    Raises:
        InvalidInput: none of `HEADS`.
    """
    for head in HEADS:
        if architecture.endswith(head) and not architecture.endswith(_OTHER_MODELS):
            return head
    raise InvalidInput(
        f"{option} must be an encoder with one of the heads {', '.join(HEADS)}",
        got=architecture,
        repair="open it as one of these and save it with save_pretrained first",
    )


def auto_class(head: str) -> Any:
    """The Auto class that opens checkpoints with a head."""
    import transformers

    return getattr(transformers, f"Auto{head}" if head == "Model" else f"AutoModel{head}")


def albert_plus_class(head: str) -> Any:
    """Our model with a head."""
    # Importing transformers' models takes seconds.
    from . import modeling_albert_plus as modeling

    return getattr(modeling, f"AlbertPlus{head}")
