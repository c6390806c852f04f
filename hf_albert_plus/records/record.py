"""Records: what a stage was asked for, what it read, and what came out, beside the files that it made."""

import hashlib
import json
import platform
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ..errors import InvalidInput, StageConflict
from .code_commit import NAME, code_commit
from .files import FileFacts, check_shape, describe_file, file_sha256, is_temporary, read_json, write_json

RECORD = "record.json"
CHECKPOINTS = "checkpoints"
# What a training drew for TensorBoard.
RUNS = "runs"
CARD = "card.json"
EVAL_RESULTS = ".eval_results"
# Says what a stage is making while it runs.
IDENTITY = "stage.json"
# Written after a stage ends (the card) or while it runs: no part of what the stage promises.
_UNRECORDED = {RECORD, "README.md", CARD, IDENTITY}
# Stages that train nothing and carry the record of the training before them.
CARRIERS = ("export", "calibrate", "calibrate-scores")
# Those of them that find something on rows, which a copy tells of too.
_CALIBRATIONS = ("calibrate", "calibrate-scores")
_VERSIONED = ("torch", "transformers", "datasets", "tokenizers", "onnx", "onnxruntime", "openvino", "nncf", "numpy")


class Parent(TypedDict):
    """What was read, by its content, or by its name on the Hub."""

    path: str
    sha256: str


class Identity(TypedDict):
    """What must agree before work is gone on with."""

    stage: str
    settings: dict[str, Any]
    parents: dict[str, Parent]


@dataclass(frozen=True)
class IdentityDifference:
    """One value in which two identities differ.

    Attributes:
        name: its keys, from the outermost on, joined by dots.
        kept: the value of the work that is kept; None where it has none.
        asked: the value that is asked for; None where none is.
    """

    name: str
    kept: Any
    asked: Any


def differing(kept: Any, asked: Any, *, name: str = "") -> Iterator[IdentityDifference]:
    """The values in which what is kept differs from what is asked for, key by key."""
    if isinstance(kept, dict) and isinstance(asked, dict):
        for key in {**kept, **asked}:
            yield from differing(kept.get(key), asked.get(key), name=f"{name}.{key}".lstrip("."))
    elif kept != asked:
        yield IdentityDifference(name, kept, asked)


class Carried(Identity):
    """What a stage that trains nothing tells of the training before it, and of calibrations: a record without files."""

    result: dict[str, Any]
    versions: dict[str, str]
    command: str


@dataclass(frozen=True)
class Record:
    """What a stage did.

    Attributes:
        stage: name of the stage.
        settings: everything that decides the outcome besides the parents.
        parents: what was read: name -> {"path", "sha256"}.
        result: what came out, in the stage's own terms.
        files: relative path -> {"bytes", "sha256"}.
        seconds: wall time of the run that finished the stage.
        command: the command line that made it, empty where it was called from Python.
    """

    stage: str
    settings: dict[str, Any]
    parents: dict[str, Parent]
    result: dict[str, Any]
    files: dict[str, FileFacts]
    versions: dict[str, str]
    platform: str
    finished: str
    seconds: float
    command: str = ""
    reused: bool = field(default=False, compare=False)

    def content(self) -> dict[str, Any]:
        """The record as it is written."""
        content = asdict(self)
        del content["reused"]
        return content

    def write(self, path: Path) -> None:
        write_json(path, self.content())


def describe_files(directory: Path) -> dict[str, FileFacts]:
    """Relative path -> {"bytes", "sha256"} of every file a record answers for."""
    return {
        path.relative_to(directory).as_posix(): describe_file(path)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in _UNRECORDED and not _passing(path.relative_to(directory))
    }


def _passing(path: Path) -> bool:
    """Whether a file is no part of what a stage made: a checkpoint or what is left of one, half a file, or results added later."""
    return path.parts[0] in (CHECKPOINTS, f".{CHECKPOINTS}.trash", EVAL_RESULTS) or is_temporary(path.name)


def fingerprint(directory: Path) -> str:
    """One SHA-256 over the names and contents of a directory's files, cards and records left out."""
    return fingerprint_of_files(describe_files(directory))


def fingerprint_of_files(files: dict[str, FileFacts]) -> str:
    """The fingerprint of a directory that has these files, as `describe_files` lists them."""
    digest = hashlib.sha256()
    for name, facts in files.items():
        digest.update(f"{name} {facts['sha256']}\n".encode())
    return digest.hexdigest()


def parent(source: str | Path) -> Parent:
    """How a record names something that a stage reads: a directory by its content, a Hub id by its name."""
    path = Path(source)
    if path.is_dir():
        files = describe_files(path)
        _check_unchanged(path, files)
        return {"path": str(path), "sha256": fingerprint_of_files(files)}
    return {"path": str(source), "sha256": "hub"}


def file_parent(path: Path) -> Parent:
    """How a record names a file that a stage reads."""
    return {"path": str(path), "sha256": file_sha256(path)}


def _check_unchanged(directory: Path, files: dict[str, FileFacts]) -> None:
    """Refuses a directory whose record speaks of other files than it has.

    Args:
        files: what it has.

    Raises:
        InvalidInput: such a directory.
    """
    if not (directory / RECORD).is_file():
        return
    for name in _changed(open_record(directory), files):
        raise InvalidInput(
            f"{directory / name} must be the file that {directory / RECORD} describes",
            got="other content" if name in files else "no such file",
            repair=f"make it again, or remove {directory / RECORD} if you changed it on purpose",
        )


def _changed(record: Record, files: dict[str, FileFacts]) -> Iterator[str]:
    """Names of the files that a record describes and that are missing or others now."""
    return (
        name for name, facts in record.files.items() if name not in files or files[name]["sha256"] != facts["sha256"]
    )


def open_record(directory: Path) -> Record:
    """The record of a finished stage as it was written, whatever became of the files.

    Raises:
        InvalidInput: there is none, or the file is something else.
    """
    what, repair = "the record of a stage", f"make {directory} again, or remove {RECORD} from it"
    record: Record = read_json(directory / RECORD, what=what, shape=Record, repair=repair)
    for name, shape in {"trained": Carried, "calibrated": list[Carried]}.items():
        carried = record.result.get(name)
        if record.stage in CARRIERS and carried:
            check_shape(json.dumps(carried), shape, what=what, source=f"{directory / RECORD}, result.{name}", repair=repair)  # fmt: skip
    return replace(record, reused=True)


def read_record(directory: Path) -> Record:
    """The record of a finished stage whose files are all there as they were written.

    Raises:
        InvalidInput: there is none, or the file is something else.
        StageConflict: a file that the record names is missing or was changed.
    """
    record = open_record(directory)
    files = describe_files(directory)
    for name in _changed(record, files):
        if name not in files:
            raise StageConflict(f"{directory} lacks {name}, which its record names; remove {directory} and run again")
        raise StageConflict(
            f"{directory / name} differs from its record ({files[name]['bytes']} bytes, recorded "
            f"{record.files[name]['bytes']}); remove {directory} and run again"
        )
    return record


def training_record(directory: Path) -> dict[str, Any]:
    """The record of the training behind a directory, its own or the one that is carried by a stage that trains nothing (`export`,
    `calibrate`); empty without one."""
    if not (directory / RECORD).is_file():
        return {}
    record = open_record(directory)
    return record.result.get("trained") or {} if record.stage in CARRIERS else record.content()


def carried_record(directory: Path) -> dict[str, Any] | None:
    """The training record of a directory without the files that it answers for, as a copy carries it; None without one."""
    return _without_files(training_record(directory)) or None


def carried_calibrations(directory: Path) -> list[dict[str, Any]]:
    """The records of what was found on rows for a model since its training, the last first, as a copy carries them: without files, and
    without what they carry themselves."""
    record = open_record(directory) if (directory / RECORD).is_file() else None
    if record is None or record.stage not in CARRIERS:
        return []
    earlier = record.result.get("calibrated") or []
    if record.stage not in _CALIBRATIONS:
        return list(earlier)
    found = {name: value for name, value in record.result.items() if name not in ("trained", "calibrated")}
    return [{**_without_files(record.content()), "result": found}, *earlier]


def _without_files(content: dict[str, Any]) -> dict[str, Any]:
    """A record as copies carry it, which do not answer for its files."""
    return {name: value for name, value in content.items() if name != "files"}


def versions() -> dict[str, str]:
    """Versions of what decides a result: Python, this package with the commit of its code where that is known (`code_commit`), and the
    libraries. Nobody compares them before work is gone on with."""
    commit = code_commit()
    ours = {NAME: _version(NAME), **({} if commit is None else {"commit": commit})}
    return {"python": platform.python_version(), **ours, **{name: _version(name) for name in _VERSIONED}}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def command_line() -> str:
    """The `albert-plus` command that this process runs; empty in any other program."""
    program = Path(sys.argv[0])
    ours = program.stem == "albert-plus" or (program.name == "__main__.py" and program.parent.name == "hf_albert_plus")
    return shlex.join(["albert-plus", *sys.argv[1:]]) if ours else ""


def record_run(directory: Path, identity: Identity, *, result: dict[str, Any], seconds: float) -> Record:
    """Writes the record of what this process did into its directory.

    Args:
        identity: `stage`, `settings` and `parents`.
    """
    record = Record(
        **identity,
        result=result,
        files=describe_files(directory),
        versions=versions(),
        platform=platform.platform(),
        finished=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(seconds, 2),
        command=command_line(),
    )
    record.write(directory / RECORD)
    return record
