"""Ctrl-C that cannot be lost: Python drops an exception that is raised while a finalizer runs, and a library may take it for a fault of its own."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class CtrlC:
    """Remembers inside of its context that Ctrl-C was pressed.

    Attributes:
        is_pressed: whether it was.
    """

    def __init__(self) -> None:
        self.is_pressed = False
        self._former: Any = None

    def __enter__(self) -> "CtrlC":
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)

    def obey(self) -> None:
        """
        Raises:
            KeyboardInterrupt: Ctrl-C was pressed before.
        """
        if self.is_pressed:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.is_pressed = True
        raise KeyboardInterrupt
