"""The metadata that the Hub reads at the head of a card: where a model comes from, as far as the records behind it know, and how it scores."""

import json
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
_OF_THE_HUB = re.compile(r"\w[\w.-]*/[\w.-]+")
_IN_THE_CACHE = re.compile(r"(?:models|datasets)--(?P<owner>[\w.-]+?)--(?P<name>[\w.-]+)/snapshots/[0-9a-f]{40}")
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]*")
_LANGUAGE = re.compile(r"[a-z]{2,3}|multilingual|code")


def hub_facts(directory: Path, *, language: str | None = None) -> dict[str, Any]:
    """What a model's metadata can say of its origin: base model and its relation, licence, language and data sets, each where it is known.

    The base model is the first one of the Hub behind the directory's records. Where these begin at a directory without one, it is that
    directory itself if it lies in the Hub's cache, else what its card or its config says that it was made from. The licence is that of the nearest
    model whose card is at hand, here or in the Hub's cache.

    Args:
        language: of the task's texts, where that is known.
    """
    chain = list(_behind(directory))
    facts: dict[str, Any] = {}
    for record in chain:
        facts = {**hub_facts_of(record), **facts}
    if chain and "base_model" not in facts:
        facts |= _base_of(_parent_model(chain[-1]))
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


def with_words(facts: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The facts with what a user says of a model, as `check_hub_words` gives it. A base model that is said was trained further."""
    relation = {"base_model_relation": "finetune"} if "base_model" in said else {}
    return {**relation, **facts, **said}


def hub_facts_of(record: dict[str, Any]) -> dict[str, Any]:
    """What one record alone says: the base model and the data set, where these are the Hub's."""
    facts: dict[str, Any] = {}
    parents = record.get("parents", {})
    base = next((found for name in _MODELS if (found := _hub_id(parents.get(name)))), None)
    if base is not None:
        facts["base_model"] = base
        if record.get("stage") not in _UNTRAINED:
            facts["base_model_relation"] = "finetune"
    data = _hub_id(parents.get("data"))
    if data is not None:
        # A benchmark's has the task behind a space, another its configuration behind a colon.
        facts["datasets"] = [re.split(r"[ :]", data)[0]]
    return facts


def check_hub_words(
    *,
    licence: str | None = None,
    language: str | None = None,
    base_model: str | None = None,
    datasets: Sequence[str] | None = None,
) -> dict[str, Any]:
    """What a user says of a model, by the names of the metadata.

    Raises:
        InvalidInput: no name that the Hub may know.
    """
    said: dict[str, tuple[Any, re.Pattern[str], str, str]] = {
        "license": (licence, _LICENSE, "a licence's name on the Hub", "apache-2.0"),
        "language": (language, _LANGUAGE, "a code of ISO 639, or multilingual", "en"),
        "base_model": (base_model, _OF_THE_HUB, "a model on the Hub, OWNER/NAME", "google-bert/bert-base-uncased"),
        "datasets": (datasets, _OF_THE_HUB, "a data set on the Hub, OWNER/NAME", "nyu-mll/glue"),
    }
    for name, (value, form, rule, example) in said.items():
        for word in [value] if isinstance(value, str) else value or ():
            if not form.fullmatch(word):
                option = f"--{name.replace('_', '-')}"
                raise InvalidInput(f"{option} must be {rule}", got=repr(word), repair=f"use {option} {example}")
    return {name: value for name, (value, *_) in said.items() if value}


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


def _hub_id(parent: Any) -> str | None:
    """What a parent is called on the Hub: by its name, or by its place in the Hub's cache; None where neither says."""
    if parent is None:
        return None
    if parent["sha256"] != "hub":
        return _cached_as(parent["path"])
    return str(parent["path"]) if _OF_THE_HUB.match(parent["path"]) else None


def _cached_as(path: str) -> str | None:
    """The Hub id of a folder of the Hub's cache, `models--OWNER--NAME/snapshots/REVISION`."""
    parts = Path(path).resolve().parts[-3:]
    found = _IN_THE_CACHE.fullmatch("/".join(parts))
    return None if found is None else f"{found['owner']}/{found['name']}"


def _base_of(source: str | None) -> dict[str, Any]:
    """What a model directory without a record was made from, by its card, or by its config where the Hub's cache has a model of that name: a config
    names folders of somebody's machine as well."""
    from huggingface_hub import try_to_load_from_cache

    if source is None or not Path(source).is_dir():
        return {}
    named = _card_metadata(source).get("base_model")
    base = named[0] if isinstance(named, list) and len(named) == 1 else named
    if not isinstance(base, str):
        base = _name_in_config(Path(source))
        if base is None or not isinstance(try_to_load_from_cache(base, "config.json"), str):
            return {}
    return {"base_model": base, "base_model_relation": "finetune"} if _OF_THE_HUB.fullmatch(base) else {}


def _name_in_config(directory: Path) -> str | None:
    """The name that older releases of transformers wrote into a config: what it was loaded from."""
    try:
        name = json.loads((directory / "config.json").read_text(encoding="utf-8")).get("_name_or_path")
    except (OSError, ValueError, AttributeError):  # somebody else's, which says nothing then
        return None
    return name if isinstance(name, str) and _OF_THE_HUB.fullmatch(name) else None


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
