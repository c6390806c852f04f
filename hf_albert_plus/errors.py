"""Errors that a user can repair: each states the rule, the value and the repair."""

import difflib
import importlib
from collections.abc import Sequence
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


# Field, whether its value holds, the rule in words, and a value that works.
Rule = tuple[str, bool, str, object]
_LONGEST = 1 << 20


def seed_rule(seed: int) -> Rule:
    """What every seed must be: numpy takes no other."""
    return ("seed", 0 <= seed < 2**32, "from 0 up to 2^32 - 1", "42")


def length_rule(max_length: int | None, *, least: int = 4, example: int = 128) -> Rule:
    """What the longest input in tokens must be, where it is given: two special tokens and one of each text have room in the least."""
    holds = max_length is None or least <= max_length <= _LONGEST
    return ("max_length", holds, f"at least {least} and at most {_LONGEST:,}", example)


def check_values(settings: object, *rules: Rule) -> None:
    """Raises for the first field that breaks its rule."""
    for name, valid, rule, repair in rules:
        if not valid:
            option = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{option} must be {rule}", got=getattr(settings, name), repair=f"use {option} {repair}")


def check_known(settings: object, **known: tuple[str, ...]) -> None:
    """Raises for the first field that is none of the names known for it."""
    for name, names in known.items():
        check_name(getattr(settings, name), names, option=f"--{name.replace('_', '-')}")


def check_name(value: str, names: Sequence[str], *, option: str) -> None:
    """Raises for a value that is none of the names of an option."""
    if value not in names:
        close = _closest(str(value), names)
        repair = f"did you mean {close!r}?" if close else f"use {names[0]!r}"
        raise InvalidInput(f"{option} must be one of {', '.join(names)}", got=repr(value), repair=repair)


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
    close = _closest(name, known)
    return f"did you mean {close!r}? known: {', '.join(known)}" if close else f"use one of {', '.join(known)}"


def _closest(name: str, known: Sequence[str]) -> str | None:
    """The name that somebody seems to mean: one that begins so, or one that is like it."""
    longer = [other for other in known if name and other.startswith(name)]
    return next(iter(longer or difflib.get_close_matches(name, known, n=1)), None)


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
