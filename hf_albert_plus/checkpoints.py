"""Opening model directories and Hub ids, with nothing missing in silence."""

from pathlib import Path
from typing import Any

from transformers import AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel

from .config_files import load_config
from .errors import InvalidInput
from .glue import Task
from .twin_albert_plus import AlbertPlusTwinModel
from .weight_files import from_pretrained


def open_as_trained(source: str | Path, *, option: str) -> PreTrainedModel:
    """Opens a checkpoint with the head it was saved with, in fp32 and eval mode.

    Raises:
        InvalidInput: another head than `HEADS` has, or weights that are missing or left over.
    """
    from .heads import architecture_of, auto_class, head_of

    config = load_config(source, option=option)
    architecture = architecture_of(config)
    head = head_of(architecture, option=f"{option} ({source})")
    model, report = from_pretrained(auto_class(head), source, option=option, config=config)
    if head == "Model" and report["missing_keys"] and all(key.startswith("pooler.") for key in report["missing_keys"]):
        model, report = from_pretrained(auto_class(head), source, option=option, config=config, add_pooling_layer=False)
    unread = sorted(key for key in report["unexpected_keys"] if "position_ids" not in key)
    for what, names in (("missing", sorted(report["missing_keys"])), ("unread", unread)):
        if names:
            raise InvalidInput(
                f"{option} must hold the weights of {architecture} and no others",
                got=f"{len(names)} {what} ({names[0]} …) in {source}",
                repair="save it with the class it was trained as, or correct architectures in its config.json",
            )
    return model.eval()


def load_towers(source: str | Path, *, option: str) -> AlbertPlusTwinModel:
    """Loads two towers in fp32.

    Raises:
        InvalidInput: weights that are missing or left over.
    """
    model, report = from_pretrained(AlbertPlusTwinModel, source, option=option)
    wrong = sorted({*report["missing_keys"], *report["unexpected_keys"]})
    if wrong:
        raise InvalidInput(
            f"{option} must hold the weights of AlbertPlusTwinModel and no others",
            got=f"{len(wrong)} missing or unread ({wrong[0]} …) in {source}",
            repair="check that config and weights belong together",
        )
    return model


def check_trainable(source: str | Path, config: PreTrainedConfig, *, option: str, trains_exits: bool = False) -> None:
    """Refuses to train the encoder of a model with parts that were fitted to it as it is.

    Args:
        trains_exits: whether the training fits its exits again.

    Raises:
        InvalidInput: exits, whose classifiers and threshold would be those of another encoder; or few bits, which would be lost.
    """
    from .compression.quantisation import SCHEME

    exits = getattr(config, "exit_layers", None)
    if exits and not trains_exits:
        raise InvalidInput(
            f"{option} must have no exits: they would go on as they were trained, on an encoder that is another one",
            got=f"{source} with exits after layers {', '.join(map(str, exits))}",
            repair="train the model before its exits, or set exit_layers to null in its config",
        )
    if (Path(source) / SCHEME).is_file():
        raise InvalidInput(
            f"{option} must not be trained for few bits already: its grids and ranges would be lost",
            got=f"{source} with {SCHEME}",
            repair="give the model that it was made from, and let albert-plus qat be the last to train it",
        )


def check_label_order(config: PreTrainedConfig, task: Task, *, option: str) -> None:
    """Refuses a classifier that has the task's label names under other ids: its predictions would count as others.

    Raises:
        InvalidInput: such an order.
    """
    id2label: Any = config.id2label
    names = [str(id2label[i]).lower() for i in sorted(id2label)]
    wanted = [name.lower() for name in task.labels]
    if names != wanted and sorted(names) == sorted(wanted):
        raise InvalidInput(
            f"{option} must number the labels of {task.name} as {', '.join(task.labels)}",
            got=", ".join(names),
            repair="permute its classifier's rows and id2label",
        )


def load_classifier(
    source: str | Path, *, option: str, task: Task | None = None, config: PreTrainedConfig | None = None
) -> PreTrainedModel:
    """Loads a classifier in fp32.

    Args:
        config: another config than the checkpoint's, labels included; parts that it adds start at random.
        task: fit a new head for this task where the checkpoint has none; without it the checkpoint must have one.

    Raises:
        InvalidInput: the checkpoint lacks encoder weights, has ones that the architecture does not read, or its
            classifier is not of the task.
    """
    saved = load_config(source, option=option)
    has_head = any("SequenceClassification" in name for name in saved.architectures or [])
    if task is not None and has_head and saved.num_labels != task.num_labels:
        raise InvalidInput(
            f"{option} must be a bare encoder or a classifier with the {task.num_labels} labels of {task.name}",
            got=f"{source} with {saved.num_labels} labels",
            repair="start from the encoder it was fine-tuned from",
        )
    if task is not None and config is None:
        names = list(task.labels) or ["score"]
        saved.id2label = dict(enumerate(names))
        saved.label2id = {name: i for i, name in enumerate(names)}
        saved.problem_type = "regression" if task.is_regression else "single_label_classification"
    model, report = from_pretrained(AutoModelForSequenceClassification, source, option=option, config=config or saved)
    encoder = f"{model.base_model_prefix}."
    head_may_be_new = task is not None and not has_head
    missing = sorted(
        key
        for key in report["missing_keys"]
        if not (head_may_be_new or (config is not None and key.startswith("exits.")))
        or (key.startswith(encoder) and ".pooler." not in key)
    )
    parts = {name for name, _ in getattr(model, model.base_model_prefix).named_children()}
    unread = sorted(
        key
        for key in report["unexpected_keys"]
        # A bare encoder's checkpoint names its tensors without the prefix. Poolers go unread in some architectures.
        if (key.startswith(encoder) or key.partition(".")[0] in parts)
        and not any(part in key for part in ("position_ids", "pooler."))
    )
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


__all__ = [
    "check_label_order",
    "check_trainable",
    "from_pretrained",
    "load_classifier",
    "load_config",
    "load_towers",
    "open_as_trained",
]
