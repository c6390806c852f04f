"""What came of each candidate of a search."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from .pick import Measured

# Candidates that need no training: all of the teacher, and with the pieces alone that its task uses.
TEACHER, TRIMMED = "teacher", "trimmed"
_BEGUN, _LONGER = "-begun", "-longer"


def name_as_begun(shape: str) -> str:
    """The name of a candidate that is a shape after its first passes alone."""
    return f"{shape}{_BEGUN}"


def has_only_begun(name: str) -> bool:
    """Whether a candidate is a shape after its first passes alone."""
    return name.endswith(_BEGUN)


def name_of_shape(candidate: str) -> str:
    """The name of the shape that a candidate is, whether it has only begun or not."""
    return candidate.removesuffix(_BEGUN)


def name_as_longer(shape: str, *, passes: float, after: float) -> str:
    """The name of a candidate that is a shape after some passes more than it had learned."""
    return f"{shape}{_LONGER}{passes:g}-after{after:g}"


def has_learned_on(name: str) -> bool:
    """Whether a candidate is a shape that learned more passes than others."""
    return _LONGER in name


def shape_before(candidate: str) -> str:
    """The name of the shape that learned on and is a candidate now."""
    return candidate.partition(_LONGER)[0]


def name_of_student(directory: str) -> str:
    """The name of a candidate that is a student of this directory."""
    path = Path(directory).resolve()
    return f"student-{path.name}-{hashlib.sha256(str(path).encode()).hexdigest()[:4]}"


@dataclass(frozen=True)
class Tried:
    """What came of a candidate.

    Attributes:
        name: of its directory.
        words: its shape.
        directory, runtime: what runs it; None where it was stopped.
        score: by the task's first metric; of one that was stopped after its first passes, None where it has none.
        why: it was stopped; None where it was finished.
        measured: None where it was stopped.
    """

    name: str
    words: str
    score: float | None
    directory: Path | None = None
    runtime: str | None = None
    why: str | None = None
    measured: Measured | None = None
