"""The error of a value that breaks a rule. It goes to the Hub with the config, whose rules raise it."""

from typing import Any


class AlbertPlusError(Exception):
    """Base of every error this package raises for a reason outside its own code."""


class InvalidInput(AlbertPlusError, ValueError):
    """A value breaks a rule."""

    def __init__(self, rule: str, *, got: object, repair: str):
        super().__init__(f"{rule}, got {got}; {repair}")
        self.rule, self.got, self.repair = rule, got, repair

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes send it home.
        return _invalid_input, (self.rule, str(self.got), self.repair)


def _invalid_input(rule: str, got: str, repair: str) -> InvalidInput:
    return InvalidInput(rule, got=got, repair=repair)
