"""Running a server: models started and warm before requests come, swapped when the directory changes, drained when it stops."""

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.optional import need

from .answers import Model
from .app import build_app
from .catalogue import Catalogue
from .cluster import join, ray_library
from .guard import Gate
from .listener import Listener
from .repository import Served, scan
from .settings import ServeSettings

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.1
# Whoever asks a server that stops is told so for as long at least, and goes elsewhere.
_LINGER_S = 1.0


@dataclass(frozen=True)
class Place:
    """Where a server runs.

    Attributes:
        host: that it listens on; loopback unless told otherwise.
        replicas: processes of each model.
        address: of a Ray cluster to join; None for one of its own, on loopback.
        token: that requests must bear.
        watch_s: how often the directory is looked at.
    """

    host: str = _LOOPBACK
    port: int = 8000
    replicas: int = 1
    address: str | None = None
    token: str | None = None
    watch_s: float = 2.0


class Server:
    """A server over a directory. `start`, then `run` until a signal or `stop`.

    This process takes the requests; the models are Ray Serve's deployments, in processes of their own or on machines of their own. Ray
    Serve's own proxy would be a process more on the way of every request, and costs as much as ten texts take a small model.
    """

    def __init__(
        self,
        directory: Path,
        *,
        runtime: str | None,
        settings: ServeSettings,
        place: Place,
        tell: Callable[[str], None] = print,
    ):
        self.directory, self.runtime, self.settings, self.place, self.tell = directory, runtime, settings, place, tell
        self.running: dict[str, Served] = {}
        self._catalogue, self._gate = Catalogue(), Gate(token=place.token)
        self._stop = threading.Event()

    def start(self) -> None:
        """Starts everything; models are warm when it returns.

        Raises:
            InvalidInput: nothing to serve, no Ray, or a port that is taken.
        """
        models = scan(self.directory, runtime=self.runtime)
        self._listener = Listener(self.place.host, self.place.port)
        serve = ray_library("ray.serve", extra="serve", address=self.place.address)
        join(self.place.address)
        serve.start(proxy_location="Disabled")
        for model in models:
            self._run_model(model)
        self._offer(models)
        self._listener.start(build_app(self._catalogue, self.settings, self._gate))

    def run(self) -> None:
        """Watches the directory until SIGTERM, SIGINT or `stop`, then drains."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        while not self._stop.wait(self.place.watch_s):
            self.refresh()
        self.drain()

    def stop(self) -> None:
        self._stop.set()

    def refresh(self) -> bool:
        """Takes up what changed in the directory: new models are warm before they answer, old ones end what they began.

        Returns:
            Whether anything did.
        """
        try:
            models = scan(self.directory, runtime=self.runtime)
        except (InvalidInput, OSError) as error:
            self.tell(f"the models stay as they are: {error}")
            return False
        if {model.application for model in models} == set(self.running):
            return False
        serve = _ray_serve()
        started = []
        for model in models:
            if model.application in self.running:
                started.append(model)
                continue
            try:
                self._run_model(model)
                started.append(model)
            except Exception as error:  # a model that does not start must not take down those that run
                serve.delete(model.application)
                self.tell(f"{model.name} {model.version} does not start: {error}")
                started += [
                    old for old in self.running.values() if (old.name, old.version) == (model.name, model.version)
                ]
        self._offer(started)
        for application in set(self.running) - {model.application for model in started}:
            # Its replicas answer what they have before they end.
            serve.delete(application)
            del self.running[application]
        return True

    def drain(self) -> None:
        """Takes nothing new, answers what was taken, and stops."""
        serve, ray = _ray_serve(), need("ray", extra="serve")
        self._gate.is_draining = True
        start = time.monotonic()
        while time.monotonic() < start + _LINGER_S or (
            self._gate.in_flight and time.monotonic() < start + self.settings.drain_s
        ):
            time.sleep(_POLL_S)
        self._listener.stop()
        self.tell("drained")
        serve.shutdown()
        ray.shutdown()

    def _run_model(self, model: Served) -> None:
        from .deployments import ModelReplica

        serve = _ray_serve()
        settings = self.settings
        deployment = serve.deployment(ModelReplica).options(
            name=model.name,
            num_replicas=self.place.replicas,
            max_ongoing_requests=10_000,
            ray_actor_options={"num_cpus": 0},
            health_check_period_s=2,
            health_check_timeout_s=10,
            graceful_shutdown_timeout_s=settings.deadline_s,
            graceful_shutdown_wait_loop_s=_POLL_S,
        )
        application = deployment.bind(str(model.directory), model.runtime, settings.describe())
        serve.run(application, name=model.application, route_prefix=None)
        self.running[model.application] = model
        self.tell(f"{model.name} {model.version} ({model.runtime}) is warm")

    def _offer(self, models: list[Served]) -> None:
        """Has requests from now on answered by these; those that were begun end with the model that they found."""
        from .deployments import RemoteModel

        serve = _ray_serve()
        offered: dict[str, dict[int, Model]] = defaultdict(dict)
        for model in models:
            handle = serve.get_app_handle(model.application)
            offered[model.name][model.version] = RemoteModel(
                handle,
                handle.facts.remote().result(),
                replicas=self.place.replicas,
                deadline_s=self.settings.deadline_s,
            )
        self._catalogue.models = offered


def _ray_serve() -> Any:
    return need("ray.serve", extra="serve")


__all__ = ["Place", "Server"]
