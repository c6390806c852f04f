"""The places of outputs: names that can be written, never through a link or into what belongs to somebody else."""

import errno
import os
import secrets
import shutil
import stat
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import InvalidInput, StageConflict

# The longest of what is added to the name of a directory: it is made as OUT.partial.
_PARTIAL = ".partial"
_LONGEST_NAME, _LONGEST_PATH = 255, 4000
# What a full disk has no room for.
_PROBE = bytes(4096)


def partial_of(output: Path) -> Path:
    """The name under which a directory is made."""
    return output.with_name(output.name + _PARTIAL)


def check_directory(path: Path, *, option: str = "--out") -> None:
    """Refuses, before any work, what cannot become a directory; one that exists is left to whoever takes it up.

    Raises:
        InvalidInput: no name, one that is too long or leads through a file or a link to nothing, something else that is there, or a place
            that takes no new files.
        OSError: the disk is full.
    """
    _check_name(path, option=option, more=len(_PARTIAL))
    if os.path.lexists(path):
        _refuse_foreign(path, option=option)
        if not path.is_dir():
            _refuse(path, f"{option} must be a directory", repair=f"choose another {option}")
        return
    _check_place(path, option=option)


def check_file(path: Path, *, option: str = "an output") -> None:
    """Refuses, before any work, what cannot become a file. One that exists is replaced.

    Raises:
        InvalidInput: no name, one that is too long or leads through a file or a link to nothing, a link, a directory or a device that is
            there, or a place that takes no new files.
        OSError: the disk is full.
    """
    refuse_link(path, option=option)
    _check_place(path, option=option)


def refuse_link(path: Path, *, option: str = "an output") -> None:
    """Refuses a file that may not be replaced.

    Raises:
        InvalidInput: no name, one that is too long, or a link, a directory or a device that is there.
    """
    _check_name(path, option=option, more=0)
    if os.path.lexists(path):
        _refuse_foreign(path, option=option)
        if not stat.S_ISREG(os.lstat(path).st_mode):
            _refuse(path, f"{option} must be a file, or new", repair="remove it, or choose another file")


def take_directory(path: Path, *, option: str = "--out") -> None:
    """Makes a directory, or takes one that this user made before.

    Raises:
        InvalidInput: a link or a file is there, or somebody else's directory where everybody may make one.
    """
    try:
        path.mkdir()
    except FileExistsError:
        _refuse_foreign(path, option=option)
        if path.is_symlink() or not path.is_dir():
            _refuse(path, f"{option} works in a directory of its own", repair=f"remove it, or choose another {option}")


def refuse_links_in(directory: Path, *, option: str = "--out") -> None:
    """Refuses a directory that is about to be cleared and gone on with, where it holds links: nothing here makes one.

    Raises:
        InvalidInput: with the first link.
    """
    for folder, directories, files in os.walk(directory):
        for name in (*directories, *files):
            path = Path(folder) / name
            if path.is_symlink():
                _refuse(path, f"{directory} must hold no links", repair=f"remove it, or choose another {option}")


def remove(path: Path) -> None:
    """Removes a file, a link, or a directory with all that is in it. What links lead to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class OutputLock:
    """A lock that the one process holds that writes a directory."""

    def __init__(self, output: Path, *, option: str = "--out"):
        """Names the lock, and does not take it yet.

        Args:
            option: that named the directory, for the error.
        """
        self.output, self.option = output, option
        self._path = output.with_name(f".{output.name}.lock")
        self._lock = FileLock(self._path)

    def acquire(self) -> None:
        """Takes the lock.

        Raises:
            InvalidInput: a link in its place, or somebody else's file where everybody may make one.
            StageConflict: another process is writing there.
        """
        check_directory(self.output, option=self.option)
        self.output.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.close(new_file(self._path))
        except FileExistsError:
            refuse_link(self._path, option=f"the lock of {self.option}")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise StageConflict(
                f"another process is writing {self.output}; wait for it, or choose another {self.option}"
            ) from None

    def release(self) -> None:
        """Gives the lock back, where it is held."""
        if self._lock.is_locked:
            self._path.unlink(missing_ok=True)
            self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


def new_file(path: Path) -> int:
    """Makes a file, which must not exist, and returns its descriptor."""
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _check_name(path: Path, *, option: str, more: int) -> None:
    if path.name in ("", ".."):
        raise InvalidInput(
            f"{option} must name something new", got=repr(str(path)), repair=f"give a name below it: {path / 'out'}"
        )
    if "\0" in str(path):
        raise InvalidInput(f"{option} must be a path", got=ascii(str(path)), repair="leave out the zero byte")
    for part in path.parts:
        size = len(os.fsencode(part)) + (more if part == path.name else 0)
        if size > _LONGEST_NAME:
            raise InvalidInput(
                f"{option} must have names of at most {_LONGEST_NAME - more} bytes",
                got=f"{len(os.fsencode(part))} in {part[:20]}…",
                repair="use a shorter name",
            )
    if len(os.fsencode(path.absolute())) > _LONGEST_PATH:
        raise InvalidInput(
            f"{option} must be a path of at most {_LONGEST_PATH} bytes",
            got=len(os.fsencode(path.absolute())),
            repair="use a shorter path",
        )


def _check_place(path: Path, *, option: str) -> None:
    """Refuses a place that takes no new files: it makes one and removes it."""
    folder = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not folder.is_dir():
        _refuse(folder, f"{option} must lie in a directory", repair="check the path")
    probe = folder / f".{secrets.token_hex(8)}.tmp"
    try:
        descriptor = new_file(probe)
        try:
            os.write(descriptor, _PROBE)
        finally:
            os.close(descriptor)
            probe.unlink()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        why = "it takes no new files" if error.errno == errno.ENOENT else error.strerror
        raise InvalidInput(
            f"{option} must lie where files can be made",
            got=f"{path} in {folder} ({why})",
            repair="choose another place, or change its permissions",
        ) from None


def _refuse(path: Path, rule: str, *, repair: str) -> None:
    if path.is_symlink():
        target = os.readlink(path)
        kind = f"a link to {target}" if path.exists() else f"a link to {target}, where nothing is"
    elif path.is_dir():
        kind = "a directory"
    else:
        kind = "a file" if path.is_file() else "a device"
    raise InvalidInput(rule, got=f"{path}, which is {kind}", repair=repair)


def _refuse_foreign(path: Path, *, option: str) -> None:
    """Refuses a name that somebody else made where everybody may make names, as in /tmp."""
    facts = os.lstat(path)
    shared = path.absolute().parent.stat().st_mode & stat.S_ISVTX
    if shared and hasattr(os, "geteuid") and facts.st_uid != os.geteuid():
        raise InvalidInput(
            f"{option} must be your own in a directory that all share",
            got=f"{path} of user {facts.st_uid}",
            repair=f"choose another {option}",
        )
