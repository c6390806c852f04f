"""The limits of what a document holds, by which pydantic checks one that is read."""

from typing import Any


def limited(**limits: Any) -> Any:
    """pydantic's limits of a field: `ge`, `le`, `min_length`, `max_length`, `pattern`. None where pydantic is not installed: documents are written
    without it, and not read."""
    try:
        from pydantic import Field
    except ModuleNotFoundError:
        return None
    return Field(**limits)
