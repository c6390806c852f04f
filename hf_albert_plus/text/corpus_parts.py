"""The parts that workers read, of the files, folders and Hub datasets that a user names."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from ..errors import InvalidInput, first_line
from ..hub_connection import check_source
from ..records.files import file_sha256
from ..records.progress import bar
from ..records.record import Parent
from .documents import PART_BYTES, Part, open_hub

_KINDS = {".txt": "text", ".text": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def find_parts(corpus: Sequence[str], *, column: str = "text", part_bytes: int = PART_BYTES) -> list[Part]:
    """The parts of files, of all files in folders, and of Hub datasets (`ID` or `ID:CONFIG`), in the order given.

    Raises:
        InvalidInput: nothing of that name, a file of another kind, or a folder without one of these.
    """
    if not corpus:
        raise InvalidInput("--corpus must name at least one text", got="none", repair="use --corpus text.txt")
    return [part for name in corpus for part in _parts_of(name, column, part_bytes)]


def _parts_of(name: str, column: str, part_bytes: int) -> list[Part]:
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _KINDS and file.is_file())
        if not files:
            raise InvalidInput(
                f"--corpus DIR must hold files of {', '.join(_KINDS)}", got=name, repair="name the files themselves"
            )
        return [part for file in files for part in _of_file(file, column, part_bytes)]
    if path.is_file():
        return _of_file(path, column, part_bytes)
    if path.suffix in _KINDS or path.is_absolute() or name.count("/") > 1:
        raise InvalidInput("--corpus must be there", got=name, repair="check the path")
    return _of_hub(name, column)


def _of_file(path: Path, column: str, part_bytes: int) -> list[Part]:
    kind = _KINDS.get(path.suffix)
    if kind is None:
        raise InvalidInput(
            f"--corpus FILE must end in {', '.join(_KINDS)}",
            got=path.name,
            repair="rename it if it is plain text, unpack it if it is packed",
        )
    if kind == "parquet":
        return _of_parquet(path, column, part_bytes)
    size = path.stat().st_size
    edges = [*range(0, size, part_bytes), size]
    return [Part(str(path), kind, start, end, size=end - start, column=column) for start, end in pairwise(edges)]


def _of_parquet(path: Path, column: str, part_bytes: int) -> list[Part]:
    import pyarrow
    import pyarrow.parquet as pq

    try:
        groups = pq.read_metadata(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInput(
            "--corpus *.parquet must be Parquet", got=f"{path} ({first_line(error)})", repair="write it again"
        ) from None
    sizes = [groups.row_group(i).total_byte_size for i in range(groups.num_row_groups)]
    parts, start = [], 0
    for end in range(1, len(sizes) + 1):
        if sum(sizes[start:end]) >= part_bytes or end == len(sizes):
            parts.append(Part(str(path), "parquet", start, end, size=sum(sizes[start:end]), column=column))
            start = end
    return parts


def _of_hub(name: str, column: str) -> list[Part]:
    from huggingface_hub import HfApi

    repair = "check the path or the name"
    rule = "--corpus must be a file, a folder or a Hub dataset (ID or ID:CONFIG)"
    check_source(name.partition(":")[0], rule=rule, repair=repair, kind="dataset")
    try:
        revision = HfApi().dataset_info(name.partition(":")[0]).sha
        shards = open_hub(name, revision=revision).num_shards
    except Exception as error:  # whatever a dataset's host, format or name raises
        raise InvalidInput(rule, got=f"{name} ({type(error).__name__}: {first_line(error)})", repair=repair) from None
    return [Part(name, "hub", index, index + 1, size=0, column=column, revision=revision) for index in range(shards)]


def sources(parts: Sequence[Part]) -> dict[str, Parent]:
    """How a record names what was read."""
    names = dict.fromkeys((part.source, part.revision) for part in parts)
    return {
        f"corpus {number}": {"path": f"{source}@{revision}", "sha256": "hub"}
        if revision
        else {"path": source, "sha256": file_sha256(Path(source))}
        for number, (source, revision) in enumerate(names)
    }


@contextmanager
def bar_of_parts(parts: Sequence[Part], *, description: str) -> Iterator[Callable[[Part], None]]:
    """A bar over the bytes of all parts, or where they are not known, their number: call what is yielded after each."""
    total = sum(part.size for part in parts)
    with bar(total=total or len(parts), description=description, unit_scale=bool(total)) as progress:

        def step(part: Part) -> None:
            progress.update(part.size if total else 1)

        yield step


def paragraphs(parts: Sequence[Part]) -> Iterator[str]:
    """The paragraphs of all parts, with a bar."""
    with bar_of_parts(parts, description="text") as step:
        for part in parts:
            for document in part.documents():
                yield from document
            step(part)
