"""The weights of a model directory or Hub id: the one place where they are opened.

They are safetensors: finite floating point numbers, of the sizes that the config says.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedConfig
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, cached_file
from typing_extensions import TypedDict

from .config_files import UNFORESEEN, load_config
from .errors import InvalidInput, first_line
from .records.files import read_json

_FLOATS = {"F64", "F32", "F16", "BF16"}
# What a model has that its file may lack, before it is one of another size: a new head, and this many parameters of new exits.
_NEW_PARTS = 1 << 24
_BELONG = "check that config and weights belong together, or export it again"


class _Index(TypedDict):
    """Which file holds a tensor, where there are several."""

    metadata: dict[str, Any]
    weight_map: dict[str, str]


def from_pretrained(
    opener: Any, source: str | Path, *, option: str, config: PreTrainedConfig | None = None, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """A model in fp32 and its loading report, from safetensors alone.

    Args:
        opener: class of a model, or an Auto class.
        config: another config than the checkpoint's.
        options: of the model's class.

    Raises:
        InvalidInput: no safetensors, a broken file, weights of another model or type, or ones that are not finite.
    """
    config = config or load_config(source, option=option)
    try:
        _check_tensors(_without_memory(opener, config, source, option, options), source, option=option)
        model, report = opener.from_pretrained(
            source, config=config, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **options
        )
    except InvalidInput:
        raise
    except (OSError, SafetensorError) as error:
        raise InvalidInput(
            f"{option} must hold its weights as safetensors",
            got=f"{source} ({first_line(error)})",
            repair="save it again with save_pretrained, or download it again",
        ) from None
    except (RuntimeError, ValueError) as error:  # transformers' own for tensors of other shapes
        raise InvalidInput(
            f"{option} must hold weights of the sizes in its config",
            got=f"{source} ({first_line(error)})",
            repair=_BELONG,
        ) from None
    check_finite(model, source)
    return model, report


def check_finite(model: torch.nn.Module, source: str | Path) -> None:
    """Refuses a model that diverged: nothing that is made of it would be of use.

    Raises:
        InvalidInput: weights that are no numbers, or infinite.
    """
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            what = "NaN" if weight.isnan().any() else "infinity"
            raise InvalidInput(
                "weights must be finite",
                got=f"{what} in {name} of {source}",
                repair="train it again with a smaller --learning-rate, or take a checkpoint from before it diverged",
            )


def _without_memory(
    opener: Any, config: PreTrainedConfig, source: str | Path, option: str, options: dict[str, Any]
) -> torch.nn.Module:
    """The model with shapes and no content: what a config asks for, before any memory is given to it."""
    build = opener.from_config if hasattr(opener, "from_config") else opener._from_config
    try:
        with torch.device("meta"):
            model: torch.nn.Module = build(config, **options)
    except UNFORESEEN as error:
        raise InvalidInput(
            f"{option} must have a config.json that its architecture can be built from",
            got=f"{source} ({type(error).__name__}: {first_line(error)})",
            repair="correct config.json, or save the model again with save_pretrained",
        ) from error
    return model


def _check_tensors(model: torch.nn.Module, source: str | Path, *, option: str) -> None:
    """Compares a model with its file's headers.

    Raises:
        InvalidInput: far fewer weights than the model has, ones of other sizes, or whole numbers where it has real ones.
    """
    wanted = {name: list(tensor.shape) for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
    prefix = f"{model.base_model_prefix}."
    stored = 0
    for file in _files(source):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118
                tensor = tensors.get_slice(name)
                stored += torch.Size(tensor.get_shape()).numel()
                known = next((n for n in (name, name.removeprefix(prefix), f"{prefix}{name}") if n in wanted), None)
                if known is None:
                    continue
                if tensor.get_dtype() not in _FLOATS:
                    raise InvalidInput(
                        f"{option} must hold floating point weights",
                        got=f"{tensor.get_dtype()} in {name} of {file}",
                        repair="give the model that it was quantised from",
                    )
                if tensor.get_shape() != wanted[known]:
                    raise InvalidInput(
                        f"{option} must hold weights of the sizes in its config",
                        got=f"{tensor.get_shape()} of {name} in {file}, where config.json says {wanted[known]}",
                        repair=_BELONG,
                    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if stored and parameters > 2 * stored + _NEW_PARTS:
        raise InvalidInput(
            f"{option} must hold weights of the sizes in its config",
            got=f"{stored:,} numbers for the {parameters:,} parameters that {source} says",
            repair=_BELONG,
        )


def _files(source: str | Path) -> list[str]:
    """The files with weights, here or in the Hub's cache; none without safetensors."""
    single = cached_file(source, SAFE_WEIGHTS_NAME, _raise_exceptions_for_missing_entries=False)
    if single is not None:
        return [single]
    index = cached_file(source, SAFE_WEIGHTS_INDEX_NAME, _raise_exceptions_for_missing_entries=False)
    if index is None:
        return []
    content = read_json(Path(index), what="the index of weights", shape=_Index, repair="save the model again")
    names = sorted(set(content["weight_map"].values()))
    elsewhere = [name for name in names if Path(name).name != name]
    if elsewhere or not names:
        raise InvalidInput(
            "the index of weights must name files beside it",
            got=f"{elsewhere[0] if elsewhere else 'none'} in {index}",
            repair="save the model again",
        )
    return [str(cached_file(source, name)) for name in names]
