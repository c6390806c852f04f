"""Tables of rows as users have them: csv, tsv, jsonl, parquet, a directory of `datasets`, or the Hub. Values are as they are written."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, first_line, shown
from ..hub_connection import check_data
from ..records.files import check_input_file
from .conll import CONLL_SUFFIXES, read_conll
from .nested_columns import with_nested_columns
from .squad_json import SQUAD_SUFFIX, of_one_version, read_squad, version_of
from .text_files import bare, form_of, text_of

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", *CONLL_SUFFIXES)
# JSON is read as SQuAD's, where a file is named, or a split is called so and has no table: folders hold other files of JSON.
_NAMED_SUFFIXES = (*SUFFIXES, SQUAD_SUFFIX)
TEXT_SUFFIX = ".txt"
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
# Split -> what files and folders of it are called.
SPLIT_NAMES = {"train": ("train", "training"), "validation": ("validation", "valid", "dev", "val"), "test": ("test",)}
_DATASET_FILES = ("dataset_dict.json", "state.json")
_HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?::([\w.+-]+))?")
_DELIMITERS = ",;\t|"
_LARGEST_FIELD = 1 << 24
_WORDS_OF_A_NAME = 3
# Lines of a file that tell what separates its columns.
_LOOKED_AT = 50


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
    for split, names in SPLIT_NAMES.items():
        form = re.compile(rf"({'|'.join(names)})(-\d+-of-\d+|-v\d+(\.\d+)?)?", re.IGNORECASE)
        named = [file for file in sorted(path.iterdir()) if form.fullmatch(bare(file).stem)]
        files = [file for file in named if form_of(file) in SUFFIXES and not version_of(file)]
        folders = [folder for name in names for folder in (path / name,) if folder.is_dir()]
        files += [file for folder in folders for file in sorted(folder.iterdir()) if form_of(file) in SUFFIXES]
        files = files or of_one_version([file for file in named if form_of(file) == SQUAD_SUFFIX], split)
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


def _by_split(splits: Any) -> "dict[str, pyarrow.Table]":
    """Our split -> table, names of classes in place of their ids."""
    names = {name: split for split, known in SPLIT_NAMES.items() for name in known}
    tables = {names[name.lower()]: _with_class_names(rows) for name, rows in splits.items() if name.lower() in names}
    if not tables:
        raise InvalidInput(
            "--data must have a split called train, validation or test",
            got=", ".join(splits) or "no splits",
            repair="rename one",
        )
    return tables


def _with_class_names(rows: Any) -> "pyarrow.Table":
    import pyarrow
    from datasets import ClassLabel

    rows = rows.flatten_indices() if rows._indices is not None else rows
    table = rows.data.table.replace_schema_metadata(None)
    for number, (name, feature) in enumerate(rows.features.items()):
        of_lists = getattr(feature, "feature", None)
        if isinstance(feature, ClassLabel):
            named: list[Any] = [_class_name(feature, value) for value in rows[name]]
            table = table.set_column(number, name, pyarrow.array(named, pyarrow.string()))
        elif isinstance(of_lists, ClassLabel):
            named = [None if row is None else [_class_name(of_lists, value) for value in row] for row in rows[name]]
            table = table.set_column(number, name, pyarrow.array(named, pyarrow.list_(pyarrow.string())))
    return table


def _class_name(feature: Any, value: int | None) -> str | None:
    return None if value is None or value < 0 else str(feature.int2str(value))


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
        return _read_parquet(path)
    if suffix in (".csv", ".tsv"):
        return _read_csv(path)
    if suffix in (".jsonl", ".ndjson"):
        return _read_json_lines(path)
    readers = {**dict.fromkeys(CONLL_SUFFIXES, read_conll), SQUAD_SUFFIX: read_squad}
    if suffix in readers:
        return readers[suffix](text_of(path), path)
    repair = "convert it, and give it the suffix of its form"
    if suffix in _SPREADSHEETS:
        repair = "save the sheet as CSV UTF-8 (comma delimited), and name that file"
    raise InvalidInput(f"a file of data must be one of {', '.join(_NAMED_SUFFIXES)}", got=str(path), repair=repair)


def _read_parquet(path: Path) -> "pyarrow.Table":
    import pyarrow
    import pyarrow.parquet

    try:
        # What other libraries noted in the schema is left out: it may be of any form.
        return pyarrow.parquet.ParquetFile(path).read().replace_schema_metadata(None)
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInput(
            "--data must hold readable parquet files", got=f"{path} ({first_line(error)})", repair="write it again"
        ) from None


def _read_csv(path: Path) -> "pyarrow.Table":
    """A csv or tsv file, every value a string."""
    import pyarrow

    text = text_of(path)
    delimiter = "\t" if form_of(path) == ".tsv" else _delimiter(text, path)
    csv.field_size_limit(_LARGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    start = 1
    try:
        for row in reader:
            has_values = any(value.strip() for value in row)
            if rows and has_values and len(row) != len(rows[0]):
                raise InvalidInput(
                    f"every row of {path.name} must have its {len(rows[0])} columns ({', '.join(rows[0])})",
                    got=f"{len(row)} in the row that begins in line {start}",
                    repair="put values with delimiters, quotes or newlines in them into double quotes",
                )
            if has_values:
                rows.append(row)
            start = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInput(
            "quotes of a csv file must be closed, and doubled within quotes",
            got=f"{first_line(error)}, in the row of {path} that begins in line {start}",
            repair="close the quote there, or write the file again with a csv library",
        ) from None
    header = [name.strip() for name in rows[0]] if rows else []
    _check_header(header, path)
    columns = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    _check_names(header, columns, path)
    arrays = [pyarrow.array(column, pyarrow.string()) for column in columns]
    return pyarrow.Table.from_arrays(arrays, names=header)


def _check_header(header: list[str], path: Path) -> None:
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise InvalidInput(
            "a column must be there once", got=f"{shown(twice[0])} {header.count(twice[0])} times in {path}", repair="rename or drop one"
        )  # fmt: skip
    if len(header) < 2:
        raise InvalidInput(
            "a csv file must have a line with the names of its columns, and more than one of them",
            got=f"{shown(header[0]) if header else 'an empty file'} in {path}",
            repair="add the names, as text,label in the first line",
        )


def _check_names(header: list[str], columns: list[tuple[str, ...]], path: Path) -> None:
    """A first line that is a row itself has a sentence in it, and a label that comes again below."""
    sentence = next((name for name in header if len(name.split()) > _WORDS_OF_A_NAME), None)
    again = next((name for name, values in zip(header, columns, strict=True) if name in values), None)
    if sentence is not None and again is not None:
        raise InvalidInput(
            "the first line of a csv file must have the names of its columns",
            got=f"{shown(sentence)} and {shown(again)} in {path}, which look like values",
            repair="add a line with the names, as label,text",
        )


def _delimiter(text: str, path: Path) -> str:
    """What separates the columns of a csv file: what cuts its first rows into the same number of columns, more than one."""
    counts: dict[str, int] = {}
    for delimiter in _DELIMITERS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        widths = set()
        try:
            for _, row in zip(range(_LOOKED_AT), reader, strict=False):
                widths.add(len(row)) if row else None
        except csv.Error:
            continue
        if len(widths) == 1 and max(widths) > 1:
            counts[delimiter] = max(widths)
    if len(counts) > 1 and "," in counts:
        # A comma in every text is rarer than another mark in every text.
        header = text.partition("\n")[0]
        named = [one for one in counts if one in header]
        counts = {one: counts[one] for one in named if one == "," or header.count(",") == 0} or counts
    return next(iter(counts), ",")


def _read_json_lines(path: Path) -> "pyarrow.Table":
    import pyarrow

    names: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    for number, row in _objects(path):
        if not isinstance(row, dict):
            raise InvalidInput(
                f"every line of {path.name} must be an object", got=f"{shown(row)} in line {number}", repair='write {"text": …, "label": …}'
            )  # fmt: skip
        names.update(dict.fromkeys(row))
        rows.append(row)
    try:
        return pyarrow.table({name: [row.get(name) for row in rows] for name in names})
    except (pyarrow.ArrowException, TypeError, OverflowError, UnicodeEncodeError) as error:
        raise InvalidInput(
            "a column must have values of one type in every line",
            got=f"{first_line(error)} in {path}",
            repair="write numbers as numbers or all values as strings",
        ) from None


def _objects(path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text_of(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"every line of {path.name} must be JSON",
                got=f"{first_line(error)} in line {number}",
                repair="write an object a line, as json.dumps does",
            ) from None
