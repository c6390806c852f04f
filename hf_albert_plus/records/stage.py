"""Stages: each reads directories and writes one, whole or not at all, with a `record.json` that says what was run.

A stage works in `OUT.partial` and renames it to `OUT` at its end, so a directory that carries its final name is
complete. Its record holds the hash of every file; a finished stage is reused only while they all still match.

A stage marks work that a later run goes on with. It counts while its files are what was written, and is done again where they
are not.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ..errors import AlbertPlusError, InvalidInput, StageConflict
from . import processes
from .code_commit import code_commit
from .files import (
    FileFacts,
    check_shape,
    describe_file,
    file_sha256,
    read_json,
    sync,
    sync_tree,
    write_json,
)
from .outputs import OutputLock, check_directory, partial_of, refuse_links_in, remove, take_directory
from .progress import say
from .record import CHECKPOINTS, IDENTITY, RECORD, RUNS, Identity, Parent, Record, differing, read_record, record_run

COMPLETE = "complete"  # a file of a checkpoint that can be gone on from


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
    parents: that one finds its checkpoints.

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
        code_commit()  # of now: another one may be checked out while a training runs
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
    if (partial / CHECKPOINTS / RUNS).is_dir():
        os.replace(partial / CHECKPOINTS / RUNS, partial / RUNS)
    sync_tree(partial)
    record = record_run(partial, identity, result=result, seconds=seconds)
    _finish(partial, output)
    return record


def _prepare(partial: Path, identity: Identity, *, resumable: bool) -> None:
    """Empties what a killed process left, but for the checkpoints of the same work.

    Raises:
        StageConflict: there are checkpoints of other work, which may have taken hours.
    """
    kept, wanted = _comparable(_identity_of(partial)), _comparable(identity)
    same = resumable and kept == wanted
    if kept and not same and any((partial / CHECKPOINTS).rglob(f"checkpoint-*/{COMPLETE}")):
        raise StageConflict(
            f"{partial} has checkpoints of another run ({_in_words(kept, wanted)}); ask for the same to go on, "
            "choose another --out, or remove that directory"
        )
    if not same or not (partial / CHECKPOINTS).is_dir():
        remove(partial / IDENTITY)
        discard(partial / CHECKPOINTS)
    for path in partial.iterdir():
        if path.name not in (IDENTITY, CHECKPOINTS):
            remove(path)
    if not (partial / IDENTITY).exists():
        write_json(partial / IDENTITY, identity)


def _finish(partial: Path, output: Path) -> None:
    """Gives a whole directory its name."""
    discard(partial / CHECKPOINTS)
    (partial / IDENTITY).unlink(missing_ok=True)
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
    kept = _comparable({"stage": record.stage, "settings": record.settings, "parents": record.parents})
    wanted = _comparable(identity)
    if kept != wanted:
        raise StageConflict(
            f"{output} was made by another run ({_in_words(kept, wanted)}); choose another --out, or remove that "
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


def _in_words(kept: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Every difference between kept work and what is asked for, for an error."""
    return "; ".join(f"{each.name}: {each.kept} there, {each.asked} asked for" for each in differing(kept, wanted))


def _identity_of(partial: Path) -> Identity | None:
    """The identity of what a killed process was making; None where it cannot be read."""
    try:
        identity: Identity = read_json(partial / IDENTITY, what="the identity of a stage", shape=Identity)
    except InvalidInput:
        return None
    return identity


class _Mark(TypedDict):
    """The content of a mark."""

    files: dict[str, FileFacts]
    facts: Any


def mark(path: Path, files: Iterable[Path], *, facts: Any = None) -> None:
    """Writes a file that says that others beside or below it are whole, once they are on the disk.

    Args:
        facts: what else is to be known of the work, as JSON.
    """
    files = sorted(files)
    listed = {}
    for file in files:
        sync(file)
        listed[file.relative_to(path.parent).as_posix()] = describe_file(file)
    for folder in {file.parent for file in files}:
        sync(folder)
    write_json(path, {"files": listed, "facts": facts})


def marked(path: Path, *, shape: Any = Any) -> Any:
    """The facts of whole work.

    Raises:
        InvalidInput: it is not whole: the mark or a file is missing, or is something else.
    """
    repair = "it is done again"
    content = read_json(path, what="the mark of kept work", shape=_Mark, repair=repair)
    for name, facts in content["files"].items():
        file = path.parent / name
        if not (file.is_file() and file.stat().st_size == facts["bytes"] and file_sha256(file) == facts["sha256"]):
            raise InvalidInput(
                "kept work must be what was written",
                got=f"{file}, which {'was changed' if file.exists() else 'is missing'}",
                repair=repair,
            )
    text = json.dumps(content["facts"])
    return check_shape(text, shape, what="what is known of kept work", source=str(path), repair=repair)


def taken_up(path: Path, *, shape: Any = Any) -> Any:
    """The facts of whole work; None where there is none, and, with a word, where it is damaged."""
    if not path.exists():
        return None
    try:
        return marked(path, shape=shape)
    except InvalidInput as damage:
        say(str(damage))
        return None
