"""The metadata that the Hub reads at the head of a card: where a model comes from, as far as the records behind it know, and how it scores."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_albert_plus.engines.artefacts import ARTEFACTS
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.records.record import RECORD, open_record, training_record

# Which of what a stage read is the model that the next one began from, the likeliest first.
_MODELS = ("model", "source", "student", "teacher")
# Stages that leave what a model computes as it was, but for the precision.
_UNTRAINED = {"export", "adopt", "convert", "calibrate", "calibrate-scores"}
_OF_THE_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]*")
_LANGUAGE = re.compile(r"[a-z]{2,3}|multilingual|code")


def hub_facts(directory: Path, *, language: str | None = None) -> dict[str, Any]:
    """What a model's metadata can say of its origin: base model and its relation, licence, language and data sets, each where it is known.

    The base model is the first one of the Hub behind the directory's records; its licence is that of the nearest model whose card is at
    hand, here or in the Hub's cache.

    Args:
        language: of the task's texts, where that is known.
    """
    chain = list(_behind(directory))
    facts: dict[str, Any] = {}
    for record in chain:
        facts = {**hub_facts_of(record), **facts}
    if "base_model" in facts and all(record.get("stage") in _UNTRAINED for record in chain):
        facts.pop("base_model_relation", None)
        if any((directory / artefact.file).is_file() for artefact in _quantised()):
            facts["base_model_relation"] = "quantized"
    sources = [directory, *(_parent_model(record) for record in chain)]
    cards = [_card_metadata(source) for source in sources if source]
    for name, value in (("license", None), ("language", language)):
        known = value or next((card[name] for card in cards if isinstance(card.get(name), str)), None)
        if known:
            facts[name] = known
    return facts


def with_words(facts: Mapping[str, Any], said: Mapping[str, str]) -> dict[str, Any]:
    """The facts with what a user says of a model, as `check_hub_words` gives it. A base model that is said was trained further."""
    relation = {"base_model_relation": "finetune"} if "base_model" in said else {}
    return {**relation, **facts, **said}


def hub_facts_of(record: dict[str, Any]) -> dict[str, Any]:
    """What one record alone says: the base model and the data set, where these are the Hub's."""
    parents, facts = record.get("parents", {}), {}
    base = next((parents[name] for name in _MODELS if _is_of_the_hub(parents.get(name))), None)
    if base is not None:
        facts["base_model"] = base["path"]
        if record.get("stage") not in _UNTRAINED:
            facts["base_model_relation"] = "finetune"
    if _is_of_the_hub(parents.get("data")):
        # A benchmark's has the task behind a space, another its configuration behind a colon.
        facts["datasets"] = [re.split(r"[ :]", parents["data"]["path"])[0]]
    return facts


def check_hub_words(
    *, licence: str | None = None, language: str | None = None, base_model: str | None = None
) -> dict[str, str]:
    """What a user says of a model, by the names of the metadata.

    Raises:
        InvalidInput: no name that the Hub may know.
    """
    said = {
        "license": (licence, _LICENSE, "a licence's name on the Hub", "apache-2.0"),
        "language": (language, _LANGUAGE, "a code of ISO 639, or multilingual", "en"),
        "base_model": (base_model, _OF_THE_HUB, "a model on the Hub, OWNER/NAME", "google-bert/bert-base-uncased"),
    }
    for name, (value, form, rule, example) in said.items():
        if value is not None and not form.fullmatch(value):
            option = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{option} must be {rule}", got=repr(value), repair=f"use {option} {example}")
    return {name: value for name, (value, *_) in said.items() if value is not None}


def metadata_yaml(
    hub: dict[str, Any],
    *,
    pipeline_tag: str | None,
    tags: Sequence[str],
    name: str | None = None,
    results: Sequence[Any] = (),
) -> str:
    """A card's YAML, checked by huggingface_hub's own classes.

    Args:
        hub: facts of `hub_facts`.
        name: the model's in its index.
        results: `EvalResult`s, whose index there is where there are some.
    """
    from huggingface_hub import ModelCardData

    relation = {"base_model_relation": hub["base_model_relation"]} if "base_model_relation" in hub else {}
    data = ModelCardData(
        language=hub.get("language"),
        license=hub.get("license"),
        library_name="transformers",
        pipeline_tag=pipeline_tag,
        base_model=hub.get("base_model"),
        tags=list(tags),
        datasets=hub.get("datasets"),
        model_name=name if results else None,
        eval_results=list(results) or None,
        **relation,
    )
    return str(data.to_yaml())


def _behind(directory: Path) -> Iterator[dict[str, Any]]:
    """The records of a directory and of those that it was made from, as far as they are here; where one is gone, the training that its
    successor carries."""
    seen: set[Path] = set()
    while directory.resolve() not in seen and (directory / RECORD).is_file():
        seen.add(directory.resolve())
        record = open_record(directory).content()
        yield record
        before = _parent_model(record)
        if before is None or not Path(before).is_dir():
            carried = training_record(directory)
            if carried and carried.get("stage") != record["stage"]:
                yield carried
            return
        directory = Path(before)


def _parent_model(record: dict[str, Any]) -> str | None:
    """The directory or Hub id of the model that a stage began from."""
    parents = record.get("parents", {})
    return next((str(parents[name]["path"]) for name in _MODELS if name in parents), None)


def _is_of_the_hub(parent: Any) -> bool:
    return parent is not None and parent["sha256"] == "hub" and bool(_OF_THE_HUB.match(parent["path"]))


def _quantised() -> list[Any]:
    return [each for each in ARTEFACTS.values() if each.file is not None and each.precision in ("int8", "few bits")]


def _card_metadata(source: str | Path) -> dict[str, Any]:
    """The metadata of a card in a directory, or of a model of the Hub in its cache; none where there is no card, or no YAML in it."""
    import yaml
    from huggingface_hub import metadata_load, try_to_load_from_cache

    if Path(source).is_dir():
        card: Any = Path(source) / "README.md"
    else:
        card = try_to_load_from_cache(str(source), "README.md") if _OF_THE_HUB.fullmatch(str(source)) else None
    if not isinstance(card, str | Path) or not Path(card).is_file():
        return {}
    try:
        return metadata_load(card) or {}
    except (ValueError, yaml.YAMLError):  # somebody else's, which says nothing then
        return {}
