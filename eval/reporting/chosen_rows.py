"""The rows that a model's threshold of exits and its temperatures were found on: its scores on the same rows flatter it."""

import json
from collections.abc import Collection, Iterator, Sequence
from itertools import dropwhile
from typing import Any

from typing_extensions import NotRequired, TypedDict

from hf_albert_plus.engines.artefacts import ARTEFACTS
from hf_albert_plus.eval.measured_documents import Count
from hf_albert_plus.eval.reporting.card_documents import open_shape
from hf_albert_plus.records.files import check_shape
from hf_albert_plus.records.lineage import Ancestor
from hf_albert_plus.records.record import Parent
from hf_albert_plus.tasks.task import Task

# What is found on rows; the threshold that a graph has of its own is called as its file.
_EXITS, _SCORES = "exits", "scores"
# Stages behind which the model is the one before them.
_UNTRAINED = ("export", "calibrate", "calibrate-scores", "adopt")
# Rows of a split, and training rows that nothing was trained on.
_OF_SPLIT, _SET_ASIDE, _HELD_OUT = "split", "set aside", "held out"


@open_shape
class _FoundOn(TypedDict):
    rows: Count


@open_shape
class _Graph(TypedDict):
    threshold_rows: NotRequired[Count | None]


@open_shape
class _Result(TypedDict):
    """What is read of a stage's result."""

    found_on: NotRequired[_FoundOn]
    rows: NotRequired[Count]
    exports: NotRequired[dict[str, _Graph]]


def chosen_rows(
    behind: Sequence[Ancestor], *, task: Task, scored_on: Parent, splits: Collection[str], has_threshold: bool
) -> list[dict[str, Any]]:
    """What was found on which rows for a model, the latest of each kind, as JSON; of a threshold of exits also that no record knows its
    rows.

    Args:
        behind: the stages of the model, as `ancestors` gives them.
        scored_on: the data that it was scored on.
        splits: of these data, those that it was scored on.
        has_threshold: whether its config has a threshold of exits.

    Raises:
        InvalidInput: a record whose result is something else.
    """
    own = list(_own_stages(behind))
    found: dict[str, dict[str, Any]] = {_EXITS: {"what": _EXITS}} if has_threshold else {}
    for stage in reversed(own):
        data = stage.record["parents"].get("data", {"path": "", "sha256": ""})
        for what, rows, chosen in _choices(stage, own):
            split = chosen.get("split") or task.judging_split
            of = _OF_SPLIT if split == "train" else _origin(data, chosen, behind)
            scored = of != _SET_ASIDE and split in splits and _are_same(data, scored_on)
            found[what] = {"what": what, "rows": rows, "split": split, "of": of, "are_scored": scored}
    return [each for each in found.values() if each["what"] != _EXITS or has_threshold]


def _own_stages(behind: Sequence[Ancestor]) -> Iterator[Ancestor]:
    """The stages of one model, the last first, down to its training."""
    rest = list(behind)
    while rest and rest[0].record["stage"] in _UNTRAINED:
        yield rest[0]
        rest = _from(rest[1:], rest[0].record["parents"].get("model", {}).get("sha256"))


def _from(behind: Sequence[Ancestor], content: str | None) -> list[Ancestor]:
    """Those from the stage on that made a content; none where no stage did."""
    return list(dropwhile(lambda each: each.made is None or each.made["sha256"] != content, behind))


def _choices(stage: Ancestor, own: Sequence[Ancestor]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """What a stage found, on how many rows, and the settings that name their split."""
    record = stage.record
    result = check_shape(
        json.dumps(record["result"]), _Result, what="the result of a stage", source=f"the record of {record['stage']}", repair="run that stage again"
    )  # fmt: skip
    if record["stage"] == "calibrate" and "found_on" in result:
        yield _EXITS, result["found_on"]["rows"], record["settings"]
    if record["stage"] == "calibrate-scores" and "rows" in result:
        yield _SCORES, result["rows"], record["settings"]
    if stage is own[0] and "exports" in result:
        # A graph finds its own threshold as its model did, which was calibrated just before.
        before: dict[str, Any] = next(
            (each.record["settings"] for each in own[1:2] if each.record["stage"] == "calibrate"), {}
        )
        for name, graph in result["exports"].items():
            if graph.get("threshold_rows") is not None:
                yield str(ARTEFACTS[name].file if name in ARTEFACTS else name), graph["threshold_rows"], before


def _origin(data: Parent, settings: dict[str, Any], behind: Sequence[Ancestor]) -> str:
    """Where validation rows come from: a split of their own, or training rows that were set aside, or held out as there was no such split."""
    makers = [each.record["stage"] for each in behind if each.made and _are_same(each.made, data)]
    if "set-aside" in makers:
        return _SET_ASIDE
    held_out = (settings.get("task_rows") or {}).get("held_out")
    return _HELD_OUT if held_out and held_out["of"] in (data["sha256"], data["path"]) else _OF_SPLIT


def _are_same(one: Parent, other: Parent) -> bool:
    return one["sha256"] == other["sha256"] and (one["sha256"] != "hub" or one["path"] == other["path"])


def sentences(chosen: Sequence[dict[str, Any]], task: Task) -> list[str]:
    """What a card says of them, a sentence each."""
    unit = "words" if task.has_tags else "rows"
    return [_sentence(each, unit) for each in chosen]


def _sentence(chosen: dict[str, Any], unit: str) -> str:
    what = {_EXITS: "The threshold of the exits was found", _SCORES: "The scores were calibrated"}.get(
        chosen["what"], f"`{chosen['what']}` has a threshold of its own, found"
    )
    if "rows" not in chosen:
        return f"{what} on rows that no record at hand names."
    rows = {
        _SET_ASIDE: f"training {unit} that were set aside",
        _HELD_OUT: f"training {unit} that were held out for validation",
    }.get(chosen["of"], f"{unit} of {chosen['split']}")
    same = ", which are scored below too: others may fare a little worse" if chosen["are_scored"] else ""
    return f"{what} on {chosen['rows']:,} {rows}{same}."
