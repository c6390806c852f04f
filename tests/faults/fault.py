"""What a planted fault is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A change of the source that makes a result wrong without a word.

    Attributes:
        what: what is wrong with it.
        old: text that is in the source once; it may break its lines elsewhere.
        new: what takes its place.
        caught_by: names of the tests that fail with it, all of them.
    """

    name: str
    what: str
    old: str
    new: str
    caught_by: tuple[str, ...]
