"""Files that this package writes whole or not at all, and documents that it reads by their shape.

Files that users name must be regular ones, so that nothing waits for a pipe or reads a device for ever.
"""

import errno
import hashlib
import io
import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from typing_extensions import TypedDict

from ..errors import InvalidInput
from .outputs import new_file, refuse_link


def write_json(path: Path, content: Any) -> None:
    """Writes JSON as `writing` does, so that the file is never half written."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, content: str) -> None:
    """Writes text as `writing` does."""
    write_bytes(path, content.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file as `writing` does."""
    with writing(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A new file beside `path`, to be written by whoever takes it. It gets its name once it is whole and on the disk.

    Raises:
        InvalidInput: `path` is a link, a directory or a device.
    """
    refuse_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    os.close(new_file(temporary))
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


@contextmanager
def late_errors(stream: BinaryIO) -> Iterator[Any]:
    """A stream whose writes do not fail, for Parquet's writers, which end the whole process where one does on a full disk.

    Raises:
        OSError: at the end, that of the first write.
    """
    late = _Late(stream)
    yield late
    if late.error is not None:
        raise late.error


class _Late(io.RawIOBase):
    def __init__(self, stream: BinaryIO):
        self.stream = stream
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                self.stream.write(data)
            except OSError as error:
                self.error = error
        return len(data)


def is_temporary(name: str) -> bool:
    """Whether a file of this name is what is left of one that was not finished."""
    return name.startswith(".") and name.endswith(".tmp")


def sync(path: Path) -> None:
    """Waits until a file, or the names in a directory, are on the disk."""
    if os.name == "nt" and path.is_dir():
        return  # nothing there opens a directory
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot
            raise
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """Waits until all that is in a directory is on the disk."""
    for folder, _, files in os.walk(directory):
        for name in files:
            sync(Path(folder) / name)
        sync(Path(folder))


class FileFacts(TypedDict):
    """How a list of files knows one again."""

    bytes: int
    sha256: str


def data_hash(files: Iterable[tuple[str, str]]) -> str:
    """One SHA-256 over the names and hashes of the files of data, in their order: how a record names data."""
    return hashlib.sha256("\n".join(f"{name} {sha256}" for name, sha256 in files).encode()).hexdigest()


def describe_file(path: Path) -> FileFacts:
    return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}


def read_json(path: Path, *, what: str, shape: Any = Any, repair: str = "write it again with --json") -> Any:
    """Reads a JSON document, and refuses one of another shape.

    Args:
        what: the document, for the error.
        shape: a dataclass, a TypedDict (of typing_extensions) or any other type that pydantic knows. A TypedDict whose `__pydantic_config__` allows extra
            keys checks those that it names and leaves the others as they are.
        repair: what to type next where the document is no such thing.

    Returns:
        The document as `shape`; without one, as Python's own dictionaries and lists.

    Raises:
        InvalidInput: it is missing, is not JSON, nests too deeply, has a number that is not finite or half a character, or has another
            shape.
    """
    text, content = read_json_text(path, what=what, repair=repair)
    return content if shape is Any else check_shape(text, shape, what=what, source=str(path), repair=repair)


def read_kept(path: Path, *, what: str, shape: Any) -> Any:
    """An object that is kept in a file from run to run; empty where nothing was kept yet."""
    return read_json(path, what=what, shape=shape) if path.exists() else {}


def read_json_text(path: Path, *, what: str, repair: str) -> tuple[str, Any]:
    """The text of a JSON document, and what it says: to whoever looks at it before checking its shape.

    Raises:
        InvalidInput: as `read_json`, but for the shape.
    """
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{what} must be a JSON file", got=f"{path}, which is no regular file", repair=repair)
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise InvalidInput(f"{what} must be an existing JSON file", got=str(path), repair="check the path") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{what} must be a JSON file", got=f"{path} ({error})", repair=repair) from None
    try:
        content = parse_json(text)
    except ValueError as error:
        raise InvalidInput(f"{what} must be a JSON file", got=f"{path} ({error})", repair=repair) from None
    return text, content


def parse_json(text: str) -> Any:
    """JSON as it can be written again: with finite numbers, whole characters, and no deeper than Python's own stack.

    Raises:
        ValueError: it is not.
    """
    try:
        content = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if "\\u" in text:  # JSON may hold half of a surrogate pair, which is no character
            json.dumps(content, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("it has half of a surrogate pair, which is no character") from None
    return content


def check_shape(text: str, shape: Any, *, what: str, source: str, repair: str) -> Any:
    """A JSON text as `shape`.

    Raises:
        InvalidInput: it has another shape. The error names the first place.
    """
    from pydantic import ValidationError

    try:
        return _adapter(shape).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        got = f"{source} ({f'{place}: ' if place else ''}{first['msg']})"
        raise InvalidInput(f"{what} must have the shape of one", got=got, repair=repair) from None


@cache
def _adapter(shape: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(shape)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is beyond the range of numbers")
    return number


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def check_input_file(path: Path, *, what: str, form: str = "an existing file", repair: str = "check the path") -> None:
    """Refuses what is no regular file: a directory, a pipe, a device, or nothing at all.

    Raises:
        InvalidInput: such a path.
    """
    if not path.is_file():
        kind = "which is a directory" if path.is_dir() else "which is no regular file" if path.exists() else ""
        raise InvalidInput(f"{what} must be {form}", got=f"{path}{f', {kind}' if kind else ''}", repair=repair)


SCHEME = "quantisation.json"
