"""Files that this package writes whole or not at all, and documents that it reads by their shape."""

import hashlib
import json
import math
import os
from functools import cache
from pathlib import Path
from typing import Any

from .errors import InvalidInput


def write_json(path: Path, content: Any) -> None:
    """Writes JSON under a temporary name and renames it, so that the file is never half there."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, content: str) -> None:
    """Writes text under a temporary name and renames it."""
    write_bytes(path, content.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name and renames it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


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
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{what} must be a JSON file", got=f"{path}, which is no regular file", repair=repair)
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInput(f"{what} must be an existing JSON file", got=str(path), repair="check the path") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{what} must be a JSON file", got=f"{path} ({error})", repair=repair) from None
    try:
        content = parse_json(text)
    except ValueError as error:
        raise InvalidInput(f"{what} must be a JSON file", got=f"{path} ({error})", repair=repair) from None
    return content if shape is Any else check_shape(text, shape, what=what, source=str(path), repair=repair)


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


__all__ = ["check_shape", "file_sha256", "parse_json", "read_json", "write_bytes", "write_json", "write_text"]
