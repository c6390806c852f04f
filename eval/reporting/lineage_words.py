"""A model's lineage as its card shows it: a line for each stage, and what code and libraries they ran."""

from collections.abc import Sequence
from typing import Any

from hf_albert_plus.eval.reporting.class_tables import one_line
from hf_albert_plus.records.lineage import VERSIONS

# Digits of a hash that are shown.
_DIGITS = 12
# Entries of a setting that are shown; the labels of a task may be many.
_MOST = 8


def stage_rows(lineage: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Cells of a table of the stages: stage, command, what it read, when it ended."""
    return [[_name(stage), _asked(stage), _read(stage), stage["finished"]] for stage in lineage]


def versions_in_words(lineage: Sequence[dict[str, Any]]) -> str:
    """What the last stage ran, and where an earlier one ran something else, what that was."""
    (last, *earlier) = lineage
    others: dict[str, list[str]] = {}
    for stage in earlier:
        names = [name for name in VERSIONS if _version(stage, name) != _version(last, name)]
        if names:
            others.setdefault(_versions(stage, names), []).append(_name(stage))
    differing = "".join(f" {' and '.join(stages)}: {words}." for words, stages in others.items())
    if not earlier:
        return f"It ran {_versions(last, VERSIONS)}."
    beginning = "The last stage ran" if others else "All ran"
    return f"{beginning} {_versions(last, VERSIONS)}.{differing}"


def _versions(stage: dict[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {_version(stage, name)[:_DIGITS]}" if name == "commit" else f"{name} {_version(stage, name)}" for name in names)  # fmt: skip


def _version(stage: dict[str, Any], name: str) -> str:
    return str(stage["versions"].get(name, "not known"))


def _name(stage: dict[str, Any]) -> str:
    """A stage's name, with the hash of what it made."""
    return _cell(f"{stage['stage']} ({stage['made']['sha256'][:_DIGITS]})" if "made" in stage else stage["stage"])


def _asked(stage: dict[str, Any]) -> str:
    """The command; of a stage that was called from Python its settings."""
    if stage["command"]:
        mark = "``" if "`" in stage["command"] else "`"
        return _cell(f"{mark}{stage['command']}{mark}")
    settings = [f"{name}={_short(value)}" for name, value in stage["settings"].items() if _is_short(value)]
    return _cell(f"from Python: {', '.join(settings)}" if settings else "from Python")


def _is_short(value: Any) -> bool:
    if isinstance(value, list):
        return 0 < len(value) <= _MOST and not any(isinstance(entry, list | dict) for entry in value)
    return value is not None and not isinstance(value, dict)


def _short(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _read(stage: dict[str, Any]) -> str:
    named = [
        f"{name} {parent['path']} ({'of the Hub' if parent['sha256'] == 'hub' else parent['sha256'][:_DIGITS]})"
        for name, parent in stage["read"].items()
    ]
    return _cell(", ".join(named)) or "nothing"


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")
