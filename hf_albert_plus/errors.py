"""Errors that a user can repair: each states the rule, the value and the repair."""

import difflib
import importlib
from types import ModuleType
from typing import Any

from .errors_albert_plus import AlbertPlusError, InvalidInput

# Characters of somebody else's words that a message repeats.
_SHOWN = 200


class StageConflict(AlbertPlusError):
    """An output directory cannot be used: it holds something else, or another process is writing it."""


class ParityError(AlbertPlusError):
    """An export does not compute what its model computes.

    Attributes:
        outputs: for every output its name, differences, cosine, and the inputs of the largest difference.
    """

    def __init__(
        self,
        outputs: list[dict[str, Any]],
        *,
        what: str,
        rule: str,
        repair: str = "check that the model is in fp32 and its weights are finite",
    ):
        differences = "; ".join(
            f"{facts['output']} {facts['max_abs']:.3g} (cosine {facts['cosine']:.4f}) on {facts['inputs']}"
            for facts in outputs
        )
        super().__init__(f"{what}: {rule}, got {differences}; nothing was written: {repair}")
        self.outputs, self.what, self.rule = outputs, what, rule


class InvarianceError(AlbertPlusError):
    """An export's answer to a text depends on what else is in its batch."""

    def __init__(self, *, what: str, rule: str, got: str, repair: str):
        super().__init__(f"{what}: {rule}, got {got}; nothing was written: {repair}")


class QuantisationError(AlbertPlusError):
    """An int8 graph leaves weight products in fp32 that it should not."""

    def __init__(self, *, quantised: int, total: int, missing: list[str]):
        super().__init__(
            f"every one of the {total} weight products must be quantised or named by --keep-fp32, got {quantised}; "
            f"nothing was written: left in fp32 are {', '.join(missing)}"
        )
        self.quantised, self.total, self.missing = quantised, total, missing


class ScoreError(AlbertPlusError):
    """An int8 export loses more of a task's score than it may."""

    def __init__(self, *, what: str, score: float, reference: float, max_drop: float, repair: str):
        super().__init__(
            f"{what} may lose at most {max_drop:g} points, got {reference - score:.2f} ({reference:.2f} before, {score:.2f} "
            f"after); nothing was written: {repair}"
        )
        self.score, self.reference, self.max_drop = score, reference, max_drop


def check_values(settings: object, *rules: tuple[str, bool, str, object]) -> None:
    """Raises for the first field that breaks its rule: (field, whether it holds, the rule in words, a value that works)."""
    for name, valid, rule, repair in rules:
        if not valid:
            option = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{option} must be {rule}", got=getattr(settings, name), repair=f"use {option} {repair}")


def check_known(settings: object, **known: tuple[str, ...]) -> None:
    """Raises for the first field that is none of the names known for it."""
    for name, names in known.items():
        value = getattr(settings, name)
        if value not in names:
            raise InvalidInput(f"--{name} must be known", got=repr(value), repair=suggest(value, list(names)))


def first_line(error: Exception) -> str:
    """The first line of a library's message, cut where it is long."""
    return _cut((str(error).strip().splitlines() or [type(error).__name__])[0])


def last_line(said: str) -> str:
    """The last line of what a process said, which names its error, cut where it is long."""
    return _cut((said.strip().splitlines() or ["no message"])[-1])


def _cut(line: str) -> str:
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]} …"


def shown(value: object) -> str:
    """A value as a message shows it, cut where it is long."""
    return _cut(repr(value))


def suggest(name: str, known: list[str]) -> str:
    """'did you mean …?' for a name that is not among the known ones."""
    longer = [other for other in known if name and other.startswith(name)]
    close = longer or difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}? known: {', '.join(known)}" if close else f"use one of {', '.join(known)}"


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
