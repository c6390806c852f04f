"""A Ray cluster of two nodes on loopback, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from tests.support.processes import kill_all

# Ray on loopback, which soon sees that a node is gone.
LOOPBACK = {
    **os.environ,
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "2",
}
# Two nodes of a core each; says its address and the process of the second one, and ends with its input.
_CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
print("cluster", cluster.address, second.all_processes["raylet"][0].process.pid, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@contextmanager
def starting_cluster() -> Iterator[Callable[[], tuple[str, psutil.Process]]]:
    """A cluster that starts meanwhile; called, it gives its address and the process of its second node."""
    process = subprocess.Popen(
        [sys.executable, "-c", _CLUSTER], env=LOOPBACK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip

    def found() -> tuple[str, psutil.Process]:
        assert process.stdout is not None
        line = next(line for line in iter(process.stdout.readline, "") if line.startswith("cluster "))
        _, address, pid = line.split()
        return address, psutil.Process(int(pid))

    try:
        yield found
        process.communicate("", timeout=240)
    finally:
        kill_all(process)
