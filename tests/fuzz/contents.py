"""Bad contents of a file, by its kind: what takes its bytes and gives others."""

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

Spoil = Callable[[bytes, Random], bytes]
_WRONG = [
    None,
    True,
    -1,
    0,
    10**30,
    1.5,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[]],
    {"x": {}},
    float("nan"),
    float("inf"),
    [None],
    "../../x",
    "a" * 10_000,
]
_DEEP = 100_000


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with a key or place in it."""
    keys = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in list(keys):
        yield content, key
        yield from _places(content[key])


def _spoil_place(data: bytes, random: Random) -> bytes:
    """A JSON document with one value of another kind, or without it. Places near its top are as likely as those of long lists below."""
    content = json.loads(data)
    holder, key = content, None
    while isinstance(holder, dict | list) and holder:
        parent, key = holder, random.choice(list(holder if isinstance(holder, dict) else range(len(holder))))
        holder = parent[key]
        if random.random() < 0.35:
            break
    if key is None:
        return b"null"
    if random.random() < 0.25:
        del parent[key]
    else:
        parent[key] = random.choice(_WRONG)
    return json.dumps(content).encode()


def _lines(spoil: Spoil) -> Spoil:
    """Spoils one line of a file of JSON objects."""

    def spoiled(data: bytes, random: Random) -> bytes:
        lines = data.splitlines()
        place = random.randrange(len(lines))
        lines[place] = spoil(lines[place], random)
        return b"\n".join(lines) + b"\n"

    return spoiled


def _tensors(change: Callable[[dict[str, Any], Random], None]) -> Spoil:
    def spoiled(data: bytes, random: Random) -> bytes:
        import numpy
        from safetensors.numpy import load, save

        tensors = {name: numpy.array(value) for name, value in load(data).items()}
        change(tensors, random)
        return save(tensors, metadata={"format": "pt"})

    return spoiled


def _chosen(tensors: dict[str, Any], random: Random) -> str:
    return random.choice(sorted(tensors))


def _not_a_number(tensors: dict[str, Any], random: Random) -> None:
    for name, value in tensors.items():
        if value.dtype.kind == "f":
            tensors[name] = value * float("nan")


def _one_infinite(tensors: dict[str, Any], random: Random) -> None:
    tensors[_chosen(tensors, random)].reshape(-1)[:1] = float("inf")


def _whole_numbers(tensors: dict[str, Any], random: Random) -> None:
    for name in tensors:
        tensors[name] = tensors[name].astype("int64")


def _half_precision(tensors: dict[str, Any], random: Random) -> None:
    for name in tensors:
        tensors[name] = tensors[name].astype("float16")


def _other_shape(tensors: dict[str, Any], random: Random) -> None:
    name = _chosen(tensors, random)
    tensors[name] = tensors[name][..., :-1].copy() if tensors[name].ndim else tensors[name].reshape(1)


def _missing(tensors: dict[str, Any], random: Random) -> None:
    del tensors[_chosen(tensors, random)]


def _one_more(tensors: dict[str, Any], random: Random) -> None:
    tensors["no.such.weight"] = tensors[_chosen(tensors, random)].copy()


def _none_at_all(tensors: dict[str, Any], random: Random) -> None:
    tensors.clear()


def _table(change: Callable[[Any, Random], Any]) -> Spoil:
    def spoiled(data: bytes, random: Random) -> bytes:
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(io.BytesIO(data)).replace_schema_metadata(None)
        stream = io.BytesIO()
        pyarrow.parquet.write_table(change(table, random), stream)
        return stream.getvalue()

    return spoiled


def _column_of(make: Callable[[int], Any]) -> Spoil:
    def change(table: Any, random: Random) -> Any:
        import pyarrow

        place = random.randrange(table.num_columns)
        values = pyarrow.array([make(row) for row in range(len(table))])
        return table.set_column(place, table.column_names[place], values)

    return _table(change)


def _renamed(table: Any, random: Random) -> Any:
    names = list(table.column_names)
    names[random.randrange(len(names))] = "another"
    return table.rename_columns(names)


def _twice(table: Any, random: Random) -> Any:
    place = random.randrange(table.num_columns)
    return table.append_column(table.column_names[place], table.column(place))


def _arrow_flipped(data: bytes, random: Random) -> bytes:
    """Bytes changed here and there."""
    changed = bytearray(data)
    for _ in range(16):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _cell(value: bytes) -> Spoil:
    """One field of one line of a file of fields."""

    def spoiled(data: bytes, random: Random) -> bytes:
        lines = data.splitlines()
        place = random.randrange(len(lines))
        separator = b"\t" if b"\t" in lines[place] else b" "
        fields = lines[place].split(separator)
        fields[random.randrange(len(fields))] = value
        lines[place] = separator.join(fields)
        return b"\n".join(lines) + b"\n"

    return spoiled


_ANY: dict[str, Spoil] = {
    "empty": lambda data, random: b"",
    "truncated": lambda data, random: data[: random.randrange(1, max(2, len(data)))],
    "garbage": lambda data, random: random.randbytes(200),
    "garbage at its end": lambda data, random: data + random.randbytes(50),
    "bytes flipped": _arrow_flipped,
}
_JSON: dict[str, Spoil] = {
    **{f"a value {n}": _spoil_place for n in range(8)},
    "{}": lambda data, random: b"{}",
    "[]": lambda data, random: b"[]",
    "null": lambda data, random: b"null",
    "deep": lambda data, random: b"[" * _DEEP + b"]" * _DEEP,
    "UTF-16": lambda data, random: data.decode("utf-8", "replace").encode("utf-16"),
    "BOM": lambda data, random: b"\xef\xbb\xbf" + data,
}
_TEXT: dict[str, Spoil] = {
    "NUL": lambda data, random: b"a\0b\n" + data + b"\0",
    "half characters": lambda data, random: b"\xed\xa0\x80 x\n" + data,
    "latin-1": lambda data, random: b"caf\xe9\n" + data,
    "one line": lambda data, random: b"word " * 100_000,
    "one word": lambda data, random: b"w" * 300_000,
    "spaces": lambda data, random: b" \n\t\n \r\n" * 20,
    "UTF-16": lambda data, random: data.decode("utf-8", "replace").encode("utf-16"),
    "BOM": lambda data, random: b"\xef\xbb\xbf" + data,
    "other line ends": lambda data, random: data.replace(b"\n", b"\r"),
    "a word": lambda data, random: b"x",
    "markup": lambda data, random: b"[red] [/] [CLS] [MASK] \x1b[31m\n" * 20,
    "a field nan": _cell(b"nan"),
    "a field empty": _cell(b""),
    "a field long": _cell(b"9" * 5000),
    "a field of two": _cell(b"1\t2"),
    "a field infinite": _cell(b"1e999"),
}
SPOILS: dict[str, dict[str, Spoil]] = {
    "JSON": {**_ANY, **_JSON},
    "lines of JSON": {
        **_ANY, **{f"a value {n}": _lines(_spoil_place) for n in range(4)}, "a line null": _lines(lambda data, random: b"null"), "UTF-16": _TEXT["UTF-16"],
        "a line of text": _lines(lambda data, random: b"text"), "a line deep": _lines(_JSON["deep"]), "a line []": _lines(lambda data, random: b"[]"),
        "NUL": _TEXT["NUL"], "half characters": _TEXT["half characters"], "spaces": _TEXT["spaces"],
    },
    "safetensors": {
        **_ANY, "header too long": lambda data, random: (2**62).to_bytes(8, "little") + data[8:], "header garbage": lambda data, random: data[:8] + b"x" * 50 + data[58:],
        "NaN": _tensors(_not_a_number), "one infinite": _tensors(_one_infinite), "whole numbers": _tensors(_whole_numbers), "other shape": _tensors(_other_shape),
        "half precision": _tensors(_half_precision), "missing": _tensors(_missing), "one more": _tensors(_one_more), "no tensor": _tensors(_none_at_all),
    },
    "parquet": {
        **_ANY, "a column of ints": _column_of(lambda row: row), "a column of bytes": _column_of(lambda row: b"\xff\xfe"),
        "a column of lists": _column_of(lambda row: ["a", "b"]), "a column of objects": _column_of(lambda row: {"x": row}),
        "a column of nulls": _column_of(lambda row: None), "a column with a null": _column_of(lambda row: None if row == 1 else str(row)),
        "a column of floats": _column_of(lambda row: row + 0.5), "a column of NaN": _column_of(lambda row: float("nan")),
        "a column of empty text": _column_of(lambda row: ""), "a column of bools": _column_of(lambda row: True),
        "a column of big numbers": _column_of(lambda row: 2**62), "a column of negative numbers": _column_of(lambda row: -7),
        "a column of long text": _column_of(lambda row: "word " * 5000), "a column of control characters": _column_of(lambda row: "\0\x1b[31m[red]"),
        "renamed": _table(_renamed), "a column twice": _table(_twice), "no rows": _table(lambda table, random: table[:0]),
        "one row": _table(lambda table, random: table[:1]), "no columns": _table(lambda table, random: table.select([])),
    },
    "text": {**_ANY, **_TEXT},
    "binary": _ANY,
}  # fmt: skip
_KINDS = {
    ".json": "JSON", ".jsonl": "lines of JSON", ".safetensors": "safetensors", ".parquet": "parquet", ".txt": "text", ".tsv": "text", ".md": "text", ".csv": "text",
}  # fmt: skip
# What takes a file's place.
PLACES: dict[str, Callable[[Path], None]] = {
    "missing": lambda path: None,
    "a directory": lambda path: path.mkdir(),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a pipe": lambda path: os.mkfifo(path),
    "not readable": lambda path: path.touch(mode=0),
}


def kind_of(path: Path) -> str:
    return _KINDS.get(path.suffix, "binary")


def spoils_of(path: Path) -> list[str]:
    """Names of what can be done to a file."""
    return [*SPOILS[kind_of(path)], *PLACES]


def spoil(path: Path, how: str, random: Random) -> None:
    """Replaces a file, which other directories may share, by a spoiled one."""
    data = path.read_bytes()
    path.unlink()
    if how in PLACES:
        PLACES[how](path)
    else:
        path.write_bytes(SPOILS[kind_of(path)][how](data, random))


__all__ = ["kind_of", "spoil", "spoils_of"]
