"""Models in the process that takes the requests: the way to serve from one machine."""

from pathlib import Path

from .catalogue import AskableModel
from .listener import Listener
from .queued_model import QueuedModel
from .repository import ServedModel, content_of
from .settings import ServeSettings


class EmbeddedHost:
    """Opens models where they are asked, and closes them once they have answered what they were asked."""

    def __init__(self, settings: ServeSettings, listener: Listener):
        self.settings, self.listener = settings, listener
        self._models: dict[str, QueuedModel] = {}

    def start(self) -> None:
        """Nothing runs before there is a model."""

    def open(self, model: ServedModel) -> AskableModel:
        """The model, warm.

        Raises:
            InvalidInput: it is not fit to serve.
        """
        verify = content_of(Path(model.directory), model.runtime) != model.content
        opened = QueuedModel(model.directory, model.runtime, self.settings, verify=verify)
        self._models[model.application] = opened
        return opened

    def close(self, model: ServedModel) -> None:
        """Lets a model end what it began, and returns at once."""
        self.listener.begin(self._models.pop(model.application).finish())

    def end(self) -> None:
        """What still waits is given up with the process."""
