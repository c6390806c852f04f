"""A server of models: it has them warm before requests come, swaps them when the directory changes, and drains when it stops."""

import gc
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..errors import InvalidInput, first_line, need
from .catalogue import AskableModel, Catalogue
from .gate import Gate
from .listener import Listener
from .repository import ServedModel, find
from .settings import ServeSettings
from .trial import Trial

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.1
# Whoever asks a server that stops is told so for as long at least, and goes elsewhere.
_LINGER_S = 1.0


@dataclass(frozen=True)
class Cluster:
    """The Ray cluster that runs models.

    Attributes:
        replicas: processes of each model.
        address: of a cluster to join; None for a cluster of its own, on loopback.
    """

    replicas: int = 1
    address: str | None = None


@dataclass(frozen=True)
class Hosting:
    """Where a server runs.

    Attributes:
        host: address that it listens on; loopback unless told otherwise.
        cluster: where the models run: on Ray Serve, or in this process for None.
        token: token that requests must bear.
        watch_s: seconds after which the directory is looked at again.
        shares_port: with other processes of the same server.
    """

    host: str = _LOOPBACK
    port: int = 8000
    cluster: Cluster | None = None
    token: str | None = None
    watch_s: float = 2.0
    shares_port: bool = False


class Host(Protocol):
    """What runs models."""

    def start(self) -> None: ...

    def open(self, model: ServedModel) -> AskableModel: ...

    def close(self, model: ServedModel) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True)
class RunningModel:
    """A model that serves, and what asks it."""

    model: ServedModel
    asked: AskableModel


@dataclass(frozen=True)
class RefusedModel:
    """A model that is not fit to serve, and why."""

    model: ServedModel
    error: InvalidInput


class Server:
    """A server over a directory. `start`, then `run` until a signal or `stop`.

    This process takes the requests. The models are in it, or on Ray Serve, and nothing else knows which.
    """

    def __init__(
        self,
        directory: Path,
        *,
        runtime: str | None,
        settings: ServeSettings,
        hosting: Hosting,
        tell: Callable[[str], None] = print,
    ):
        self.directory, self.runtime, self.settings, self.hosting, self.tell = (
            directory,
            runtime,
            settings,
            hosting,
            tell,
        )
        self.running: dict[str, RunningModel] = {}
        self.refused: dict[str, RefusedModel] = {}
        self._told, self._is_alone = "", False
        self._catalogue, self._gate = Catalogue(), Gate(token=hosting.token)
        self._stop = threading.Event()

    def start(self) -> None:
        """Starts everything; models are warm when it returns. What is wrong with a directory is found before a cluster starts, if it can be.

        Raises:
            InvalidInput: nothing that is fit to serve, no cluster, or a port that is taken.
        """
        models = find(self.directory, runtime=self.runtime)
        # What is wrong with the only one is the error that `start` ends with.
        self._is_alone = len(models) == 1
        sound = [model for model in models if self._accepts(model, self._check)]
        if not sound:
            raise self._nothing_fit()
        need("fastapi", extra="serve")
        hosting = self.hosting
        self._listener = Listener(hosting.host, hosting.port, shares_port=hosting.shares_port)
        # Tried while the rest starts, and each one while that before it is opened.
        trials = (Trial(model, max_length=self.settings.max_length) for model in sound)
        trial = next(trials, None)
        from .application import build_app

        self._host = self._make_host()
        self._host.start()
        while trial is not None:
            tried, trial = trial, next(trials, None)
            self._accepts(tried.model, self._run_model, tried)
        if not self.running:
            self._listener.close()
            self._host.end()
            raise self._nothing_fit()
        self._is_alone = False
        self._offer()
        self._listener.start(
            build_app(self._catalogue, self.settings, self._gate), header_s=self.settings.header_timeout
        )
        # What there is now stays: to look through it for garbage would hold up requests for as long as dozens of them take.
        gc.collect()
        gc.freeze()

    def run(self) -> None:
        """Watches the directory until SIGTERM, SIGINT or `stop`, then drains."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        while not self._stop.wait(self.hosting.watch_s):
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
            models = find(self.directory, runtime=self.runtime)
        except (InvalidInput, OSError) as error:
            self._tell_once(f"the models stay as they are: {error}")
            return False
        present = {model.application for model in models}
        new = [model for model in models if model.application not in {**self.running, **self.refused}]
        for model in new:
            if self._accepts(model, self._check):
                self._accepts(model, self._run_model, Trial(model, max_length=self.settings.max_length))
        forgotten = set(self.refused) - present
        self.refused = {name: refusal for name, refusal in self.refused.items() if name in present}
        # In the place of what is refused stays what was served until now: that version, or where none is left all of that name.
        names = {model.name for model in models if model.application in self.running}
        kept = {
            application
            for application, one in self.running.items()
            for refused in self.refused.values()
            if refused.model.name == one.model.name
            and (refused.model.version == one.model.version or one.model.name not in names)
        }
        gone = set(self.running) - present - kept
        if not new and not gone and not forgotten:
            return False
        leaving = [self.running.pop(application) for application in gone]
        self._offer()
        for one in leaving:
            self._host.close(one.model)
        return True

    def drain(self) -> None:
        """Takes nothing new, answers what was taken, and stops."""
        self._gate.is_draining = True
        start = time.monotonic()
        while time.monotonic() < start + _LINGER_S or (
            self._gate.in_flight and time.monotonic() < start + self.settings.drain_s
        ):
            time.sleep(_POLL_S)
        self._listener.stop()
        self.tell("drained")
        self._host.end()

    def _make_host(self) -> Host:
        cluster = self.hosting.cluster
        if cluster is None:
            from .embedded import EmbeddedHost

            return EmbeddedHost(self.settings, self._listener)
        from .clustered import ClusterHost

        return ClusterHost(self.settings, replicas=cluster.replicas, address=cluster.address)

    def _accepts(self, model: ServedModel, step: Callable[..., None], *given: Trial) -> bool:
        """Whether a step of taking up a model succeeds. One that fails is remembered with its reason, and tried again when it changes."""
        try:
            step(model, *given)
        except (InvalidInput, OSError) as error:
            if isinstance(error, OSError):  # a file that may not be read, or is gone by now
                error = InvalidInput(
                    f"the files of {model.directory} must be there, and readable by the server",
                    got=first_line(error),
                    repair="mend that; it is tried again when its files change",
                )
            self.refused[model.application] = RefusedModel(model, error)
            if not self._is_alone:
                self.tell(f"{model.name} {model.version} is refused: {error}")
            return False
        return True

    def _nothing_fit(self) -> InvalidInput:
        reasons = [refused.error for refused in self.refused.values()]
        if len(reasons) == 1:
            return reasons[0]
        return InvalidInput(
            f"a model of {self.directory} must be fit to serve",
            got=f"{len(reasons)} that are not",
            repair="mend one of them, as said above",
        )

    def _check(self, model: ServedModel) -> None:
        model.check_files()
        from .fitness import check_directory

        check_directory(model, max_length=self.settings.max_length)

    def _run_model(self, model: ServedModel, trial: Trial) -> None:
        """Opens a model that has come through its trial.

        Raises:
            InvalidInput: it is not fit to serve.
        """
        trial.end()
        self.running[model.application] = RunningModel(model, self._host.open(model))
        self.tell(f"{model.name} {model.version} ({model.runtime}) is warm")

    def _offer(self) -> None:
        """Has requests from now on answered by what runs; those that were begun end with the model that they found."""
        offered: dict[str, dict[int, AskableModel]] = defaultdict(dict)
        for running in self.running.values():
            offered[running.model.name][running.model.version] = running.asked
        refused: dict[str, dict[int, str]] = defaultdict(dict)
        for one in self.refused.values():
            model = one.model
            refused[model.name][model.version] = str(one.error).replace(
                str(model.directory), f"{model.name}/{model.version}"
            )
        self._catalogue.models, self._catalogue.refused = offered, refused

    def _tell_once(self, text: str) -> None:
        if text != self._told:
            self.tell(text)
        self._told = text
