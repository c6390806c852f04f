"""Holding back what other libraries log of themselves."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_loggers(*names: str) -> Iterator[None]:
    """Lets errors alone through these loggers; `"root"` is the root logger."""
    loggers = [logging.getLogger(None if name == "root" else name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


__all__ = ["quiet_loggers"]
