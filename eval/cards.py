"""Model cards of both kinds, of classifiers and of pretrained encoders: their facts in JSON, and Markdown that is written from them."""

from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval import card, pretraining_card
from hf_albert_plus.files import read_json, write_json, write_text
from hf_albert_plus.glue import TASKS
from hf_albert_plus.records import CARD, EVAL_RESULTS

_RENDER = {card.KIND: card.render_card, pretraining_card.KIND: pretraining_card.render_pretraining_card}


def render(facts: dict[str, Any]) -> str:
    """A card's Markdown, metadata with a model index before it."""
    return _RENDER[facts["kind"]](facts)


def write_card(directory: Path, facts: dict[str, Any]) -> None:
    """Puts a card into a model directory: `README.md`, `card.json` with its facts, and a classifier's `.eval_results/`."""
    write_json(directory / CARD, facts)
    write_text(directory / "README.md", render(facts))
    results = card.eval_results(facts) if facts["kind"] == card.KIND else None
    if results is not None:
        write_text(directory / EVAL_RESULTS / f"glue-{facts['task']}.yaml", results)


def read_facts(path: Path) -> dict[str, Any]:
    """A card's facts.

    Raises:
        InvalidInput: the file holds something else.
    """
    facts: dict[str, Any] = read_json(path, what="a card's record")
    known = facts.get("kind") in _RENDER and (facts["kind"] != card.KIND or facts.get("task") in TASKS)
    if not known:
        raise InvalidInput(
            "a card's record must come from albert-plus card or report",
            got=str(path),
            repair="make it: albert-plus card DIR",
        )
    return facts


__all__ = ["read_facts", "render", "write_card"]
