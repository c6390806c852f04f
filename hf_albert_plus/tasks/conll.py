"""Files of columns, as CoNLL's tasks have them: a word a line, its tag in the last column, a blank line between sentences."""

import re
import shlex
from itertools import groupby, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidInput, shown
from .tag_schemes import OUTSIDE, is_prefixed
from .text_files import bare

if TYPE_CHECKING:
    import pyarrow

CONLL_SUFFIXES = (".conll", ".bio", ".iob", ".iob2")
# What the columns are called in a table.
WORDS, TAGS = "words", "tags"
_DOCUMENT = "-DOCSTART-"
_BLANKS = re.compile(r"[ \t]+")
# What the first word of a sentence is numbered by, also where it is several.
_FIRST = re.compile(r"1([-.]\d+)?")


def read_conll(text: str, path: Path) -> "pyarrow.Table":
    """The sentences of a file as lists of words and of tags: its first and its last column, or the other way round where only the first has
    tags. Columns are separated by tabs where a line has one, else by blanks. Left out are lines that begin with `-DOCSTART-`, and remarks
    before a sentence: `# …`, in other columns than its words.

    Raises:
        InvalidInput: a line with a single column, or with another number of them than the lines before; a sentence a line; or words that are
            numbered.
    """
    import pyarrow

    sentences: list[tuple[list[str], list[str]]] = [([], [])]
    lines = _without_remarks(text.split("\n"))
    has_tabs, columns = any("\t" in line.strip(" \t\r") for line in lines), 0
    for number, line in enumerate(lines, start=1):
        stripped = line.strip(" \t\r")
        if not stripped or stripped.startswith(_DOCUMENT):
            if sentences[-1][0]:
                sentences.append(([], []))
            continue
        values = line.rstrip("\r\n").split("\t") if has_tabs else _BLANKS.split(stripped)
        columns = columns or len(values)
        _check_line(values, columns, f"line {number}: {shown(line)}", path)
        words, tags = sentences[-1]
        words.append(values[0].strip())
        tags.append(values[-1].strip())
    kept = [sentence for sentence in sentences if sentence[0]]
    _check_not_numbered(kept, columns, path)
    if _has_tags_first(kept):
        kept = [(words, tags) for tags, words in kept]
    lists = pyarrow.list_(pyarrow.string())
    return pyarrow.table(
        {
            WORDS: pyarrow.array([words for words, _ in kept], lists),
            TAGS: pyarrow.array([tags for _, tags in kept], lists),
        }
    )


def _without_remarks(lines: list[str]) -> list[str]:
    """Lines, those blank that are remarks: `# …` before the first word of a sentence, in other columns than its last word."""
    kept: list[str] = []
    for is_blank, group in groupby(lines, lambda line: not line.strip(" \t\r")):
        of_sentence = list(group)
        first = 0
        if not is_blank:
            width = _width(of_sentence[-1])
            remarks = takewhile(lambda line: line.startswith(("# ", "#\t")) and _width(line) != width, of_sentence)  # noqa: B023
            first = sum(1 for _ in remarks)
        kept += [""] * first + of_sentence[first:]
    return kept


def _width(line: str) -> tuple[bool, int]:
    """Whether tabs separate the columns of a line, and how many these are."""
    return "\t" in line, len(line.split("\t") if "\t" in line else _BLANKS.split(line.strip()))


def _check_line(values: list[str], columns: int, shown_line: str, path: Path) -> None:
    if len(values) != columns or columns < 2:
        raise InvalidInput(
            f"every line of {path.name} must have a word, then its tag last, in as many columns as the others"
            + (f" ({columns})" if columns > 1 else ""),
            got=f"{len(values)} in {shown_line}",
            repair="write WORD<TAB>TAG, and an empty line between sentences",
        )
    *tags, last = values[-1].split() or [""]
    if len(tags) > 1 and last and all(tag == OUTSIDE or is_prefixed(tag) for tag in tags):
        raise InvalidInput(
            f"every line of {path.name} must have one word and its tag",
            got=f"{len(tags) + 1} tags in {shown_line}",
            repair="write WORD<TAB>TAG a line, and an empty line between sentences",
        )


def _check_not_numbered(sentences: list[tuple[list[str], list[str]]], columns: int, path: Path) -> None:
    """Refuses a first column that numbers the words of every sentence, as CoNLL-U has it.

    Raises:
        InvalidInput: such a column.
    """
    if sentences and all(_FIRST.fullmatch(words[0]) and words[-1].isdecimal() for words, _ in sentences):
        raw, target = (shlex.quote(str(each)) for each in (path, path.with_name(f"words-{bare(path).stem}.conll")))
        lines = f"grep -v '^#' {raw}" if bare(path) == path else f"gunzip -c {raw} | grep -v '^#'"
        raise InvalidInput(
            f"the first column of {path.name} must be words",
            got=f"{', '.join(sentences[0][0][:4])} in its first sentence, which number them",
            repair=f"keep the columns of words and tags, say: {lines} | cut -f 2,{min(4, columns)} > {target}",
        )


def _has_tags_first(sentences: list[tuple[list[str], list[str]]]) -> bool:
    """Whether the first column is tags: O and others with prefixes, fewer of them than the last column has values."""
    first, last = ({value for sentence in sentences for value in sentence[side]} for side in (0, 1))
    return OUTSIDE in first and len(first) < len(last) and all(tag == OUTSIDE or is_prefixed(tag) for tag in first)
