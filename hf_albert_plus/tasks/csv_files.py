"""Files of csv and tsv, whatever separates their columns and however their quotes are meant. Every value is a string."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidInput, first_line, shown
from .text_files import form_of, text_of
from .written_numbers import as_number

if TYPE_CHECKING:
    import pyarrow

_DELIMITERS = ",;\t|"
_LARGEST_FIELD = 1 << 24
# What Excel reads, and some programs write, before the names of columns.
_SEPARATOR_LINE = re.compile(r"sep=([,;\t|])\r?\n", re.IGNORECASE)
_WORDS_OF_A_NAME = 3
# What sentences have in them, and names of columns do not.
_MARKS = re.compile(r"[.,!?;:\"“”…](\s|$)")
# Lines of a file that tell what separates its columns.
_LOOKED_AT = 50


def read_csv(path: Path) -> "pyarrow.Table":
    """A csv or tsv file.

    Raises:
        InvalidInput: rows of other lengths than the first, open quotes, or a first line that has no names of columns.
    """
    import pyarrow

    csv.field_size_limit(_LARGEST_FIELD)
    text = text_of(path)
    said = _SEPARATOR_LINE.match(text)
    if form_of(path) == ".tsv":
        said, delimiter = None, "\t"
    elif said is not None:
        text, delimiter = text[said.end() :], said[1]
    else:
        delimiter = _delimiter(text)
    numbered = list(_rows(text, delimiter, path, above=0 if said is None else 1))
    rows = [row for _, row in numbered]
    _check_names_stand_once(numbered, path)
    header = [name.strip() for name in rows[0]] if rows else []
    if header.count("") > 1:  # nobody could name them
        places = [place for place, name in enumerate(header) if name]
        rows = [[row[place] for place in places] for row in rows]
        header = [header[place] for place in places]
    _check_several(header, path)
    columns = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    _check_names(header, columns, delimiter, path)
    _check_unique(header, path)
    arrays = [pyarrow.array(column, pyarrow.string()) for column in columns]
    return pyarrow.Table.from_arrays(arrays, names=header)


def _rows(text: str, delimiter: str, path: Path, *, above: int) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, that of the names among them, each with the line where it begins.

    Args:
        above: lines of the file before the text.

    Raises:
        InvalidInput: a row of another length, or open quotes.
    """
    has_quotes = delimiter != "\t" or not _quotes_are_letters(text)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        strict=True,
        quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE,
    )
    header: list[str] = []
    start = 1 + above
    try:
        for row in reader:
            if any(value.strip() for value in row):
                header = header or row
                if len(row) != len(header):
                    raise InvalidInput(
                        f"every row of {path.name} must have its {len(header)} columns ({', '.join(header)})",
                        got=f"{len(row)} in the row that begins in line {start}",
                        repair="put values with delimiters, quotes or newlines in them into double quotes",
                    )
                yield start, row
            start = reader.line_num + 1 + above
    except csv.Error as error:
        raise InvalidInput(
            "quotes of a csv file must be closed, and doubled within quotes",
            got=f"{first_line(error)}, in the row of {path} that begins in line {start}",
            repair="close the quote there, or write the file again with a csv library",
        ) from None


def _check_names_stand_once(rows: list[tuple[int, list[str]]], path: Path) -> None:
    """Refuses the names of columns once more among the rows, where no other row has one of them for a value.

    Raises:
        InvalidInput: such a row.
    """
    # A file that was put behind another may begin with a byte-order mark, too.
    names = [name.strip() for name in rows[0][1]] if rows else []
    again = [line for line, row in rows[1:] if [value.strip("\ufeff ") for value in row] == names]
    if again and all(
        sum(row[place].strip("\ufeff ") == name for _, row in rows[1:]) == len(again)
        for place, name in enumerate(names)
    ):
        raise InvalidInput(
            f"the names of the columns of {path.name} must stand in its first line alone",
            got=f"{', '.join(names)} again in line {again[0]}, as if two files were joined",
            repair="remove that line, and others like it",
        )


def _quotes_are_letters(text: str) -> bool:
    """Whether tabs cut every line into as many columns, and quotes, read as csv has them, would join lines or be faults.

    Quotes in the first line, or more values that are quoted with a doubled quote in them than those that are open, say that a csv library wrote
    the file.
    """
    lines = [line for line in re.split("\r\n|\n|\r", text) if line.strip()]
    if '"' not in text or '"' in lines[0] or len({line.count("\t") for line in lines}) != 1:
        return False
    quoted = [value for line in lines for value in line.split("\t") if value.startswith('"')]
    closed = [value for value in quoted if re.fullmatch(r'"([^"]|"")*"', value)]
    if sum('""' in value[1:-1] for value in closed) > len(quoted) - len(closed):
        return False
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True)
    try:
        return sum(any(value.strip() for value in row) for row in reader) != len(lines)
    except csv.Error:
        return True


def _check_several(header: list[str], path: Path) -> None:
    if len(header) < 2:
        raise InvalidInput(
            "a csv file must have a line with the names of its columns, and more than one of them",
            got=f"{shown(header[0]) if header else 'an empty file'} in {path}",
            repair="add the names, as text,label in the first line",
        )


def _check_unique(header: list[str], path: Path) -> None:
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise InvalidInput(
            "a column must be there once", got=f"{shown(twice[0])} {header.count(twice[0])} times in {path}", repair="rename or drop one"
        )  # fmt: skip


def _check_names(header: list[str], columns: list[tuple[str, ...]], delimiter: str, path: Path) -> None:
    """Refuses a first line that is a row itself: a sentence is in it, or a mark that only sentences have, and a value that comes again
    below, or a number amid those of its column.

    Raises:
        InvalidInput: such a line.
    """
    sentence = next((name for name in header if len(name.split()) > _WORDS_OF_A_NAME), None)
    marked = next((name for name in header if _MARKS.search(name)), None)
    named = list(zip(header, columns, strict=True))
    least = 2 if sentence is None else 1
    again = next((name for name, values in named if name and values.count(name) >= least), None)
    if sentence is not None and again is None:
        again = next((name for name, values in named if _is_amid(name, values)), None)
    text = sentence or marked
    if text is None or again is None or again == text != sentence:
        return
    longest = max(range(len(header)), key=lambda place: sum(map(len, columns[place])))
    label = header.index(again)
    names = [f"column{place}" for place in range(1, len(header) + 1)]
    names[label] = "labels" if any("," in value for value in columns[label]) else "label"
    names[longest] = "text"
    raise InvalidInput(
        "the first line of a csv file must have the names of its columns",
        got=f"{shown(text)} and {shown(again)} in {path}, which look like values",
        repair=f"add a line with the names before it, as {delimiter.join(names).replace(chr(9), '<TAB>')}; or rename that column",
    )


def _is_amid(name: str, values: tuple[str, ...]) -> bool:
    """Whether a name is a number, and lies between those of its column."""
    number = as_number(name)
    if number is None:
        return False
    others = [other for other in map(as_number, values) if other is not None]
    return len(others) == len(values) > 0 and min(others) <= number <= max(others)


def _delimiter(text: str) -> str:
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
    header = text.lstrip("\r\n").partition("\n")[0]
    if len(counts) > 1 and "," in counts:
        # A comma in every text is rarer than another mark in every text.
        named = [one for one in counts if one in header]
        counts = {one: counts[one] for one in named if one == "," or header.count(",") == 0} or counts
    # Where rows differ, the names tell, so that the row at fault is what is shown.
    return next(iter(counts), None) or max(_DELIMITERS, key=header.count)
