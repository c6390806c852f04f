"""The reader of config.json: the one place where it is opened. Its shape and its sizes are checked first, then transformers reads it."""

import sys
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig
from transformers.utils import CONFIG_NAME, cached_file
from typing_extensions import TypedDict

from .configuration_albert_plus import LARGEST, OUR_MODULES, AlbertPlusConfig, check_labels
from .errors import InvalidInput, first_line
from .hub_connection import check_model
from .records.files import read_json

_REPAIR = "correct config.json, or save the model again with save_pretrained"
# What the configs and models of transformers' architectures raise at values that they do not foresee.
UNFORESEEN = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, OSError, RuntimeError, StrictDataclassError, TypeError,
    ValueError,
)  # fmt: skip
# Sizes that can be none: no token types, or no bottleneck.
_MAY_BE_ZERO = {"type_vocab_size", "bottleneck_size"}


class _ConfigFile(TypedDict, total=False):
    """What every config has, in JSON."""

    __pydantic_config__ = {"extra": "allow"}  # type: ignore[misc]  # noqa: RUF012

    model_type: str
    architectures: list[str] | None
    id2label: dict[str, str] | None
    label2id: dict[str, int] | None
    num_labels: int | None
    problem_type: Literal["regression", "single_label_classification", "multi_label_classification"] | None
    pad_token_id: int | None
    auto_map: dict[str, Any] | None
    dtype: str | None
    torch_dtype: str | None


def load_config(source: str | Path, *, option: str, **fields: Any) -> PreTrainedConfig:
    """The config of a model directory or Hub id. Code that comes with it is neither run nor handed on.

    Args:
        fields: values that replace the file's.

    Raises:
        InvalidInput: there is none, transformers does not know its architecture, or its values are not those of a text encoder.
    """
    path = _file(source, option=option)
    content: Any = read_json(path, what=f"config.json of {option}", shape=_ConfigFile, repair=_REPAIR)
    try:
        _check_content(content)
        config = AutoConfig.from_pretrained(source, trust_remote_code=False, **fields)
        _check(config)
    except InvalidInput as error:
        raise InvalidInput(
            f"{option} must have a config.json of a text encoder: {error.rule}",
            got=f"{error.got} in {path}",
            repair=error.repair,
        ) from None
    except UNFORESEEN as error:
        raise InvalidInput(
            f"{option} must be a model directory that from_pretrained opens, or a Hub id",
            got=f"{str(source)!r} ({_last_line(error)})",
            repair=_REPAIR,
        ) from error
    # Whoever runs the model decides what it gives out.
    config.output_hidden_states, config.output_attentions, config.return_dict = False, False, True
    _drop_code(config, content.get("auto_map"), source)
    return config


def _file(source: str | Path, *, option: str) -> Path:
    """The path of config.json, here or in the Hub's cache."""
    check_model(source, option=option)
    try:
        path = cached_file(str(source), CONFIG_NAME)
        if path is None:
            raise OSError(f"no {CONFIG_NAME}")
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{option} must be a model directory that from_pretrained opens, or a Hub id",
            got=f"{str(source)!r} ({first_line(error)})",
            repair="check the path, or the network if you mean the Hub",
        ) from None
    return Path(path)


def _check_content(content: dict[str, Any]) -> None:
    """Refuses what transformers would make something of before it could be looked at.

    Raises:
        InvalidInput: a size that no encoder has, or weights that are no floating point numbers.
    """
    kind = CONFIG_MAPPING[content["model_type"]] if content.get("model_type") in CONFIG_MAPPING else PreTrainedConfig
    for name, most in LARGEST.items():
        least = 0 if name in _MAY_BE_ZERO else 1
        for field in dict.fromkeys((name, kind.attribute_map.get(name, name))):
            size = content.get(field)
            if isinstance(size, int) and not least <= size <= most:
                raise InvalidInput(f"{field} must be from {least} to {most}", got=size, repair=_REPAIR)
    for field in content:
        if callable(getattr(kind, field, None)):
            raise InvalidInput("config.json must have fields of a config", got=repr(field), repair="remove that field")
    if content.get("chunk_size_feed_forward") not in (None, 0):
        raise InvalidInput(
            "chunk_size_feed_forward must be 0: texts have lengths that are no multiples of another one",
            got=content["chunk_size_feed_forward"],
            repair="use 0, which computes the same",
        )
    if content.get("quantization_config") is not None:
        raise InvalidInput(
            "the weights must be floating point numbers",
            got="quantization_config",
            repair="give the model that it was quantised from",
        )


def optional_file(source: str | Path, name: str) -> Path | None:
    """A file of a model directory or Hub id; None where it has none of that name."""
    path = cached_file(
        str(source),
        name,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        _raise_exceptions_for_gated_repo=False,
    )
    return None if path is None else Path(path)


def _check(config: PreTrainedConfig) -> None:
    """Refuses a config that is not one of a text encoder.

    Raises:
        InvalidInput: no text encoder, or values of one that do not fit together.
    """
    for name in ("vocab_size", "hidden_size", "num_hidden_layers"):
        if not isinstance(getattr(config, name, None), int):
            raise InvalidInput(
                f"{name} must be a number",
                got=f"{getattr(config, name, 'none')} (model_type {config.model_type})",
                repair="give a text encoder, such as BERT, ALBERT or RoBERTa",
            )
    pad: Any = config.pad_token_id
    if pad is not None and not 0 <= pad < config.vocab_size:
        raise InvalidInput(f"pad_token_id must lie below vocab_size ({config.vocab_size})", got=pad, repair=_REPAIR)
    if isinstance(config.dtype, torch.dtype) and not config.dtype.is_floating_point:
        raise InvalidInput("dtype must be one of floating point", got=config.dtype, repair='use "float32"')
    check_labels(config)


def _drop_code(config: PreTrainedConfig, names: dict[str, Any] | None, source: str | Path) -> None:
    """Takes the names of foreign code out of a config, so that nothing that is saved with it asks for code that is missing.

    Names of our own code belong to our config and stay.
    """
    if not all(is_our_code(name) for name in (names or {}).values()):
        _say_dropped(str(source))
    if not isinstance(config, AlbertPlusConfig) and hasattr(config, "auto_map"):
        del config.auto_map


def is_our_code(name: Any) -> bool:
    """Whether an entry of an auto_map names a class of this package's files, and not of a repository elsewhere."""
    return str(name).partition(".")[0] in OUR_MODULES


@cache
def _say_dropped(source: str) -> None:
    print(f"the code that {source} names in auto_map is neither run nor handed on", file=sys.stderr)


def _last_line(error: Exception) -> str:
    """What transformers says, which for a strict dataclass stands behind a line of its own."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return (lines[-1] if isinstance(error, StrictDataclassError) else lines[0]).strip()
