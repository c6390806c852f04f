"""What splits are called: in the names of files and folders, by `datasets`, and in a column of a table."""

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from ..errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow

# Split -> its names; those that come later are read where none of the first is there: data may have `validation` and `eval`.
_NAMES = {
    "train": (("train", "training"),),
    "validation": (("validation", "valid", "dev", "val"), ("eval",)),
    "test": (("test", "testing"),),
}
ALL_NAMES = tuple(name for rows in _NAMES.values() for names in rows for name in names)
_COLUMNS = ("split", "partition", "set")


def names_of_splits(there: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Split -> what it is called, where these names in lower case are there."""
    return {
        split: next((names for names in rows if set(names) & set(there)), rows[0]) for split, rows in _NAMES.items()
    }


def by_split_column(table: "pyarrow.Table") -> "dict[str, pyarrow.Table]":
    """Split -> its rows without that column, where a column says of every row which split it is of; all are `train` where none does.

    Raises:
        InvalidInput: a column names training and other rows so, and says something else of the rest.
    """
    for name in table.column_names:
        if name.lower() not in _COLUMNS:
            continue
        said = [str(value).strip().lower() for value in table.column(name).to_pylist()]
        rows = {
            split: [place for place, value in enumerate(said) if value in names]
            for split, names in names_of_splits(said).items()
        }
        known = sum(map(len, rows.values()))
        if not rows["train"] or known == len(rows["train"]):
            continue
        if known < len(said):
            others = Counter(said[place] for place in set(range(len(said))).difference(*rows.values()))
            listed = ", ".join(f"{value!r} in {count:,} rows" for value, count in others.most_common(3))
            raise InvalidInput(
                f"column {name!r} must say train, validation or test of every row",
                got=listed,
                repair="write one of the three there, or call that column something else",
            )
        rest = table.drop_columns([name])
        return {split: rest.take(places) for split, places in rows.items() if places}
    return {"train": table}
