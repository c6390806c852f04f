"""From what a step of an export measured to what its record says: the one place where results become a document."""

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def facts_of(*results: "DataclassInstance") -> dict[str, Any]:
    """The fields of several results in one dictionary, as JSON has them: the names of the fields are the record's keys."""
    return {name: value for result in results for name, value in _plain(result).items()}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value
