"""The trial of a model before it serves, in a process of its own: a model that is broken may take its process down."""

import subprocess
import sys

from ..errors import InvalidInput
from .carried_errors import error_of
from .repository import ServedModel

_WORK = "hf_albert_plus.serving.trial_process"


class Trial:
    """A trial that begins at once; `end` waits for what it finds."""

    def __init__(self, model: ServedModel, *, max_length: int | None):
        """Begins.

        Args:
            model: one whose files were compared with the hashes in its record.
        """
        self.model = model
        words = [str(model.directory), model.runtime, model.content, *([] if max_length is None else [str(max_length)])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", _WORK, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def end(self) -> None:
        """Waits for its end.

        Raises:
            InvalidInput: the model is not fit to serve.
        """
        output, errors = self._process.communicate()
        if self._process.returncode:
            last = [line for line in errors.splitlines() if line.strip()][-1:]
            raise InvalidInput(
                f"{self.model.directory} must open and compute on {self.model.runtime}",
                got=last[0].strip() if last else f"the end of its process, by {self._process.returncode}",
                repair="check that its files belong together, or make it again",
            )
        said = output.strip().splitlines()[-1]
        if said != "null":
            raise error_of(said)
