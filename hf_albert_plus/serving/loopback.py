"""A cluster of one machine that nobody else's machine can reach.

Ray listens on all interfaces, and its messages are pickles. It has a switch for machines whose firewalls ask their users; the port that
a replica of Ray Serve opens has none.
"""

import ipaddress
import os

KEEP_TO_LOOPBACK = "HF_ALBERT_PLUS_LOOPBACK"
_NO_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def is_loopback(host: str) -> bool:
    """Whether a server that listens on an address is out of other machines' reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def keep_cluster_to_loopback() -> None:
    """To be called before Ray is imported: the node's address, and with it its processes', is loopback."""
    os.environ[_NO_CLUSTER] = "0"


def keep_replica_to_loopback() -> None:
    """In a replica's process, before it opens its port: that is on loopback too, where its cluster was told to keep to it."""
    if os.environ.get(KEEP_TO_LOOPBACK) != "1":
        return
    from ray.serve._private import replica

    bind = replica.add_port_to_grpc_server
    replica.add_port_to_grpc_server = lambda server, address: bind(server, address.replace("[::]:", "127.0.0.1:"))
