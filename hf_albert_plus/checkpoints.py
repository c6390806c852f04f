"""Opening model directories and Hub ids, with nothing missing in silence."""

from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel

from .errors import InvalidInput
from .glue import Task


def load_config(source: str | Path, *, option: str) -> PreTrainedConfig:
    """The config of a model directory or Hub id.

    Raises:
        InvalidInput: there is none, or transformers does not know its architecture.
    """
    try:
        return AutoConfig.from_pretrained(source)
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidInput(
            f"{option} must be a model directory that from_pretrained opens, or a Hub id",
            got=f"{str(source)!r} ({first})",
            repair="check the path, or the network if you mean the Hub",
        ) from None


def load_classifier(source: str | Path, *, option: str, task: Task | None = None) -> PreTrainedModel:
    """Loads a classifier in fp32.

    Args:
        task: fit a new head for this task where the checkpoint has none; without it the checkpoint must have one.

    Raises:
        InvalidInput: the checkpoint lacks encoder weights, has ones that the architecture does not read, or its
            classifier is not of the task.
    """
    import torch

    options: dict[str, Any] = {}
    config = load_config(source, option=option)
    has_head = any("SequenceClassification" in name for name in config.architectures or [])
    if task is not None and has_head and config.num_labels != task.num_labels:
        raise InvalidInput(
            f"{option} must be a bare encoder or a classifier with the {task.num_labels} labels of {task.name}",
            got=f"{source} with {config.num_labels} labels",
            repair="start from the encoder it was fine-tuned from",
        )
    if task is not None:
        names = list(task.labels) or ["score"]
        options = {
            "num_labels": task.num_labels,
            "id2label": dict(enumerate(names)),
            "label2id": {name: i for i, name in enumerate(names)},
            "problem_type": "regression" if task.is_regression else "single_label_classification",
        }
    model, report = AutoModelForSequenceClassification.from_pretrained(
        source, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **options
    )
    encoder = f"{model.base_model_prefix}."
    head_may_be_new = task is not None and not has_head
    missing = sorted(
        key
        for key in report["missing_keys"]
        if not head_may_be_new or (key.startswith(encoder) and ".pooler." not in key)
    )
    unread = sorted(key for key in report["unexpected_keys"] if key.startswith(encoder) and "position_ids" not in key)
    if missing or unread or report["mismatched_keys"]:
        facts = [f"{len(missing)} missing ({missing[0]} …)"] if missing else []
        facts += [f"{len(unread)} unread ({unread[0]} …)"] if unread else []
        facts += [f"{len(report['mismatched_keys'])} of another shape"] if report["mismatched_keys"] else []
        raise InvalidInput(
            f"{option} must hold the weights of {type(model).__name__}",
            got=f"{source} with {', '.join(facts)}",
            repair="fine-tune it first (albert-plus finetune)"
            if task is None
            else "check that config and weights belong together",
        )
    return model


__all__ = ["load_classifier", "load_config"]
