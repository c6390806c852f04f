"""Tables of rows as users have them in files: which files are of a split, and what each form is read by. Values are as they are written."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidInput, first_line
from ..records.files import check_input_file
from .conll import CONLL_SUFFIXES, read_conll
from .csv_files import read_csv
from .dataset_tables import read_parquet
from .json_rows import JSON_SUFFIX, read_json, read_json_lines
from .nested_columns import with_nested_columns
from .split_names import names_of_splits
from .squad_json import of_one_version, version_of
from .text_files import bare, form_of, text_of

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", *CONLL_SUFFIXES)
# JSON is read where a file is named, or a split is called so and has no table: folders hold other files of JSON.
_NAMED_SUFFIXES = (*SUFFIXES, JSON_SUFFIX)
TEXT_SUFFIX = ".txt"
_SPREADSHEETS = (".xlsx", ".xls", ".ods")


def split_sources(data: str) -> dict[str, list[Path]]:
    """Split -> its files, of a file or folder. A lone file, or files of no split's name, are `train`.

    Raises:
        InvalidInput: no file that can be read, or files of several kinds or of several versions for one split.
    """
    path = Path(data)
    if not path.is_dir():
        check_input_file(path, what="--data", repair="check the path")
        return {"train": [path]}
    found: dict[str, list[Path]] = {}
    stems = {bare(entry).stem.lower().partition("-")[0] for entry in path.iterdir()}
    for split, names in names_of_splits(stems).items():
        form = re.compile(rf"({'|'.join(names)})(-\d+-of-\d+(-[0-9a-f]+)?|-v\d+(\.\d+)?)?", re.IGNORECASE)
        named = [file for file in sorted(path.iterdir()) if form.fullmatch(bare(file).stem)]
        files = [file for file in named if form_of(file) in SUFFIXES and not version_of(file)]
        folders = [folder for name in names for folder in (path / name,) if folder.is_dir()]
        files += [file for folder in folders for file in sorted(folder.iterdir()) if form_of(file) in SUFFIXES]
        files = files or of_one_version([file for file in named if form_of(file) == JSON_SUFFIX], split)
        if len({form_of(file) for file in files}) > 1:
            raise InvalidInput(
                f"the {split} split must be of one kind of file",
                got=", ".join(file.name for file in files),
                repair="remove or rename all but one",
            )
        for file in files:
            check_input_file(file, what=f"{file.name} of --data", repair="remove it, or point --data elsewhere")
        if files:
            found[split] = files
    if found:
        return found
    files = sorted(file for file in path.iterdir() if file.is_file() and form_of(file) in SUFFIXES)
    if len(files) == 1:
        return {"train": files}
    there = ", ".join(sorted(entry.name for entry in path.iterdir())[:12]) or "nothing"
    raise InvalidInput(
        "a folder of --data must have files called train, and validation or test, or a single file",
        got=f"{path} with {there}",
        repair=f"rename them, as train.csv (known: {', '.join(SUFFIXES)}), or add --task NAME for a folder of GLUE",
    )


def all_files(path: Path) -> list[Path]:
    """A file, or all files of tables in a folder; of one that `albert-plus score` wrote, its scores.

    Raises:
        InvalidInput: none, or files of several kinds.
    """
    if not path.is_dir():
        check_input_file(path, what="--unlabelled", repair="check the path")
        return [path]
    folder = path / "scores" if (path / "scores").is_dir() else path
    files = sorted(file for file in folder.iterdir() if file.is_file() and form_of(file) in SUFFIXES)
    if len({form_of(file) for file in files}) != 1:
        there = ", ".join(file.name for file in files[:12]) or "none"
        raise InvalidInput(
            "a folder of --unlabelled must hold files of one kind", got=f"{there} in {path}", repair=f"name a file, or use one of {', '.join(SUFFIXES)}"
        )  # fmt: skip
    return files


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
        JSON_SUFFIX: read_json,
    }
    if suffix in readers:
        return readers[suffix](text_of(path), path)
    repair = "convert it, and give it the suffix of its form"
    if suffix in _SPREADSHEETS:
        repair = "save the sheet as CSV UTF-8 (comma delimited), and name that file"
    raise InvalidInput(f"a file of data must be one of {', '.join(_NAMED_SUFFIXES)}", got=str(path), repair=repair)
