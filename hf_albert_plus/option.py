"""What a settings class says of its fields to the command line: the help of each option, beside its type and its default.

A field is declared once, `heads: Annotated[float, Option("Share of the attention heads to remove.")] = 0.33`, and each verb that takes
the class has the option `--heads` (`cli/options.py`). This module imports nothing, and neither should a module with settings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """The option of one field.

    Attributes:
        help: what `--help` says, in a sentence.
        name: the option where it is not called like the field.
        also: other names of the same option.
        of_task: the option's default is the task's own value; the class's default stands where there is no task.
        parse: makes the value out of one word, where it is no number, name, path, or several of these.
        default: the word that `parse` makes the field's default out of, where `str` does not give one.
        metavar: what stands for the value in `--help`.
        least, most: what a number must lie between.
    """

    help: str
    name: str | None = None
    also: tuple[str, ...] = ()
    of_task: bool = False
    parse: Callable[[str], Any] | None = None
    default: str | None = None
    metavar: str | None = None
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class PythonOnly:
    """A field that has no option.

    Attributes:
        reason: why callers in Python alone may set it.
    """

    reason: str
