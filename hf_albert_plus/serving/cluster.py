"""Ray, as this package starts and joins it."""

import atexit
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path
from types import ModuleType

from hf_albert_plus.errors import InvalidInput, first_line
from hf_albert_plus.optional import need

from .loopback import KEEP_TO_LOOPBACK, keep_cluster_to_loopback

_ENVIRONMENT = {
    # A replica's own thread is enough for ours: what takes long runs in others.
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    # Straight to the replica, and not through the object store.
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

_PATIENCE_S = 10
# Ray's names below its directory, the longest of them a Unix socket's, whose whole path has 107 bytes at most.
_LONGEST_DIRECTORY = 107 - len("/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store.4194304")
# Ray keeps the first that it finds in a process.
_TOKEN = secrets.token_hex(32)
# The files of the cluster of our own that this process started.
_private: list[Path] = []


def ray_library(name: str, *, extra: str, address: str | None) -> ModuleType:
    """Imports a library of Ray, before anything else of it: it reads its environment once.

    Args:
        address: of the cluster to join; None for one of its own, on loopback.

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
        cores: that a cluster of its own may use; all of the machine by default.

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
    directory = _private_directory()
    # "local": without an address Ray joins what runs on this machine already.
    ray.init(
        "local", num_cpus=cores, include_dashboard=False, log_to_driver=False, configure_logging=False,
        runtime_env={"env_vars": {KEEP_TO_LOOPBACK: "1"}}, _temp_dir=str(directory),
    )  # fmt: skip


def leave() -> None:
    """Leaves a cluster; one of our own ends, and its files go."""
    import ray

    ray.shutdown()
    while _private:
        # A process of Ray that is about to end may still write to its log.
        shutil.rmtree(_private.pop(), ignore_errors=True)


def _authenticate() -> None:
    """Has Ray's processes ask each other for a token that only this process and its children know."""
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = _TOKEN


def _private_directory() -> Path:
    """A new directory for Ray's files that only this user opens. Ray's own default is open to every user of the machine."""
    wanted = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    is_short = len(os.fsencode(wanted)) + len("/albert-12345678/ray") <= _LONGEST_DIRECTORY
    private = Path(tempfile.mkdtemp(prefix="albert-", dir=wanted if is_short else "/tmp"))
    _private.append(private)
    atexit.register(leave)
    # Ray opens the one that it is given to everybody.
    return private / "ray"


def _knock(address: str) -> None:
    """Ray itself waits many minutes for somebody who is not there.

    Raises:
        OSError: nobody answers.
    """
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE_S).close()


__all__ = ["join", "leave", "ray_library"]
