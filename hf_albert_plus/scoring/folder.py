"""The directory of a run: its plan, and one file a part."""

import os
from collections.abc import Callable
from pathlib import Path

from ..errors import InvalidInput
from ..outputs import remove, take_directory
from .plan import Part, Plan, read_plan
from .worker import check_part

PLAN, PARTS = "plan.json", "scores"


def begun(output: Path) -> Plan | None:
    """The plan of the run that is there, if any.

    Raises:
        InvalidInput: something else is there.
    """
    if (output / PLAN).is_file():
        return read_plan(output / PLAN)
    if output.exists() and (not output.is_dir() or any(path.name[0] != "." for path in output.iterdir())):
        raise InvalidInput(
            "--output must be new, empty, or begun by this command",
            got=f"{output}, which holds something else",
            repair="choose another --output",
        )
    return None


def take_up(plan: Plan, output: Path, *, old: Plan | None, tell: Callable[[str], None]) -> list[Part]:
    """Writes a plan, and removes what is none of its parts: halves, and those of files that have changed.

    Returns:
        The parts that are missing.
    """
    folder = output / PARTS
    for directory in (output, folder):
        take_directory(directory, option="--output")
    if old is None or old.sources != plan.sources:
        plan.write(output / PLAN)
    if old is not None:
        for source in set(plan.sources) - set(old.sources):
            tell(f"{source.path} has changed: it is scored anew")
    parts = list(plan.parts())
    unwanted = {path.name for path in folder.iterdir()} - {part.name for part in parts}
    for name in unwanted:
        if name.lstrip(".").startswith("part-"):
            remove(folder / name)
    return [part for part in parts if not _done(folder / part.name, tell)]


def _done(file: Path, tell: Callable[[str], None]) -> bool:
    """Whether a part is there, and is what was written; a damaged one is removed."""
    if not os.path.lexists(file):
        return False
    try:
        check_part(file)
    except InvalidInput as damage:
        tell(str(damage))
        remove(file)
        return False
    return True


__all__ = ["PARTS", "PLAN", "begun", "take_up"]
