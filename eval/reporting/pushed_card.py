"""The card that goes to the Hub with a model directory: its own without this machine's paths, or one of its config and records."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.artefacts import ARTEFACTS
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.reporting.card import diagram, encoder_facts, parameter_facts, shape_words, totals
from hf_albert_plus.eval.reporting.cards import read_facts, render
from hf_albert_plus.eval.reporting.hub_metadata import hub_facts, metadata_yaml, with_words
from hf_albert_plus.eval.reporting.table import NOT_MEASURED
from hf_albert_plus.heads import architecture_of, auto_class, head_of
from hf_albert_plus.records.machine_paths import without_machine_paths
from hf_albert_plus.records.record import CARD, training_record
from hf_albert_plus.tasks.task_file import read_task

_README = "README.md"
_TOWERS = "TwinModel"
# What the Hub calls what a head does.
_PIPELINES = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMaskedLM": "fill-mask",
    "ForPreTraining": "fill-mask",
    "ForMultipleChoice": "multiple-choice",
}


def card_to_push(directory: Path, repo_id: str, *, said: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a directory's card by their names, as they go to a repository; none where somebody wrote a README by hand, and of two
    towers, which no card describes yet.

    Args:
        said: what the user says of the model (`check_hub_words`).

    Raises:
        InvalidInput: a card of another shape; or words, and a README by hand.
    """
    readme, record = directory / _README, directory / CARD
    written = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else None
    if not record.is_file():
        if written is None and architecture_of(load_config(directory, option="DIR")).endswith(_TOWERS):
            return {}
        if written is None:
            return {_README: unmeasured_card(directory, repo_id, said=said).encode()}
        _check_no_words(said, readme)
        return {}
    facts = read_facts(record)
    clean = without_machine_paths(facts)
    if said:
        clean["hub"] = with_words(clean.get("hub") or hub_facts(directory), said)
    files = {CARD: (json.dumps(clean, indent=2, ensure_ascii=False) + "\n").encode()}
    if written is None or written == render(facts):
        return {**files, _README: render(clean).replace("PATH_OR_HUB_ID", repo_id).encode()}
    _check_no_words(said, readme)
    return files


def _check_no_words(said: Mapping[str, Any], readme: Path) -> None:
    for name in said:
        raise InvalidInput(
            f"--{name.replace('_', '-')} is for a card that is written from records",
            got=f"{readme}, which was written by hand",
            repair="write it at the head of that file, or remove the file",
        )


def unmeasured_card(directory: Path, repo_id: str, *, said: Mapping[str, Any]) -> str:
    """A card of what config and records say; whoever measures the model writes the other one (`albert-plus card`)."""
    from hf_albert_plus.eval.reporting.templates import environment

    config = load_config(directory, option="DIR")
    head, task = head_of(architecture_of(config), option="DIR"), read_task(directory)
    hub = with_words(hub_facts(directory, language="en" if task is not None and task.benchmark else None), said)
    pools = (directory / "modules.json").is_file()
    files = [each.file for each in ARTEFACTS.values() if each.file is not None and (directory / each.file).is_file()]
    pipeline = _PIPELINES.get(head, "sentence-similarity" if pools else "feature-extraction")
    tags = ["albert-plus", *(["onnx"] if any(file.startswith("onnx/") for file in files) else []),
            *(["sentence-transformers"] if pools else [])]  # fmt: skip
    encoder, parameters = encoder_facts(config), parameter_facts(config)
    has_maps = "attention_map" in encoder
    facts: dict[str, Any] = {
        "name": repo_id.rpartition("/")[2],
        "repo_id": repo_id,
        "metadata": metadata_yaml(hub, pipeline_tag=pipeline, tags=tags),
        "encoder": encoder,
        "parameters": parameters,
        "totals": totals(parameters),
        "diagram": diagram(encoder) if has_maps else None,
        "shape": shape_words(encoder) if has_maps else None,
        "head": "" if task is None else f" with a head for {task.title or task.name}",
        "auto_class": auto_class(head).__name__,
        "files": files,
        "command": without_machine_paths({"command": training_record(directory).get("command", "")})["command"],
        "not_measured": NOT_MEASURED,
    }
    return str(environment().get_template("unmeasured_card.md.jinja").render(facts))
