"""Files that users name: regular ones, so that nothing waits for a pipe or reads a device for ever."""

from pathlib import Path

from .errors import InvalidInput


def check_input_file(path: Path, *, what: str, form: str = "an existing file", repair: str = "check the path") -> None:
    """Refuses what is no regular file: a directory, a pipe, a device, or nothing at all.

    Raises:
        InvalidInput: such a path.
    """
    if not path.is_file():
        kind = "which is a directory" if path.is_dir() else "which is no regular file" if path.exists() else ""
        raise InvalidInput(f"{what} must be {form}", got=f"{path}{f', {kind}' if kind else ''}", repair=repair)


__all__ = ["check_input_file"]
