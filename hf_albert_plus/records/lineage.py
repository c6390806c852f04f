"""How a directory came about: the stages behind it, as far as their records are here and speak of what was read."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from .code_commit import NAME
from .machine_paths import without_machine_paths
from .made_data import made_data
from .record import CARRIERS, RECORD, Parent, Record, fingerprint, fingerprint_of_files, open_record

# What a stage's description names of all versions that its record has.
VERSIONS = (NAME, "commit", "torch", "transformers", "onnxruntime")
_UNKNOWN = "not recorded"
# From a directory to the hash of its content now.
Fingerprint = Callable[[Path], str]


@dataclass(frozen=True)
class Ancestor:
    """A stage behind a directory.

    Attributes:
        record: what it wrote, as JSON; without files where it is what a later stage carries of it.
        made: what it made, as the stage after it names that, or the first one's own record; None where no record does.
    """

    record: dict[str, Any]
    made: Parent | None


def ancestors(directory: Path, *, fingerprint_of: Fingerprint | None = None) -> list[Ancestor]:
    """The stage of a directory, and those behind it, the nearest first and each once.

    What a stage read is followed where it is a directory with a record and still has the content that the stage read, or data that its
    record says were made there. All else stays a name and a hash: what is gone or changed, what comes from the Hub, what no stage made. The training
    before a stage that trains nothing, and the calibrations between, are found in that stage's own record where its directory is not followed.

    Args:
        fingerprint_of: hashes a directory; by default each is hashed once. Whoever asks for several lineages gives them one that
            remembers.

    Raises:
        InvalidInput: the directory's own record is something else.
    """
    if not (directory / RECORD).is_file():
        return []
    own = open_record(directory)
    made: Parent | None = None
    if own.files:
        made = {"path": str(directory.resolve()), "sha256": fingerprint_of_files(own.files)}
    waiting, found = deque([Ancestor(own.content(), made)]), dict[str, Ancestor]()
    fingerprint_of = fingerprint_of or cache(fingerprint)
    while waiting:
        each = waiting.popleft()
        name = _identity(each.record)
        if name not in found:
            found[name] = each
            waiting.extend(_behind(each.record, fingerprint_of))
    return list(found.values())


def _identity(record: dict[str, Any]) -> str:
    """What tells a stage from others, of its own record and of what is carried of it."""
    return json.dumps([record.get(name) for name in ("stage", "settings", "parents", "finished")], sort_keys=True)


def _behind(record: dict[str, Any], fingerprint_of: Fingerprint) -> Iterator[Ancestor]:
    """The stages that made what a stage read."""
    makers = {name: _maker(read, fingerprint_of) for name, read in record["parents"].items()}
    for name, maker in makers.items():
        if maker is not None:
            yield Ancestor(maker.content(), record["parents"][name])
    if record["stage"] in CARRIERS and makers.get("model") is None:
        read: Parent | None = record["parents"].get("model")
        for calibration in record["result"].get("calibrated") or []:
            yield Ancestor(calibration, read)
            read = calibration["parents"].get("model")
        if record["result"].get("trained"):
            yield Ancestor(record["result"]["trained"], None)


def _maker(read: Parent, fingerprint_of: Fingerprint) -> Record | None:
    """The record of the stage that made what was read, where it is to be followed."""
    path = Path(read["path"])
    for folder in (path, path.parent) if read["sha256"] != "hub" else ():
        try:
            record = open_record(folder) if (folder / RECORD).is_file() else None
            if record is None:
                continue
            if made_data(record, folder, read) or (folder == path and fingerprint_of(path.resolve()) == read["sha256"]):
                return record
        except (InvalidInput, OSError):  # somebody else's record, or files that cannot be read: it says nothing then
            continue
    return None


def stage_facts(ancestor: Ancestor) -> dict[str, Any]:
    """A stage as JSON: what it was asked for and read, what it made, with what code and libraries, and when it ended."""
    record, made = ancestor.record, ancestor.made
    settings = record["settings"]
    facts: dict[str, Any] = {
        "stage": record["stage"],
        "command": record.get("command", ""),
        "settings": settings,
        **({"seed": settings["seed"]} if "seed" in settings else {}),
        "read": record["parents"],
        **({} if made is None else {"made": made}),
        "finished": record.get("finished", _UNKNOWN),
        "versions": {name: record["versions"][name] for name in VERSIONS if name in record.get("versions", {})},
    }
    named: dict[str, Any] = without_machine_paths(facts)
    return named
