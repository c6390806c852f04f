"""Encoders that were trained as sentence encoders: what their texts are read by, and classifiers that go on reading it."""

from pathlib import Path
from typing import Any, cast

from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from ..checkpoints import load_classifier
from ..config_files import load_config, optional_file
from ..configuration_albert_plus import AlbertPlusConfig
from ..engines.sentence_files import POOLING, pooling_of
from ..errors import InvalidInput
from ..heads import albert_plus_class, gives_labels
from ..records.progress import say
from ..tasks.task import Task
from ..weight_files import from_pretrained
from .families import FAMILIES
from .models import to_albert_plus
from .settings import Pooling

# Families whose own classifier, a dense layer on the first token, was as good as a single layer on the mean or better, though their sentence encoders
# were trained to be read by the mean (docs/results/pooling.md).
_READ_BY_FIRST = ("mpnet",)


def trained_pooling(source: str | Path) -> Pooling | None:
    """What the texts of a sentence encoder were read by when it was trained, as `1_Pooling/config.json` of its directory or Hub id
    says; None for a model that is none, or that was read in another way."""
    path = optional_file(source, POOLING)
    return None if path is None else pooling_of(path)


def with_pooling(encoder: PreTrainedModel, pooling: Pooling) -> PreTrainedModel:
    """A bare ALBERT-plus encoder that reads texts in another way, without a dense layer, which would be trained for the old one."""
    config = AlbertPlusConfig(**{**encoder.config.to_dict(), "pooling": pooling, "pooler": "none"})
    read: Any = albert_plus_class("Model")(config)
    state = encoder.state_dict()
    read.load_state_dict({name: state[name] for name in read.state_dict()})
    return read.eval()


def open_for_task(source: str, *, task: Task, pooling: Pooling | None = None, option: str) -> PreTrainedModel:
    """A classifier of a task in fp32: a checkpoint's own, or a new one on an encoder that reads texts as it was trained to be read, or by the first
    token in families where that was measured to be as good.

    A sentence encoder that was read by the mean of its tokens becomes an ALBERT-plus encoder that computes the same, as its own
    architecture's classifier reads the first token alone.

    Args:
        pooling: what a new classifier reads, whatever the encoder was trained with.

    Raises:
        InvalidInput: as `load_classifier`; or a pooling that a trained classifier does not have, or that no conversion can give.
    """
    config = load_config(source, option=option)
    if task.answers_parts:
        if pooling is not None:
            raise InvalidInput(
                "--pooling says what of a text one answer is read by",
                got=f"--pooling {pooling} for {task.name}, which has {task.parts}",
                repair="leave it out",
            )
        return load_classifier(source, option=option, task=task)
    if gives_labels(config):
        own = _own_pooling(config)
        if pooling not in (None, own):
            raise InvalidInput(
                "--pooling is for the new classifier of an encoder",
                got=f"--pooling {pooling} for {source}, a classifier that reads the {_in_words(own)}",
                repair="leave it out, or start from the encoder that it was fine-tuned from",
            )
        return load_classifier(source, option=option, task=task)
    trained = trained_pooling(source)
    wanted = _wanted_pooling(config, pooling=pooling, trained=trained)
    if pooling is None and (wanted, trained) == ("first", "mean"):
        say(
            f"reads the first token, as classifiers of {config.model_type} are no better with the mean, which {source} was trained with; "
            "--pooling mean reads that"
        )
    if wanted == _own_pooling(config):
        return load_classifier(source, option=option, task=task)
    obstacle = _obstacle(config)
    if obstacle is not None:
        if pooling is not None:
            raise InvalidInput(
                f"--pooling {pooling} is for encoders that convert into an ALBERT-plus one",
                got=f"{obstacle} in {source}",
                repair="leave --pooling out",
            )
        say(
            f"{source} was trained to be read by the {_in_words(wanted)}, but {obstacle}: its classifier reads the first token"
        )
        return load_classifier(source, option=option, task=task)
    if pooling is None:
        say(f"reads the {_in_words(wanted)}, as {source} was trained to be read; --pooling first reads the first token")
    return _classifier_on(with_pooling(_open_encoder(source, config, option=option), wanted), task)


def new_classifiers_pooling(source: str, config: PreTrainedConfig, *, pooling: Pooling | None) -> Pooling:
    """What a new classifier on an encoder reads: as `open_for_task` has it."""
    wanted = _wanted_pooling(config, pooling=pooling, trained=trained_pooling(source))
    return wanted if _obstacle(config) is None else _own_pooling(config)


def _wanted_pooling(config: PreTrainedConfig, *, pooling: Pooling | None, trained: Pooling | None) -> Pooling:
    if pooling is None and config.model_type in _READ_BY_FIRST:
        return "first"
    return pooling or trained or _own_pooling(config)


def _own_pooling(config: PreTrainedConfig) -> Pooling:
    """What classifiers of an architecture read."""
    return cast(Pooling, getattr(config, "pooling", "first"))


def _in_words(pooling: Pooling) -> str:
    return {"first": "first token", "mean": "mean of the tokens"}[pooling]


def _obstacle(config: PreTrainedConfig) -> str | None:
    """Why an encoder has no ALBERT-plus counterpart, or None if it has."""
    if isinstance(config, AlbertPlusConfig):
        return None
    if config.model_type not in FAMILIES:
        return f"{config.model_type} has no ALBERT-plus counterpart"
    return FAMILIES[config.model_type].obstacle(config, "Model")


def _open_encoder(source: str, config: PreTrainedConfig, *, option: str) -> PreTrainedModel:
    """The bare encoder of a checkpoint as an ALBERT-plus one.

    Raises:
        InvalidInput: it lacks weights.
    """
    encoder, report = from_pretrained(AutoModel, source, option=option, config=config)
    missing = sorted(key for key in report["missing_keys"] if "pooler." not in key)
    if missing:
        raise InvalidInput(
            f"{option} must hold the weights of {type(encoder).__name__}",
            got=f"{source} without {len(missing)} of them ({missing[0]} …)",
            repair="check that config and weights belong together",
        )
    return to_albert_plus(encoder)


def _classifier_on(encoder: PreTrainedModel, task: Task) -> PreTrainedModel:
    """An encoder with a new classifier for a task."""
    names = task.label_names
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}
    fields = {**encoder.config.to_dict(), **labels, "problem_type": task.problem_type}
    classifier: Any = albert_plus_class("ForSequenceClassification")(AlbertPlusConfig(**fields))
    classifier.albert_plus.load_state_dict(encoder.state_dict())
    return classifier
