"""The files that are scored: found by their patterns, told apart by what they are, known again by size and time."""

import glob
import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidInput

KINDS = {".parquet": "parquet", ".jsonl": "lines of JSON", ".json": "lines of JSON", ".ndjson": "lines of JSON", ".txt": "lines of text"}  # fmt: skip
_SUFFIXES = ", ".join(KINDS)
# Tables whose rows cannot be told apart in the middle of a file, as their values may have newlines in them.
_TABLES = (".csv", ".tsv")


@dataclass(frozen=True)
class Source:
    """A file to score.

    Attributes:
        path: as the user names it; the output calls it so.
        file: where every worker finds it.
        modified_ns: when it was written.
    """

    path: str
    file: str
    size: int
    modified_ns: int

    @property
    def kind(self) -> str:
        return KINDS[Path(self.path).suffix.lower()]

    @property
    def identity(self) -> str:
        """Changes when the file does."""
        return hashlib.sha256(f"{self.path} {self.size} {self.modified_ns}".encode()).hexdigest()[:8]

    def check_unchanged(self) -> None:
        """Refuses a file that has changed.

        Raises:
            InvalidInput: it is another one by now.
        """
        facts = Path(self.file).stat()
        if (facts.st_size, facts.st_mtime_ns) != (self.size, self.modified_ns):
            raise InvalidInput(
                "an input must stay as it is while it is scored",
                got=f"another size or time of {self.path}",
                repair="run again: its rows are scored anew",
            )


def source_of(path: str) -> Source:
    """A file as it is now."""
    facts = Path(path).stat()
    return Source(path, str(Path(path).absolute()), facts.st_size, facts.st_mtime_ns)


def find_sources(patterns: Sequence[str], *, output: Path) -> list[Source]:
    """Every file that a pattern matches, once, in the order of the patterns and of the names that each one matches.

    Raises:
        InvalidInput: a pattern without a file, a file of another kind, or one in the output.
    """
    if not patterns:
        raise InvalidInput("--input must name at least one file", got="none", repair="use --input 'data/*.parquet'")
    sources: dict[Path, Source] = {}
    for pattern in patterns:
        for path in _matches(pattern):
            _check(path, output)
            sources.setdefault(Path(path).resolve(), source_of(path))
    return list(sources.values())


def _matches(pattern: str) -> list[str]:
    # A name may hold what would be a wildcard.
    matches = [pattern] if Path(pattern).is_file() else sorted(glob.glob(pattern, recursive=True))
    files = [path for path in matches if Path(path).is_file()]
    if not files:
        is_folder = Path(pattern).is_dir()
        raise InvalidInput(
            "--input must match a file",
            got=f"{pattern!r}, {'which is a folder' if is_folder else 'which matches none'}",
            repair=f"use --input '{pattern.rstrip('/')}/*.parquet'" if is_folder else "check the path, and quote patterns: --input 'data/*.parquet'",
        )  # fmt: skip
    return files


def _repair(path: Path) -> str:
    """What to do with a file that is not read."""
    if path.suffix.lower() not in _TABLES:
        return f"name only such files: --input '{path.parent}/*.parquet'; unpack what is packed"
    lines = path.with_suffix(".jsonl")
    code = f"import pandas; pandas.read_csv({str(path)!r}, sep=None, engine='python').to_json({str(lines)!r}, orient='records', lines=True)"
    return f"write it as lines of JSON: python -c {shlex.quote(code)}"


def _check(path: str, output: Path) -> None:
    if Path(path).suffix.lower() not in KINDS:
        raise InvalidInput(
            f"--input FILE must end in {_SUFFIXES}",
            got=path,
            repair=_repair(Path(path)),
        )
    if Path(path).resolve().is_relative_to(output.resolve()):
        raise InvalidInput("--output must hold none of the inputs", got=path, repair="choose another --output")
