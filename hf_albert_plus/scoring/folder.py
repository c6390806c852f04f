"""The directory of a run: its plan, and one file a part."""

from collections.abc import Callable
from pathlib import Path

from ..errors import InvalidInput
from .plan import Part, Plan, read_plan

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
    if old is None or old.sources != plan.sources:
        plan.write(output / PLAN)
    folder = output / PARTS
    folder.mkdir(exist_ok=True)
    if old is not None:
        for source in set(plan.sources) - set(old.sources):
            tell(f"{source.path} has changed: it is scored anew")
    parts = list(plan.parts())
    unwanted = {path.name for path in folder.iterdir()} - {part.name for part in parts}
    for name in unwanted:
        if name.lstrip(".").startswith("part-"):
            (folder / name).unlink(missing_ok=True)
    return [part for part in parts if not (folder / part.name).exists()]


__all__ = ["PARTS", "PLAN", "begun", "take_up"]
