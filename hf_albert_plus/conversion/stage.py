"""The convert stage: a checkpoint in, a directory with the same function, or with a named start for another one, out."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from ..checkpoints import has_tokenizer, open_as_trained
from ..config_building import derived_config
from ..config_files import load_config
from ..configuration_albert_plus import AlbertPlusConfig
from ..errors import InvalidInput
from ..model_inputs import longest_input
from ..records.progress import say
from ..records.record import Record, parent
from ..records.stage import run_stage
from ..tasks.rows import load_tokenizer
from ..tasks.splits import data_parent
from ..tasks.task import Task
from ..tasks.task_file import read_task, write_task
from .encoder_alone import encoder_alone
from .families import CONVERTIBLE
from .initialise import initialise as start
from .models import from_albert_plus, max_difference, to_albert_plus
from .occurrences import occurrences_in_task
from .sentence_encoders import trained_pooling, with_pooling
from .settings import Initialisation

_TOLERANCE = 1e-4
# Tokens of a text that are counted.
_LONGEST = 128


@dataclass(frozen=True)
class Converted:
    """A model that was made from another one.

    Attributes:
        max_abs_difference: how far its outputs are from the source's; None where it only starts from the source.
        initialised: how its weights came from the source's; None where it computes the same.
    """

    model: PreTrainedModel
    max_abs_difference: float | None = None
    initialised: str | None = None

    def describe(self) -> dict[str, Any]:
        """The facts as a record has them."""
        facts = {"max_abs_difference": self.max_abs_difference, "initialised": self.initialised}
        return {
            "architecture": type(self.model).__name__,
            "parameters": self.model.num_parameters(),
            **{name: value for name, value in facts.items() if value is not None},
        }


def convert(
    source: str,
    *,
    output: Path,
    variant: str | None = None,
    overrides: dict[str, Any] | None = None,
    initialise: Initialisation = "average",
    layers: list[int] | None = None,
    to: str | None = None,
    data: str | None = None,
    task: Task | None = None,
) -> Record:
    """Converts a directory or Hub id.

    Without further arguments the outcome is the ALBERT-plus model that computes the same, checked on random tokens. With
    a variant or overrides it is a model of that config *started* from the source's weights: it has to be trained.

    A directory without a tokenizer is converted too; what comes out has none either, which stderr says.

    Args:
        output: the directory to make: model, tokenizer, record.json.
        variant: name of the architecture to start.
        overrides: config fields to set.
        initialise: how the source's layers become blocks: `average`, `first` or `svd`.
        layers: the source's layer for every layer of the new model.
        to: `bert`, `albert` or `mobilebert`: convert an ALBERT-plus source back to that architecture; or `encoder`: a source of any
            architecture without its head.
        data, task: whose training texts narrower embeddings should keep the most of.
    """
    starts_new, drops_head = bool(variant or overrides or layers), to == "encoder"
    if to is not None and starts_new:
        raise InvalidInput(
            "--to keeps the function and goes with neither --variant nor --set nor --layers",
            got=f"--to {to} beside them",
            repair="convert twice, the second time with --to",
        )

    if data is not None and not starts_new:
        raise InvalidInput(
            "--data says which texts narrower embeddings should keep the most of, with --variant or --set",
            got=f"--data {data} alone",
            repair="add --set embedding_size=128, or leave it out",
        )
    if initialise != "average" and not starts_new:
        raise InvalidInput(
            "--initialise says how to start another model, with --variant, --set or --layers",
            got=f"--initialise {initialise} alone",
            repair="leave it out to keep the function, or say which model to start",
        )

    def work(directory: Path) -> dict[str, Any]:
        model = encoder_alone(source) if drops_head else _open(source)
        if drops_head:
            converted = Converted(model)
        elif starts_new:
            ours: Any = to_albert_plus(model).config
            config, occurrences = derived_config(ours, variant=variant, overrides=overrides or {}), None
            if data is not None and task is not None:
                tokenizer = load_tokenizer(source, model.config)
                occurrences = occurrences_in_task(data, task, tokenizer, config, max_length=_LONGEST)
            started, done = start(model, config, method=initialise, layers=layers, occurrences=occurrences)
            converted = Converted(started, initialised=done)
        else:
            converted = _keep(model, to=to)
            if to is None:
                converted = _read_as_trained(converted, source)
        converted.model.save_pretrained(directory)
        if Path(source).is_dir() and not has_tokenizer(Path(source)):
            say(f"{source} has no tokenizer: the weights are converted, and {output} gets no tokenizer either")
        else:
            tokenizer = load_tokenizer(source, converted.model.config)
            if longest_input(converted.model.config) > longest_input(model.config):
                # It cuts texts by itself, at the positions that there were.
                tokenizer.model_max_length = longest_input(converted.model.config)
            tokenizer.save_pretrained(directory)
        carried = None if starts_new or drops_head else read_task(source)
        if carried is not None:
            write_task(directory, carried)
        return converted.describe()

    parents: dict[str, Any] = {"source": parent(source)}
    if data is not None and task is not None:
        parents["data"] = data_parent(data, task)
    settings = {"variant": variant, "overrides": overrides or {}, "layers": layers, "to": to,
                "initialise": initialise if starts_new else None, **(task.settings if task else {})}  # fmt: skip
    return run_stage("convert", output, settings=settings, parents=parents, work=work)


def _open(source: str) -> PreTrainedModel:
    """The source with the head that it was saved with."""
    config = load_config(source, option="SOURCE")
    if config.model_type not in CONVERTIBLE:
        raise InvalidInput(
            f"SOURCE must be of one of the architectures {', '.join(CONVERTIBLE)}",
            got=f"{config.model_type} in {source}",
            repair="start from one of those, or distil this model into a student with albert-plus distill",
        )
    return open_as_trained(source, option="SOURCE")


def _keep(model: PreTrainedModel, *, to: str | None) -> Converted:
    """The model that computes what the source does, checked on random tokens."""
    is_ours = model.config.model_type == AlbertPlusConfig.model_type
    if is_ours and to is None:
        raise InvalidInput(
            "SOURCE is an ALBERT-plus model already: it converts --to bert, albert, mobilebert or encoder, or starts a --variant",
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
    return Converted(converted, max_abs_difference=difference)


def _read_as_trained(converted: Converted, source: str) -> Converted:
    """A sentence encoder's conversion reads texts as it was trained to be read: its `pooler_output` is the mean of its tokens, where
    that of the source is a dense layer on the first."""
    if trained_pooling(source) != "mean" or type(converted.model).__name__ != "AlbertPlusModel":
        return converted
    say(f"reads the mean of the tokens, as {source} was trained to be read")
    return replace(converted, model=with_pooling(converted.model, "mean"))
