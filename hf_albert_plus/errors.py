"""Errors that a user can repair: each states the rule, the value and the repair."""


class AlbertPlusError(Exception):
    """Base of every error this package raises for a reason outside its own code."""


class InvalidInput(AlbertPlusError, ValueError):
    """A value breaks a rule."""

    def __init__(self, rule: str, *, got: object, repair: str):
        super().__init__(f"{rule}, got {got}; {repair}")
        self.rule, self.got, self.repair = rule, got, repair


class StageConflict(AlbertPlusError):
    """An output directory cannot be used: it holds something else, or another process is writing it."""


class ParityError(AlbertPlusError):
    """An export does not compute what its model computes."""

    def __init__(self, outputs: list[tuple[str, float, str]], *, tolerance: float):
        found = "; ".join(f"{name} {max_abs:.3g} on {inputs}" for name, max_abs, inputs in outputs)
        super().__init__(
            f"outputs of the exported graph may differ by at most {tolerance:g} from the model's, got {found}; "
            "nothing was written: check that the model is in fp32 and its weights are finite"
        )
        self.outputs, self.tolerance = outputs, tolerance


class QuantisationError(AlbertPlusError):
    """An int8 graph leaves weight products in fp32."""

    def __init__(self, *, quantised: int, total: int, missing: list[str]):
        super().__init__(
            f"every one of the {total} weight products must be quantised, got {quantised}; nothing was written: left in "
            f"fp32 are {', '.join(missing)}"
        )
        self.quantised, self.total, self.missing = quantised, total, missing


def suggest(name: str, known: list[str]) -> str:
    """'did you mean …?' for a name that is not among the known ones."""
    import difflib

    longer = [other for other in known if name and other.startswith(name)]
    close = longer or difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}? known: {', '.join(known)}" if close else f"use one of {', '.join(known)}"


__all__ = ["AlbertPlusError", "InvalidInput", "ParityError", "QuantisationError", "StageConflict", "suggest"]
