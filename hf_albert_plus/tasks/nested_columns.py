"""Nested fields as columns: `annotation.label` of an object `annotation`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def with_nested_columns(table: "pyarrow.Table") -> "pyarrow.Table":
    """A table whose objects with a string in them are columns of their own, a field each. Objects of numbers stay whole: they may be the
    answers of a teacher."""
    names, columns = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        for field, values in _fields(name, column):
            names.append(field)
            columns.append(values)
    if names == table.column_names:
        return table
    return type(table).from_arrays(columns, names=names)


def _fields(name: str, column: "pyarrow.ChunkedArray") -> "list[tuple[str, pyarrow.ChunkedArray]]":
    if not _has_strings(column.type):
        return [(name, column)]
    kinds = [column.type.field(number) for number in range(column.type.num_fields)]
    return [
        field
        for kind, values in zip(kinds, column.flatten(), strict=True)
        for field in _fields(f"{name}.{kind.name}", values)
    ]


def _has_strings(kind: "pyarrow.DataType") -> bool:
    """Whether an object has a string in a field of its own, or of an object within it."""
    from pyarrow import types

    if not types.is_struct(kind):
        return False
    fields = [kind.field(number).type for number in range(kind.num_fields)]
    return any(types.is_string(one) or types.is_large_string(one) or _has_strings(one) for one in fields)
