"""Checks that every figure in a table of the results pages stands in a record of this repository.

    python docs/figures.py
    python docs/figures.py keep pooling-mrpc scores/mrpc/scores.json

The first line checks all pages. A table of `docs/results` has a line before it that names its records, as `<!-- figures: records/pooling-*.json -->`,
with paths from the page; rows and numbers that no record has are named behind them, as `<!-- figures: records/a.json but for tf-idf; 35.8 -->`. Or it says
why there is none, as `<!-- figures: none, WHY -->`. Elsewhere a row that links to a results page may have no
figure that the page lacks. The second line keeps what a table needs of documents of `albert-plus`, without what is of single rows and calls.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
RECORDS = RESULTS / "records"
# The years of papers stand there.
_WITHOUT_FIGURES = ROOT / "docs" / "reference"
MARKER = re.compile(r"^<!-- figures: (.+?) -->$")
_NONE, _BUT_FOR = "none, ", " but for "
_RULE = re.compile(r"^\|[-:| ]+\|$")
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#]*)[^)]*\)")
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
# A path of the machine that something was measured on, by itself or among the words of a command.
_PATH = re.compile(r"(?<!\S)/\S+")
# A file is written in MB, and a share as a percentage or as points.
_UNITS = (1.0, 100.0, 1e-6)
_MOST_DECIMALS = 4
# Smaller fractions are never written as whole numbers: any number would stand for one of them.
_LEAST_ROUNDED = 100.0
# Of single rows of the data and of single calls: long, and no table shows them.
_SINGLE = (
    "rounds",
    "predictions",
    "logits",
    "references",
    "classes",
    "confusions",
    "reliability",
    "curve",
    "own_task",
    "answers",
)


def tables(page: str) -> Iterator[tuple[int, list[list[str]]]]:
    """The tables of a page: the number of the first line, and the rows below the head, in cells."""
    lines = page.splitlines()
    for number, line in enumerate(lines):
        if not _RULE.match(line) or number == 0:
            continue
        rows = []
        for row in lines[number + 1 :]:
            if not row.startswith("|"):
                break
            rows.append([cell.strip() for cell in row.strip().strip("|").split("|")])
        yield number - 1, rows


def numbers(cell: str) -> list[str]:
    """The numbers of a cell as they are written, without the commas of thousands; those of code and addresses left out."""
    words = re.sub(r"`[^`]*`", "", _LINK.sub(r"\1", cell))
    return [number.replace(",", "") for number in _NUMBER.findall(words)]


def written(document: Any) -> set[str]:
    """Every number of a document in every form in which a table may write it."""
    forms = set()
    for value in _values(document):
        for in_unit in (abs(value) * unit for unit in _UNITS):
            least = 0 if in_unit >= _LEAST_ROUNDED or in_unit == int(in_unit) else 1
            forms.update(f"{in_unit:.{decimals}f}" for decimals in range(least, _MOST_DECIMALS + 1))
    return forms


def _values(document: Any) -> Iterator[float]:
    if isinstance(document, dict):
        document = list(document.values())
    if isinstance(document, list):
        for each in document:
            yield from _values(each)
    elif isinstance(document, str):
        yield from (float(number) for number in numbers(document))
    elif isinstance(document, (int, float)) and not isinstance(document, bool):
        yield float(document)


def problems_of_results(path: Path) -> Iterator[str]:
    """What is wrong with the tables of a results page."""
    page = path.read_text(encoding="utf-8")
    lines = page.splitlines()
    for number, rows in tables(page):
        marker = MARKER.match(lines[number - 2]) if number >= 2 else None
        where = f"{path.relative_to(ROOT)}:{number + 1}"
        if marker is None:
            yield f"{where}: a table must name its records in a line before it, with a blank line between"
            continue
        if marker[1].startswith(_NONE):
            continue
        patterns, _, without = marker[1].partition(_BUT_FOR)
        records = [record for pattern in patterns.split() for record in path.parent.glob(pattern)]
        if not records:
            yield f"{where}: there is no record {patterns}"
            continue
        unrecorded = {name.strip() for name in without.split(";") if name.strip()}
        strangers = (
            unrecorded - {row[0] for row in rows} - {number for row in rows for cell in row for number in numbers(cell)}
        )
        if strangers:
            yield f"{where}: no row and no number is {', '.join(sorted(strangers))}"
        known = set().union(*(written(json.loads(record.read_text(encoding="utf-8"))) for record in records))
        for row in rows:
            missing = [number for cell in row[1:] for number in numbers(cell) if number not in known | unrecorded]
            if missing and row[0] not in unrecorded:
                yield f"{where}: no record of it has {', '.join(missing)} ({row[0]})"


def problems_elsewhere(path: Path) -> Iterator[str]:
    """Rows whose figures are not on the results page that they link to."""
    for number, rows in tables(path.read_text(encoding="utf-8")):
        for row in rows:
            linked = [path.parent / address for _, address in _LINK.findall(" ".join(row)) if "results/" in address]
            known = {number for page in linked for number in numbers(page.read_text(encoding="utf-8"))}
            missing = [number for cell in row[1:] for number in numbers(cell) if linked and number not in known]
            if missing:
                names = ", ".join(page.name for page in linked)
                yield f"{path.relative_to(ROOT)}:{number + 1}: {names} has no {', '.join(missing)} ({row[0]})"


def problems() -> list[str]:
    """What is wrong with the figures of all pages."""
    pages = [page for page in sorted(ROOT.glob("docs/**/*.md")) if page.parent not in (RESULTS, _WITHOUT_FIGURES)]
    others = [ROOT / "README.md", *pages]
    results = [problem for page in sorted(RESULTS.glob("*.md")) for problem in problems_of_results(page)]
    return results + [problem for page in others for problem in problems_elsewhere(page)]


def keep(name: str, documents: list[Path]) -> Path:
    """Writes what tables need of documents: everything but answers to single rows. Documents of one name are told apart by their folders."""
    names = [document.stem for document in documents]
    kept = {
        stem if names.count(stem) == 1 else f"{document.parent.name}-{stem}": _condensed(
            json.loads(document.read_text(encoding="utf-8"))
        )
        for stem, document in zip(names, documents, strict=True)
    }
    if len(kept) < len(documents):
        sys.exit(f"documents must differ in name or folder: {', '.join(map(str, documents))}")
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _condensed(document: Any) -> Any:
    """A document without what is of single rows and calls, and with the names of files alone where a path is of the machine that it was measured on."""
    if isinstance(document, dict):
        return {name: _condensed(value) for name, value in document.items() if name not in _SINGLE}
    if isinstance(document, list):
        return [_condensed(each) for each in document]
    return _PATH.sub(lambda path: Path(path[0]).name, document) if isinstance(document, str) else document


if __name__ == "__main__":
    if sys.argv[1:2] == ["keep"]:
        print(keep(sys.argv[2], [Path(word) for word in sys.argv[3:]]))
    else:
        found = problems()
        print("\n".join(found) or "every figure has its record")
        sys.exit(bool(found))
