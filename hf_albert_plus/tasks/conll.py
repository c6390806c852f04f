"""Files of columns, as CoNLL's tasks have them: a word a line, its tag in the last column, a blank line between sentences."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidInput, shown

if TYPE_CHECKING:
    import pyarrow

CONLL_SUFFIXES = (".conll", ".bio", ".iob", ".iob2")
# What the columns are called in a table.
WORDS, TAGS = "words", "tags"
_DOCUMENT = "-DOCSTART-"
_BLANKS = re.compile(r"[ \t]+")


def read_conll(text: str, path: Path) -> "pyarrow.Table":
    """The sentences of a file as lists of words and of tags: its first and its last column. Columns are separated by tabs where a line
    has one, else by blanks. Lines that begin with `-DOCSTART-` are left out.

    Raises:
        InvalidInput: a line with a single column, or with another number of them than the lines before.
    """
    import pyarrow

    sentences: list[tuple[list[str], list[str]]] = [([], [])]
    has_tabs, columns = "\t" in text, 0
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip(" \t\r")
        if not stripped or stripped.startswith(_DOCUMENT):
            if sentences[-1][0]:
                sentences.append(([], []))
            continue
        values = line.rstrip("\r\n").split("\t") if has_tabs else _BLANKS.split(stripped)
        columns = columns or len(values)
        if len(values) != columns or columns < 2:
            raise InvalidInput(
                f"every line of {path.name} must have a word, then its tag last, in as many columns as the others"
                + (f" ({columns})" if columns > 1 else ""),
                got=f"{len(values)} in line {number}: {shown(line)}",
                repair="write WORD<TAB>TAG, and an empty line between sentences",
            )
        words, tags = sentences[-1]
        words.append(values[0].strip())
        tags.append(values[-1].strip())
    kept = [sentence for sentence in sentences if sentence[0]]
    lists = pyarrow.list_(pyarrow.string())
    return pyarrow.table(
        {
            WORDS: pyarrow.array([words for words, _ in kept], lists),
            TAGS: pyarrow.array([tags for _, tags in kept], lists),
        }
    )
