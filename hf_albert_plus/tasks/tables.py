"""Tables of rows as users have them in files: what each form is read by. Values are as they are written."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidInput, first_line
from ..records.files import check_input_file
from .conll import CONLL_SUFFIXES, read_conll
from .conllu import CONLLU_SUFFIX, read_conllu
from .csv_files import read_csv
from .dataset_tables import read_parquet
from .json_rows import JSON_SUFFIX, read_json, read_json_lines
from .nested_columns import with_nested_columns
from .text_files import form_of, text_of

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", *CONLL_SUFFIXES, CONLLU_SUFFIX)
# JSON is read where a file is named, or a split is called so and has no table: folders hold other files of JSON.
_NAMED_SUFFIXES = (*SUFFIXES, JSON_SUFFIX)
TEXT_SUFFIX = ".txt"
_SPREADSHEETS = (".xlsx", ".xls", ".ods")


def read_lines(path: Path, columns: tuple[str, ...], *, option: str = "--unlabelled") -> "pyarrow.Table":
    """The lines of a text file that are not blank, as a table with one column.

    Args:
        option: that named it, for the error.

    Raises:
        InvalidInput: a task of pairs, which a line cannot hold.
    """
    import pyarrow

    check_input_file(path, what=option, repair="check the path")
    if len(columns) != 1:
        raise InvalidInput(
            f"texts of pairs need the columns {' and '.join(columns)}", got=str(path), repair="write them as csv or jsonl"
        )  # fmt: skip
    lines = [line for line in text_of(path).split("\n") if line.strip()]
    return pyarrow.table({columns[0]: pyarrow.array([line.strip() for line in lines], pyarrow.string())})


def read_files(files: list[Path]) -> "pyarrow.Table":
    """The rows of the files of one split.

    Raises:
        InvalidInput: a file that cannot be read, or files with other columns.
    """
    import pyarrow

    tables = [with_nested_columns(_read_file(file)) for file in files]
    if any(table.column_names != tables[0].column_names for table in tables):
        raise InvalidInput(
            "the files of a split must have the same columns",
            got=" and ".join(sorted({", ".join(table.column_names) for table in tables})),
            repair="write them alike",
        )
    try:
        return pyarrow.concat_tables(tables, promote_options="permissive")
    except pyarrow.ArrowException as error:
        raise InvalidInput(
            "the files of a split must have columns of the same types",
            got=f"{', '.join(file.name for file in files)} ({first_line(error)})",
            repair="write them alike",
        ) from None


def _read_file(path: Path) -> "pyarrow.Table":
    suffix = form_of(path)
    if suffix == ".parquet":
        return read_parquet(path)
    if suffix in (".csv", ".tsv"):
        return read_csv(path)
    readers = {
        **dict.fromkeys((".jsonl", ".ndjson"), read_json_lines),
        **dict.fromkeys(CONLL_SUFFIXES, read_conll),
        CONLLU_SUFFIX: read_conllu,
        JSON_SUFFIX: read_json,
    }
    if suffix in readers:
        return readers[suffix](text_of(path), path)
    repair = "convert it, and give it the suffix of its form"
    if suffix in _SPREADSHEETS:
        repair = "save the sheet as CSV UTF-8 (comma delimited), and name that file"
    raise InvalidInput(f"a file of data must be one of {', '.join(_NAMED_SUFFIXES)}", got=str(path), repair=repair)
