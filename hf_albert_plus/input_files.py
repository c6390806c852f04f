"""Files that users name: regular ones, so that nothing waits for a pipe or reads a device for ever."""

from pathlib import Path

from .errors import InvalidInput

_SHOWN = 200


def check_file(path: Path, *, what: str, form: str = "an existing file", repair: str = "check the path") -> None:
    """Refuses what is no regular file: a directory, a pipe, a device, or nothing at all.

    Raises:
        InvalidInput: such a path.
    """
    if not path.is_file():
        kind = "which is a directory" if path.is_dir() else "which is no regular file" if path.exists() else ""
        raise InvalidInput(f"{what} must be {form}", got=f"{path}{f', {kind}' if kind else ''}", repair=repair)


def first_line(error: Exception) -> str:
    """The first line of a library's message, cut where it is long."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]} …"


def shown(value: object) -> str:
    """A value as a message shows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


__all__ = ["check_file", "first_line", "shown"]
