"""Tables that `datasets` opens or wrote, names of classes in place of their ids: the Hub, directories of `save_to_disk`, and parquet."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data_names import HUB_ID
from ..errors import InvalidInput, first_line
from ..hub_connection import check_data
from .split_names import names_of_splits

if TYPE_CHECKING:
    import pyarrow

_DATASET_FILES = ("dataset_dict.json", "state.json")
_HUB_ID = re.compile(rf"({HUB_ID})(?::([\w.+-]+))?")


def is_dataset_directory(data: str) -> bool:
    """Whether `datasets` wrote the directory (`save_to_disk`)."""
    return any((Path(data) / name).is_file() for name in _DATASET_FILES)


def is_on_hub(data: str) -> bool:
    """Whether the words name a data set of the Hub, as `owner/name` or `owner/name:configuration`, and nothing here."""
    return not Path(data).exists() and _HUB_ID.fullmatch(data) is not None


def read_hub(data: str) -> "dict[str, pyarrow.Table]":
    """Split -> table of a data set on the Hub.

    Raises:
        InvalidInput: it cannot be opened.
    """
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    match = _HUB_ID.fullmatch(data)
    if match is None:
        raise InvalidInput(
            "--data must be a file, a folder, or a Hub id", got=repr(data), repair="check the path, or use owner/name:configuration"
        )  # fmt: skip
    name, configuration = match.groups()
    check_data(name)
    try:
        splits = load_dataset(name, configuration)
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        raise InvalidInput(
            "--data must be a data set that the Hub opens without code of its own",
            got=f"{data!r} ({type(error).__name__}: {first_line(error)})",
            repair="check the name, name its configuration (owner/name:configuration), or download its files",
        ) from None
    return _by_split(splits)


def read_dataset_directory(data: str) -> "dict[str, pyarrow.Table]":
    """Split -> table of a directory that `datasets` wrote.

    Raises:
        InvalidInput: it cannot be read.
    """
    from datasets import DatasetDict, load_from_disk

    try:
        opened = load_from_disk(data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            "--data must be a directory that datasets can read",
            got=f"{data} ({first_line(error)})",
            repair="write it again with save_to_disk, or as parquet",
        ) from None
    return _by_split(opened if isinstance(opened, DatasetDict) else {"train": opened})


def read_parquet(path: Path) -> "pyarrow.Table":
    """A parquet file; names of classes are those that `datasets` noted in its schema.

    Raises:
        InvalidInput: it cannot be read.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path).read()
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInput(
            "--data must hold readable parquet files", got=f"{path} ({first_line(error)})", repair="write it again"
        ) from None
    # What other libraries noted in the schema is left out: it may be of any form.
    return _with_class_names(table.replace_schema_metadata(None), _noted_features(table))


def _by_split(splits: Any) -> "dict[str, pyarrow.Table]":
    """Our split -> table."""
    known = names_of_splits({name.lower() for name in splits})
    names = {name: split for split, of_split in known.items() for name in of_split}
    tables = {names[name.lower()]: _table_of(rows) for name, rows in splits.items() if name.lower() in names}
    if not tables:
        raise InvalidInput(
            "--data must have a split called train, validation or test",
            got=", ".join(splits) or "no splits",
            repair="rename one",
        )
    return tables


def _table_of(rows: Any) -> "pyarrow.Table":
    rows = rows.flatten_indices() if rows._indices is not None else rows
    return _with_class_names(rows.data.table.replace_schema_metadata(None), rows.features)


def _noted_features(table: "pyarrow.Table") -> Mapping[str, Any]:
    """What `datasets` noted of a table's columns in its schema, if that can be read."""
    noted = (table.schema.metadata or {}).get(b"huggingface")
    if noted is None:
        return {}
    from datasets import Features

    try:
        return Features.from_dict(json.loads(noted)["info"]["features"])
    except (KeyError, ValueError, TypeError, AttributeError, OSError, RecursionError):
        return {}


def _with_class_names(table: "pyarrow.Table", features: Mapping[str, Any]) -> "pyarrow.Table":
    """A table with the names of classes in place of their ids, and in lists of these; ids of no class, as -1, become nulls."""
    import pyarrow

    for number, name in enumerate(table.column_names):
        feature: Any = features.get(name)
        kind, values = table.schema.field(number).type, table.column(number)
        of_lists: Any = getattr(feature, "feature", None)
        if _are_ids(feature, kind):
            names = _names_of(values.to_pylist(), feature.names)
            table = table.set_column(number, name, pyarrow.array(names, pyarrow.string()))
        elif _are_ids(of_lists, getattr(kind, "value_type", None)):
            lists = [None if row is None else _names_of(row, of_lists.names) for row in values.to_pylist()]
            table = table.set_column(number, name, pyarrow.array(lists, pyarrow.list_(pyarrow.string())))
    return table


def _are_ids(feature: Any, kind: "pyarrow.DataType | None") -> bool:
    """Whether values are ids of classes, and whole numbers still: a note in a schema may be older than its column."""
    from datasets import ClassLabel
    from pyarrow import types

    return isinstance(feature, ClassLabel) and kind is not None and bool(types.is_integer(kind))


def _names_of(ids: list[int | None], names: list[str]) -> list[str | None]:
    return [None if value is None or not 0 <= value < len(names) else str(names[value]) for value in ids]
