"""Work that a later run goes on with. It counts while its files are what was written, and is done again where they are not."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from .errors import InvalidInput
from .files import FileFacts, check_shape, describe_file, file_sha256, read_json, sync, write_json
from .progress import say


class _Mark(TypedDict):
    files: dict[str, FileFacts]
    facts: Any


def mark(path: Path, files: Iterable[Path], *, facts: Any = None) -> None:
    """Writes a file that says that others beside or below it are whole, once they are on the disk.

    Args:
        facts: what else is to be known of the work, as JSON.
    """
    files = sorted(files)
    listed = {}
    for file in files:
        sync(file)
        listed[file.relative_to(path.parent).as_posix()] = describe_file(file)
    for folder in {file.parent for file in files}:
        sync(folder)
    write_json(path, {"files": listed, "facts": facts})


def marked(path: Path, *, shape: Any = Any) -> Any:
    """The facts of whole work.

    Raises:
        InvalidInput: it is not whole: the mark or a file is missing, or is something else.
    """
    repair = "it is done again"
    content = read_json(path, what="the mark of kept work", shape=_Mark, repair=repair)
    for name, facts in content["files"].items():
        file = path.parent / name
        there = file.is_file() and file.stat().st_size == facts["bytes"] and file_sha256(file) == facts["sha256"]
        if not there:
            raise InvalidInput(
                "kept work must be what was written",
                got=f"{file}, which {'was changed' if file.exists() else 'is missing'}",
                repair=repair,
            )
    text = json.dumps(content["facts"])
    return check_shape(text, shape, what="what is known of kept work", source=str(path), repair=repair)


def taken_up(path: Path, *, shape: Any = Any) -> Any:
    """The facts of whole work; None where there is none, and, with a word, where it is damaged."""
    if not path.exists():
        return None
    try:
        return marked(path, shape=shape)
    except InvalidInput as damage:
        say(str(damage))
        return None


__all__ = ["mark", "marked", "taken_up"]
