"""What the command line prints, and what every verb does first and last."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from ..records import processes
from ..records.files import write_json
from .json_argument import STANDARD_OUTPUT

if TYPE_CHECKING:
    from hf_albert_plus.eval.reporting.table import Table

notes = Console(stderr=True, highlight=False, soft_wrap=True)


def quiet_libraries() -> None:
    """Holds back the bars and load reports of the libraries: this package checks and shows those steps itself."""
    import datasets

    quiet_transformers()
    datasets.utils.logging.set_verbosity_error()
    datasets.disable_progress_bars()


def quiet_transformers() -> None:
    """The same of transformers alone, for what needs no data."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def gives_json(document: Any, file: Path | None) -> bool:
    """Writes a document of numbers where `--json` says: to a file, or to standard output, which has nothing else then.

    Returns:
        Whether it was printed, so that no table may be.
    """
    if file is None:
        return False
    from hf_albert_plus.eval.measured_documents import to_json

    if file == STANDARD_OUTPUT:
        print_json(to_json(document))
        return True
    write_json(file, to_json(document))
    return False


def print_json(content: Any) -> None:
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def printable(text: str, *, keep: str = "") -> str:
    """Text that does to a terminal nothing but show: names may hold newlines, escapes and what rich takes for markup.

    Args:
        keep: control characters that are meant.
    """
    return escape("".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text))


def print_rows(header: list[str], rows: list[list[str]], *, title: str | None = None) -> None:
    """A table as wide as it needs to be: a pipe or a narrow terminal must not cut numbers."""
    table = RichTable(title=None if title is None else printable(title), title_justify="left")
    for i, column in enumerate(header):
        table.add_column(printable(column, keep="\n"), justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(printable, row))
    needed = Console(width=10_000).measure(table).maximum
    console = Console(highlight=False)
    Console(highlight=False, width=max(needed, console.width)).print(table)


def print_table(table: "Table", *, title: str) -> None:
    """The speedup table, one line a model. Score and size columns are headed in two lines to save width."""
    from hf_albert_plus.eval.reporting.presentation import summary

    header, cells = summary(table)
    print_rows([column.replace(" ", "\n", 1) for column in header], cells, title=title)


def start(threads: int | None) -> None:
    """Quietens the libraries and sets the number of threads."""
    from ..machine import physical_cores, use_threads

    quiet_libraries()
    use_threads(threads or max(1, physical_cores() // processes.count_here()))


def done(record: Any, output: Path, *, as_json: bool) -> None:
    """Prints what a stage did, and its directory."""
    if not processes.is_first():
        return
    if as_json:
        print_json({"out": str(output), "reused": record.reused, "result": record.result})
        return
    facts = ", ".join(
        f"{key.replace('_', ' ')} {value}"
        for key, value in record.result.items()
        if value is not None and not isinstance(value, dict | list)
    )
    state = "was done before" if record.reused else f"done in {record.seconds:.0f} s"
    notes.print(f"{record.stage} {state}: {printable(facts)}")
    typer.echo(str(output))
