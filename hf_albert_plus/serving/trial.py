"""A model that is tried before it serves, in a process of its own: one that is broken may take its process down."""

import json
import subprocess
import sys

from hf_albert_plus.errors import InvalidInput

from .repository import Served

_WORK = "hf_albert_plus.serving.trial_process"


class Trial:
    """Begins at once; `end` waits for what it finds."""

    def __init__(self, model: Served, *, max_length: int | None):
        self.model = model
        words = [str(model.directory), model.runtime, *([] if max_length is None else [str(max_length)])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", _WORK, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def end(self) -> None:
        """
        Raises:
            InvalidInput: the model is not fit to serve.
        """
        output, errors = self._process.communicate()
        said = output.strip().splitlines()
        if self._process.returncode:
            last = [line for line in errors.splitlines() if line.strip()][-1:]
            raise InvalidInput(
                f"{self.model.directory} must open and compute on {self.model.runtime}",
                got=last[0].strip() if last else f"the end of its process, by {self._process.returncode}",
                repair="check that its files belong together, or make it again",
            )
        problem = json.loads(said[-1])
        if problem is not None:
            raise InvalidInput(problem["rule"], got=problem["got"], repair=problem["repair"])


__all__ = ["Trial"]
