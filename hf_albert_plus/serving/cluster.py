"""Ray, as this package starts and joins it."""

import os
import socket
from types import ModuleType

from hf_albert_plus.errors import InvalidInput
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
    return need(name, extra=extra)


def join(address: str | None, *, cores: int | None = None) -> None:
    """Joins a cluster, or starts one of its own whose every port is on loopback.

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
                got=f"{address} ({str(error).strip().splitlines()[0]})",
                repair="start one: ray start --head; or leave it out",
            ) from None
        return
    # "local": without an address Ray joins what runs on this machine already.
    ray.init(
        "local", num_cpus=cores, include_dashboard=False, log_to_driver=False, configure_logging=False,
        runtime_env={"env_vars": {KEEP_TO_LOOPBACK: "1"}},
    )  # fmt: skip


def _knock(address: str) -> None:
    """Ray itself waits many minutes for somebody who is not there.

    Raises:
        OSError: nobody answers.
    """
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE_S).close()


__all__ = ["join", "ray_library"]
