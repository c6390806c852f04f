"""Serving over HTTP, on Ray Serve."""

from .server import Place, Server
from .settings import ServeSettings

__all__ = ["Place", "ServeSettings", "Server"]
