"""Running a server: models started and warm before requests come, swapped when the directory changes, drained when it stops."""

import os
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

from .loopback import KEEP_TO_LOOPBACK, keep_cluster_to_loopback
from .repository import Served, scan
from .settings import ServeSettings

_FRONT = "front"
_LOOPBACK = "127.0.0.1"
_POLL_S = 0.1


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
    """A server over a directory. `start`, then `run` until a signal or `stop`."""

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
        self._config: dict[str, Any] = {}
        self._front: Any = None
        self._stop = threading.Event()

    def start(self) -> None:
        """Starts everything; models are warm when it returns.

        Raises:
            InvalidInput: nothing to serve, or no Ray.
        """
        models = scan(self.directory, runtime=self.runtime)
        if self.place.address is None:
            keep_cluster_to_loopback()
        serve = _ray_serve()
        _join(self.place)
        serve.start(http_options={"host": self.place.host, "port": self.place.port}, proxy_location="HeadOnly")
        for model in models:
            self._run_model(model)
        self._configure(models)

    def run(self) -> None:
        """Watches the directory until SIGTERM, SIGINT or `stop`, then drains."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        while not self._stop.wait(self.place.watch_s):
            self._remind()
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
        self._configure(started)
        for application in set(self.running) - {model.application for model in started}:
            # Its replicas answer what they have before they end.
            serve.delete(application)
            del self.running[application]
        return True

    def drain(self) -> None:
        """Takes nothing new, answers what was taken, and stops."""
        serve, ray = _ray_serve(), need("ray", extra="serve")
        self._configure(list(self.running.values()), draining=True)
        limit = time.monotonic() + self.settings.drain_s
        while self._front.in_flight.remote().result() and time.monotonic() < limit:
            time.sleep(_POLL_S)
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

    def _configure(self, models: list[Served], *, draining: bool = False) -> None:
        """Tells the front of its models; it knows them when this returns."""
        names: dict[str, dict[str, str]] = defaultdict(dict)
        for model in models:
            names[model.name][str(model.version)] = model.application
        generation = self._config.get("generation", 0) + 1
        self._config = {"generation": generation, "models": dict(names), "draining": draining}
        if self._front is None:
            self._front = self._run_front()
        else:
            self._front.update.remote(self._config).result()

    def _run_front(self) -> Any:
        from .deployments import Front, front_app

        serve, settings = _ray_serve(), self.settings

        def build() -> Any:
            return front_app(settings)

        deployment = serve.deployment(serve.ingress(build)(Front)).options(
            name=_FRONT,
            num_replicas=1,
            max_ongoing_requests=10_000,
            ray_actor_options={"num_cpus": 0},
            user_config=self._config,
            graceful_shutdown_timeout_s=settings.drain_s,
        )
        return serve.run(deployment.bind(self.place.token), name=_FRONT, route_prefix="/")

    def _remind(self) -> None:
        """Tells a front that was started again what it was told since."""
        if self._front is not None and self._front.generation.remote().result() != self._config["generation"]:
            self._front.update.remote(self._config).result()


def _ray_serve() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return need("ray.serve", extra="serve")


def _join(place: Place) -> None:
    """Joins a cluster, or starts one of its own whose every port is on loopback."""
    ray = need("ray", extra="serve")
    if place.address is not None:
        ray.init(address=place.address, log_to_driver=False)
        return
    ray.init(
        include_dashboard=False, log_to_driver=False, configure_logging=False, runtime_env={"env_vars": {KEEP_TO_LOOPBACK: "1"}}
    )  # fmt: skip


__all__ = ["Place", "Server"]
