"""Ray, as this package starts it, joins it and leaves it, with its files in directories that only this user opens."""

import atexit
import os
import secrets
import shutil
import socket
import stat
import tempfile
from pathlib import Path
from types import ModuleType

from filelock import FileLock, Timeout

from ..errors import InvalidInput, first_line, need
from .loopback import KEEP_TO_LOOPBACK, keep_cluster_to_loopback

_PREFIX = "albert-"
# The lock is held as long as the process lives. The process's number is written once it is, so that a lock without one tells nothing.
_LOCK, _PROCESS = "lock", "process"
# Ray's names below its directory, the longest of them a Unix socket's, whose whole path has 107 bytes at most.
_LONGEST_DIRECTORY = 107 - len("/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store.4194304")
# Those that this process made.
_ours: dict[Path, FileLock] = {}


def make_private_directory() -> Path:
    """A new directory of this process alone, in a place where Ray's names are not too long."""
    wanted = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    is_short = len(os.fsencode(wanted)) + len(f"/{_PREFIX}12345678/ray") <= _LONGEST_DIRECTORY
    parent = Path(wanted if is_short else "/tmp")
    remove_abandoned(parent)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = FileLock(directory / _LOCK)
    lock.acquire(timeout=0)
    (directory / _PROCESS).write_text(str(os.getpid()), encoding="utf-8")
    _ours[directory] = lock
    return directory


def remove_private_directories() -> None:
    """Removes the directories that this process made."""
    while _ours:
        directory, lock = _ours.popitem()
        lock.release()
        # A process of Ray that is about to end may still write to its log.
        shutil.rmtree(directory, ignore_errors=True)


def remove_abandoned(parent: Path) -> None:
    """Removes the directories of processes that were killed, of this user and of this package alone."""
    for directory in parent.glob(f"{_PREFIX}*"):
        if directory not in _ours and _is_private(directory) and _is_abandoned(directory):
            shutil.rmtree(directory, ignore_errors=True)


def _is_private(directory: Path) -> bool:
    """Whether this user made a directory that nobody else opens."""
    try:
        facts = directory.lstat()
    except OSError:
        return False
    is_own = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
    return stat.S_ISDIR(facts.st_mode) and is_own and not stat.S_IMODE(facts.st_mode) & 0o077


def _is_abandoned(directory: Path) -> bool:
    """Whether the process that made a directory is dead, and so holds its lock no more.

    The number of a process says less: in another container it is that of another process.
    """
    if not (directory / _PROCESS).is_file() or not (directory / _LOCK).is_file():
        return False
    try:
        with FileLock(directory / _LOCK).acquire(timeout=0):
            return True
    except (OSError, Timeout):
        return False


_ENVIRONMENT = {
    # A replica's own thread is enough for ours: what takes long runs in others.
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    # Straight to the replica, and not through the object store.
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

_PATIENCE_S = 10
# Ray keeps the first that it finds in a process.
_TOKEN = secrets.token_hex(32)


def ray_library(name: str, *, extra: str, address: str | None) -> ModuleType:
    """Imports a library of Ray, before anything else of it: it reads its environment once.

    Args:
        address: address of the cluster to join; None for a cluster of its own, on loopback.

    Raises:
        InvalidInput: it is not installed.
    """
    for variable, value in _ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    if address is None:
        keep_cluster_to_loopback()
        _authenticate()
    return need(name, extra=extra)


def join(address: str | None, *, cores: int | None = None) -> None:
    """Joins a cluster, or starts one of its own whose every port is on loopback, whose processes prove to each other that they belong
    to it, and whose files nobody else reads. `leave` ends it.

    Args:
        cores: cores that a cluster of its own may use; all of the machine by default.

    Raises:
        InvalidInput: nobody at the address.
    """
    import ray

    if address is not None:
        try:
            _knock(address)
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except OSError as error:
            raise InvalidInput(
                "--address must be that of a running Ray cluster",
                got=f"{address} ({first_line(error)})",
                repair="start one: ray start --head; or leave it out",
            ) from None
        return
    directory = make_private_directory()
    atexit.register(leave)
    # "local": without an address Ray joins what runs on this machine already.
    ray.init(
        "local", num_cpus=cores, include_dashboard=False, log_to_driver=False, configure_logging=False,
        runtime_env={"env_vars": {KEEP_TO_LOOPBACK: "1"}},
        # Ray opens the directory that it is given to everybody; the one around it stays this user's own.
        _temp_dir=str(directory / "ray"),
    )  # fmt: skip


def leave() -> None:
    """Leaves a cluster; one of our own ends, and its files go."""
    import ray

    ray.shutdown()
    remove_private_directories()


def _authenticate() -> None:
    """Has Ray's processes ask each other for a token that only this process and its children know."""
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = _TOKEN


def _knock(address: str) -> None:
    """Looks whether anybody answers at an address: Ray itself waits many minutes for somebody who is not there.

    Raises:
        OSError: nobody answers.
    """
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE_S).close()
