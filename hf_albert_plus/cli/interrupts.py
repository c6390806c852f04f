"""Ctrl-C while `albert-plus` still opens its libraries, which takes seconds."""

import os
import sys
from pathlib import Path
from types import TracebackType

STOPPED = 130  # as a shell counts a program that Ctrl-C ended


def end_quietly(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An excepthook that ends with a line and not with a trace where Ctrl-C is behind an error."""
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, KeyboardInterrupt):
        behind = behind.__cause__ or behind.__context__  # a library may take it for a fault of what it imports
    if behind is None:
        sys.__excepthook__(kind, error, trace)
        return
    print("stopped", file=sys.stderr, flush=True)
    os._exit(STOPPED)


if Path(sys.argv[0] if sys.argv else "").stem == "albert-plus":
    sys.excepthook = end_quietly
