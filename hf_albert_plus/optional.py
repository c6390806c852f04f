"""Libraries that come with an extra."""

import importlib
from types import ModuleType

from .errors import InvalidInput


def need(module: str, *, extra: str) -> ModuleType:
    """Imports a library, or says how to install it.

    Raises:
        InvalidInput: it is not installed, or does not import.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidInput(
            f"this needs {module}",
            got=f"no such library ({error})",
            repair=f"install it: pip install 'hf-albert-plus[{extra}]'",
        ) from None


__all__ = ["need"]
