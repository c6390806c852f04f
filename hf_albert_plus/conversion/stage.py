"""The convert stage: a checkpoint in, a directory with the same function, or with a named start for another one, out."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel

from ..checkpoints import load_config, open_as_trained
from ..configuration_albert_plus import AlbertPlusConfig
from ..errors import InvalidInput
from ..glue import load_tokenizer
from ..records import Record, parent, run_stage
from .compare import max_difference
from .families import CONVERTIBLE
from .models import from_albert_plus, to_albert_plus

if TYPE_CHECKING:
    from ..initialise import Initialisation

_TOLERANCE = 1e-4


def _open(source: str) -> PreTrainedModel:
    config = load_config(source, option="SOURCE")
    if config.model_type not in CONVERTIBLE:
        raise InvalidInput(
            f"SOURCE must be of one of the architectures {', '.join(CONVERTIBLE)}",
            got=f"{config.model_type} in {source}",
            repair="start from one of those, or distil this model into a student with albert-plus distill",
        )
    return open_as_trained(source, option="SOURCE")


def convert(
    source: str,
    *,
    output: Path,
    variant: str | None = None,
    overrides: dict[str, Any] | None = None,
    initialise: "Initialisation" = "average",
    layers: list[int] | None = None,
    to: str | None = None,
) -> Record:
    """Converts a directory or Hub id.

    Without further arguments the outcome is the ALBERT-plus model that computes the same, checked on random tokens. With
    a variant or overrides it is a model of that config *started* from the source's weights: it has to be trained.

    Args:
        output: the directory to make: model, tokenizer, record.json.
        variant: name of the architecture to start.
        overrides: config fields to set.
        initialise: how the source's layers become blocks: `average`, `first` or `svd`.
        layers: the source's layer for every layer of the new model.
        to: `bert` or `albert`: convert an ALBERT-plus source back to that architecture.
    """
    starts_new = bool(variant or overrides or layers)
    if to is not None and starts_new:
        raise InvalidInput(
            "--to keeps the function and goes with neither --variant nor --set nor --layers",
            got=f"--to {to} beside them",
            repair="convert twice, the second time with --to",
        )

    if initialise != "average" and not starts_new:
        raise InvalidInput(
            "--initialise says how to start another model, with --variant, --set or --layers",
            got=f"--initialise {initialise} alone",
            repair="leave it out to keep the function, or say which model to start",
        )

    def work(directory: Path) -> dict[str, Any]:
        model = _open(source)
        if starts_new:
            converted, facts = _start(
                model, variant=variant, overrides=overrides or {}, method=initialise, layers=layers
            )
        else:
            converted, facts = _keep(model, to=to)
        converted.save_pretrained(directory)
        load_tokenizer(source, converted.config).save_pretrained(directory)
        return {"architecture": type(converted).__name__, "parameters": converted.num_parameters(), **facts}

    settings = {"variant": variant, "overrides": overrides or {}, "layers": layers, "to": to,
                "initialise": initialise if starts_new else None}  # fmt: skip
    return run_stage("convert", output, settings=settings, parents={"source": parent(source)}, work=work)


def _keep(model: PreTrainedModel, *, to: str | None) -> tuple[PreTrainedModel, dict[str, Any]]:
    is_ours = model.config.model_type == AlbertPlusConfig.model_type
    if is_ours and to is None:
        raise InvalidInput(
            "SOURCE is an ALBERT-plus model already: it converts --to bert or --to albert, or starts a --variant",
            got=model.name_or_path,
            repair="add one of these options",
        )
    converted = to_albert_plus(model)
    if to is not None:
        converted = from_albert_plus(converted, to=to)
    difference = max_difference(model, converted)
    if not difference <= _TOLERANCE:
        raise InvalidInput(
            f"a conversion must change outputs and hidden states by at most {_TOLERANCE}",
            got=f"{difference:.3g}",
            repair="report this checkpoint's config",
        )
    return converted, {"max_abs_difference": difference}


def _start(
    model: PreTrainedModel,
    *,
    variant: str | None,
    overrides: dict[str, Any],
    method: "Initialisation",
    layers: list[int] | None,
) -> tuple[PreTrainedModel, dict[str, Any]]:
    from ..initialise import initialise
    from ..variants import derived_config

    source: Any = to_albert_plus(model).config
    config = derived_config(source, variant=variant, overrides=overrides)
    started, name = initialise(model, config, method=method, layers=layers)
    return started, {"initialised": name}


__all__ = ["convert"]
