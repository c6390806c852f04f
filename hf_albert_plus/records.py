"""Stages: each reads directories and writes one, whole or not at all, with a `record.json` that says what was run.

A stage works in `OUT.partial` and renames it to `OUT` at its end, so a directory that carries its final name is
complete. Its record holds the hash of every file; a finished stage is reused only while they all still match.
"""

import hashlib
import json
import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from . import processes
from .errors import AlbertPlusError, InvalidInput, StageConflict
from .files import (
    FileFacts,
    check_shape,
    describe_file,
    file_sha256,
    is_temporary,
    read_json,
    sync,
    sync_tree,
    write_json,
)
from .outputs import OutputLock, check_directory, partial_of, refuse_links_in, remove, take_directory

RECORD = "record.json"
CHECKPOINTS = "checkpoints"
_CARRIERS = ("export", "calibrate")
COMPLETE = "complete"  # a file of a checkpoint that can be gone on from
# Written after a stage ends (the card) or while it runs: no part of what the stage promises.
_IDENTITY = "stage.json"
CARD = "card.json"
EVAL_RESULTS = ".eval_results"
_UNRECORDED = {RECORD, "README.md", CARD, _IDENTITY}
_VERSIONED = (
    "hf-albert-plus", "torch", "transformers", "datasets", "tokenizers", "onnx", "onnxruntime", "openvino", "nncf", "numpy",
)  # fmt: skip


class Parent(TypedDict):
    """What was read, by its content, or by its name on the Hub."""

    path: str
    sha256: str


class Identity(TypedDict):
    """What must agree before work is gone on with."""

    stage: str
    settings: dict[str, Any]
    parents: dict[str, Parent]


class Carried(Identity):
    """What a stage that trains nothing tells of the training before it: a record without files."""

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
        """As it is written."""
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
    return _fingerprint(describe_files(directory))


def _fingerprint(files: dict[str, FileFacts]) -> str:
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
        return {"path": str(path), "sha256": _fingerprint(files)}
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
    trained = record.result.get("trained")
    if record.stage in _CARRIERS and trained:
        check_shape(json.dumps(trained), Carried, what=what, source=f"{directory / RECORD}, result.trained", repair=repair)  # fmt: skip
    return replace(record, reused=True)


def read_record(directory: Path) -> Record:
    """The record of a finished stage whose files are all there as they were written.

    Raises:
        InvalidInput: there is none, or the file is something else.
        StageConflict: a file that the record names is missing or was changed.
    """
    record = open_record(directory)
    found = describe_files(directory)
    for name in _changed(record, found):
        if name not in found:
            raise StageConflict(f"{directory} lacks {name}, which its record names; remove {directory} and run again")
        raise StageConflict(
            f"{directory / name} differs from its record ({found[name]['bytes']} bytes, recorded "
            f"{record.files[name]['bytes']}); remove {directory} and run again"
        )
    return record


def training_record(directory: Path) -> dict[str, Any]:
    """The record of the training behind a directory, its own or the one that is carried by a stage that trains nothing (`export`,
    `calibrate`); empty without one."""
    if not (directory / RECORD).is_file():
        return {}
    record = open_record(directory)
    return record.result.get("trained") or {} if record.stage in _CARRIERS else record.content()


def carried_record(directory: Path) -> dict[str, Any] | None:
    """That record without the files that it answers for, as a directory carries it that leaves the house; None without one."""
    return {name: value for name, value in training_record(directory).items() if name != "files"} or None


def versions() -> dict[str, str]:
    """Versions of the libraries that decide a result, for those installed."""
    known = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            known[name] = "not installed"
    return known


def command_line() -> str:
    """The `albert-plus` command that this process runs; empty in any other program."""
    program = Path(sys.argv[0])
    ours = program.stem == "albert-plus" or (program.name == "__main__.py" and program.parent.name == "hf_albert_plus")
    return shlex.join(["albert-plus", *sys.argv[1:]]) if ours else ""


def run_stage(
    stage: str,
    output: Path,
    *,
    settings: dict[str, Any],
    parents: dict[str, Parent],
    work: Callable[[Path], dict[str, Any]],
    resumable: bool = False,
) -> Record:
    """Runs `work(directory) -> result` in `OUT.partial` and renames it to `OUT`; or reuses `OUT` if it is that already.

    A partial directory left by a killed process is emptied, but for a `resumable` stage with the same settings and
    parents: that one finds its checkpoints there.

    Raises:
        InvalidInput: `OUT` or `OUT.partial` cannot be made, or is a link, or somebody else's.
        StageConflict: `OUT` or the checkpoints of `OUT.partial` are of something else, or another process is working on it.
    """
    identity: Identity = json.loads(json.dumps({"stage": stage, "settings": settings, "parents": parents}))
    for facts in parents.values():
        if Path(facts["path"]).is_dir() and output.resolve().is_relative_to(Path(facts["path"]).resolve()):
            raise InvalidInput(
                "--out must lie outside the directories that are read", got=str(output), repair="choose another --out"
            )
    check_directory(output)
    partial, lock = partial_of(output), OutputLock(output)
    try:
        done = processes.first_alone(lambda: _begin(output, partial, identity, lock=lock, resumable=resumable))
        if done is not None:
            return done
        start = time.perf_counter()
        try:
            result = work(partial)
        except Exception:
            if processes.is_first() and not (partial / CHECKPOINTS).exists():
                shutil.rmtree(partial)
            raise
        seconds = time.perf_counter() - start
        processes.wait()
        return processes.first_alone(lambda: _end(output, partial, identity, result=result, seconds=seconds))
    finally:
        lock.release()


def _begin(output: Path, partial: Path, identity: Identity, *, lock: OutputLock, resumable: bool) -> Record | None:
    """Locks the output and clears its partial directory; or finds the output done."""
    if output.exists():
        return _reuse(output, identity)
    lock.acquire()
    if output.exists():  # finished by another process between the look above and the lock
        return _reuse(output, identity)
    take_directory(partial)
    refuse_links_in(partial)
    if _is_whole(partial):  # killed between its last file and its name
        _finish(partial, output)
        return _reuse(output, identity)
    _prepare(partial, identity, resumable=resumable)
    return None


def _is_whole(partial: Path) -> bool:
    """Whether there are a record and all files that it names; a record that is damaged is removed."""
    if not (partial / RECORD).exists():
        return False
    try:
        read_record(partial)
    except AlbertPlusError:
        remove(partial / RECORD)
        return False
    return True


def _end(output: Path, partial: Path, identity: Identity, *, result: dict[str, Any], seconds: float) -> Record:
    """Writes the record, once all of its files are on the disk, and gives the directory its name."""
    sync_tree(partial)
    record = record_run(partial, identity, result=result, seconds=seconds)
    _finish(partial, output)
    return record


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


def _prepare(partial: Path, identity: Identity, *, resumable: bool) -> None:
    """Empties what a killed process left, but for the checkpoints of the same work.

    Raises:
        StageConflict: there are checkpoints of other work, which may have taken hours.
    """
    there, wanted = _comparable(_identity_of(partial)), _comparable(identity)
    same = resumable and there == wanted
    if there and not same and any((partial / CHECKPOINTS).rglob(f"checkpoint-*/{COMPLETE}")):
        raise StageConflict(
            f"{partial} has checkpoints of another run ({_differences(there, wanted)}); ask for the same to go on, "
            "choose another --out, or remove that directory"
        )
    if not same or not (partial / CHECKPOINTS).is_dir():
        remove(partial / _IDENTITY)
        discard(partial / CHECKPOINTS)
    for path in partial.iterdir():
        if path.name not in (_IDENTITY, CHECKPOINTS):
            remove(path)
    if not (partial / _IDENTITY).exists():
        write_json(partial / _IDENTITY, identity)


def _finish(partial: Path, output: Path) -> None:
    """Gives a whole directory its name."""
    discard(partial / CHECKPOINTS)
    (partial / _IDENTITY).unlink(missing_ok=True)
    os.replace(partial, output)
    sync(output.parent)


def discard(directory: Path) -> None:
    """Removes a directory so that no kill leaves a part of it under its name."""
    trash = directory.with_name(f".{directory.name}.trash")
    remove(trash)
    if directory.exists():
        os.replace(directory, trash)
        remove(trash)


def _reuse(output: Path, identity: Identity) -> Record:
    if not (output / RECORD).is_file():
        raise StageConflict(
            f"--out must be a new directory, got {output}, which exists and was not made by this command; "
            "choose another --out"
        )
    record = read_record(output)
    there = _comparable({"stage": record.stage, "settings": record.settings, "parents": record.parents})
    wanted = _comparable(identity)
    if there != wanted:
        raise StageConflict(
            f"{output} was made by another run ({_differences(there, wanted)}); choose another --out, or remove that "
            "directory"
        )
    return record


def _comparable(identity: Identity | None) -> dict[str, Any]:
    """What must agree before work is reused: a directory is its content, wherever it lies."""
    if identity is None:
        return {}
    parents = {
        name: f"{facts['path']} on the Hub" if facts["sha256"] == "hub" else facts["sha256"][:12]
        for name, facts in identity["parents"].items()
    }
    return {**identity, "parents": parents}


def _differences(there: Any, wanted: Any, name: str = "") -> str:
    if not (isinstance(there, dict) and isinstance(wanted, dict)):
        return f"{name}: {there} there, {wanted} asked for"
    keys = [key for key in {**there, **wanted} if there.get(key) != wanted.get(key)]
    return "; ".join(_differences(there.get(key), wanted.get(key), f"{name}.{key}".lstrip(".")) for key in keys)


def _identity_of(partial: Path) -> Identity | None:
    """What a killed process was making; None where it says so in no way that can be read."""
    try:
        identity: Identity = read_json(partial / _IDENTITY, what="the identity of a stage", shape=Identity)
    except InvalidInput:
        return None
    return identity


__all__ = ["COMPLETE", "RECORD", "Carried", "Identity", "Parent", "Record", "carried_record", "command_line", "describe_files", "file_parent", "fingerprint", "open_record", "parent", "read_record",
           "record_run", "run_stage", "training_record", "versions"]  # fmt: skip
