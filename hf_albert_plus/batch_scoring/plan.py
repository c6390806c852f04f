"""The plan of a run: which rows of which file make which part. It depends on the files and the settings alone.

A part is a file of the output, called after its place and after the file that it comes from as that was when the plan was made. So
whether a part is done can be seen from its name, and a changed file makes new parts, while those of all others stay.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ..errors import InvalidInput
from ..records.files import read_json, write_text
from ..records.progress import track
from ..records.record import Parent, differing
from .ranges import RowRange, line_ranges, parquet_ranges
from .settings import ScoreSettings
from .sources import Source

_FORMAT = 2


class RunIdentity(TypedDict):
    """What must be the same when a run is gone on with."""

    settings: dict[str, Any]
    engine: Parent


class _WrittenSource(TypedDict):
    path: str
    bytes: int
    modified_ns: int
    parts: list[tuple[int, int, int, int]]


class _Written(RunIdentity):
    format: int
    sources: list[_WrittenSource]


@dataclass(frozen=True)
class PlannedPart:
    """Rows that are scored together.

    Attributes:
        name: name of its file in the output.
    """

    name: str
    source: Source
    range: RowRange


@dataclass(frozen=True)
class Plan:
    """The parts of a run.

    Attributes:
        ranges: ranges of each source, in the order of its rows.
    """

    identity: RunIdentity
    sources: list[Source]
    ranges: list[list[RowRange]]

    def parts(self) -> Iterator[PlannedPart]:
        """Every part, its name in the order of the inputs."""
        for number, (source, ranges) in enumerate(zip(self.sources, self.ranges, strict=True)):
            for place, piece in enumerate(ranges):
                yield PlannedPart(f"part-{number:05d}-{place:06d}-{source.identity}.parquet", source, piece)

    @property
    def rows(self) -> int:
        return sum(piece.rows for ranges in self.ranges for piece in ranges)

    def write(self, path: Path) -> None:
        sources = [
            {"path": source.path, "bytes": source.size, "modified_ns": source.modified_ns, "parts": [list(piece) for piece in ranges]}
            for source, ranges in zip(self.sources, self.ranges, strict=True)
        ]  # fmt: skip
        write_text(path, json.dumps({"format": _FORMAT, **self.identity, "sources": sources}) + "\n")


def read_plan(path: Path) -> Plan:
    """A plan that `write` wrote.

    Raises:
        InvalidInput: it is none.
    """
    repair = "choose another --output, or remove that directory"
    content = read_json(path, what="the plan of a run", shape=_Written, repair=repair)
    if content["format"] != _FORMAT:
        raise InvalidInput("--output must hold the plan of this version", got=str(path), repair=repair)
    sources = content["sources"]
    return Plan(
        {"settings": content["settings"], "engine": content["engine"]},
        [Source(one["path"], str(Path(one["path"]).absolute()), one["bytes"], one["modified_ns"]) for one in sources],
        [[RowRange(*piece) for piece in one["parts"]] for one in sources],
    )


def make_plan(sources: Sequence[Source], settings: ScoreSettings, *, identity: RunIdentity, old: Plan | None) -> Plan:
    """Cuts every source into parts.

    Args:
        old: whose sources need no second look where they have not changed.
    """
    known = dict(zip(old.sources, old.ranges, strict=True)) if old else {}
    new = [source for source in sources if source not in known]
    for source in track(new, total=len(new), description="plan" if new else None):
        cut = parquet_ranges if source.kind == "parquet" else line_ranges
        known[source] = list(cut(source, settings))
    return Plan(identity, list(sources), [known[source] for source in sources])


def check_same(old: Plan, *, identity: RunIdentity, sources: Sequence[Source], output: Path) -> None:
    """Refuses to go on with a run of other settings, of another engine, or over other files. A file may have changed.

    Raises:
        InvalidInput: with every difference.
    """
    differences = [
        f"{each.name} {each.kept} there, {each.asked} asked for"
        for each in differing(old.identity, identity)
        if not each.name.endswith("path")
    ]
    planned, asked = [source.path for source in old.sources], [source.path for source in sources]
    if planned != asked:
        other = sorted(set(planned) ^ set(asked))
        differences.append(
            f"{len(planned)} inputs there, {len(asked)} asked for: {', '.join(other[:3]) or 'in another order'}"
        )
    if differences:
        raise InvalidInput(
            f"a run in {output} goes on with what it was begun with",
            got="; ".join(differences),
            repair="run it as it was begun, choose another --output, or remove that directory",
        )
