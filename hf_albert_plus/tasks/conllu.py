"""Files of CoNLL-U, as treebanks have them: ten columns a word, tab between them, a blank line between sentences.

See https://universaldependencies.org/format.html.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidInput, shown

if TYPE_CHECKING:
    import pyarrow

CONLLU_SUFFIX = ".conllu"
_COLUMNS = 10
_FORM = 1
# Kinds of tags, and where they stand.
_TAGS = {"upos": 3, "xpos": 4}
_NONE = "_"
_WORD = re.compile(r"[1-9]\d*")
# Of several words that are written as one, and of words that are not written.
_NO_WORD = re.compile(r"\d+[-.]\d+")


def read_conllu(text: str, path: Path) -> "pyarrow.Table":
    """The sentences of a file as lists of words and of their parts of speech, universal (`upos`) and the language's own (`xpos`). A kind that
    no word has is left out, and so are remarks, ranges (`1-2`) and empty nodes (`1.1`).

    Raises:
        InvalidInput: a line that does not have the ten columns of the format.
    """
    import pyarrow

    sentences: list[list[list[str]]] = [[]]
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.rstrip("\r")
        if not stripped.strip():
            sentences.append([])
        elif not stripped.startswith("#"):
            values = stripped.split("\t")
            if len(values) != _COLUMNS or not (_WORD.fullmatch(values[0]) or _NO_WORD.fullmatch(values[0])):
                raise InvalidInput(
                    f"every line of {path.name} must have the {_COLUMNS} columns of CoNLL-U, a tab between them and the word's number first",
                    got=f"{len(values)} in line {number}: {shown(stripped)}",
                    repair="name a file of other columns .conll",
                )
            if _WORD.fullmatch(values[0]):
                sentences[-1].append(values)
    kept = [sentence for sentence in sentences if sentence]
    lists = pyarrow.list_(pyarrow.string())
    columns = {"words": _FORM, **_TAGS}
    found = {
        name: [[values[place] for values in sentence] for sentence in kept]
        for name, place in columns.items()
        if name not in _TAGS or any(values[place] != _NONE for sentence in kept for values in sentence)
    }
    return pyarrow.table({name: pyarrow.array(rows, lists) for name, rows in found.items()})
