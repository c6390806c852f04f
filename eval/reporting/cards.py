"""Model cards of both kinds, of classifiers and of pretrained encoders: their facts in JSON, and Markdown that is written from them."""

from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.reporting import card, pretraining_card
from hf_albert_plus.eval.reporting.card_documents import Card, PretrainingCard
from hf_albert_plus.records.files import check_shape, read_json_text, write_json, write_text
from hf_albert_plus.records.record import CARD, EVAL_RESULTS
from hf_albert_plus.tasks.glue import TASKS

_SHAPE = {card.KIND: Card, pretraining_card.KIND: PretrainingCard}
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


def write_cards(report: Path, models: dict[str, Path]) -> None:
    """Puts the cards that a report made into the directories of the models.

    Args:
        report: directory of the report.
        models: NAME-TASK -> directory.
    """
    for name, directory in models.items():
        write_card(directory, read_facts(report / "cards" / f"{name}.json"))


def read_facts(path: Path) -> dict[str, Any]:
    """A card's facts.

    Raises:
        InvalidInput: the file holds something else.
    """
    what, repair = "a card's record", "make it: albert-plus card DIR"
    text, facts = read_json_text(path, what=what, repair=repair)
    if not isinstance(facts, dict):
        check_shape(text, dict[str, Any], what=what, source=str(path), repair=repair)
    kind, task = facts.get("kind"), facts.get("task")
    shape = _SHAPE.get(kind) if isinstance(kind, str) else None
    if shape is None or (kind == card.KIND and not (isinstance(task, str) and (task in TASKS or "own_task" in facts))):
        raise InvalidInput("a card's record must come from albert-plus card or report", got=str(path), repair=repair)
    check_shape(text, shape, what=what, source=str(path), repair=repair)
    if kind == card.KIND:
        _check_rows(facts, path=path, repair=repair)
    content: dict[str, Any] = facts
    return content


def _check_rows(facts: dict[str, Any], *, path: Path, repair: str) -> None:
    """Refuses a card whose rows are not its task's, or were timed under other loads than each other."""
    metrics = set(card.card_task(facts).metrics)
    of_rows = [row[name] for row in facts["scores"] for name in ("metrics", "in_words")]
    of_runs = [run["metrics"] for row in facts["scores"] for run in row.get("runs", ())]
    alike = all(set(names) == metrics for names in (*of_rows, *of_runs))
    loads = {tuple(row["loads"]) for row in facts["latency"]}
    if not alike or len(loads) > 1:
        got = "rows of several loads" if alike else f"scores that are none of {facts['task']!r}"
        raise InvalidInput("the parts of a card's record must belong together", got=f"{got} in {path}", repair=repair)
