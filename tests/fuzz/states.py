"""What lies around a command: odd files to be named as values, and what earlier runs left at its output."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.fuzz.contents import SPOILS, spoil, spoils_of

PRECIOUS = "must never be lost\n"


def menagerie(folder: Path) -> None:
    """Makes what `values.PATHS` names."""
    (folder / "dangling").symlink_to("nowhere/at/all")
    (folder / "loop").symlink_to("loop")
    (folder / "full").symlink_to("/dev/full")
    (folder / "a-file").write_text("a file\n")
    (folder / "a-directory").mkdir()
    (folder / "a-directory" / "a-file").write_text("a file\n")
    (folder / "locked").mkdir(mode=0o555)
    os.mkfifo(folder / "pipe")
    _keep(folder / "precious")


def _keep(folder: Path) -> None:
    folder.mkdir()
    (folder / "keep.txt").write_text(PRECIOUS)


def is_kept(folder: Path) -> bool:
    """Whether every precious file is as it was."""
    return all(
        (path / "keep.txt").is_file() and (path / "keep.txt").read_bytes() == PRECIOUS.encode()
        for path in _precious(folder)
    )


def _precious(folder: Path) -> list[Path]:
    return [folder / "precious", *(folder / name for name in ("foreign", "behind") if (folder / name).exists())]


def _stage(partial: Path, data: bytes) -> None:
    partial.mkdir()
    (partial / "stage.json").write_bytes(data)
    complete = partial / "checkpoints" / "checkpoint-1"
    complete.mkdir(parents=True)
    (complete / "complete").write_bytes(data)
    (complete / "trainer_state.json").write_bytes(data)


def _linked(place: Path) -> None:
    _keep(place.parent / "behind")
    place.symlink_to("behind")


def _foreign(out: Path) -> None:
    _keep(out.parent / "foreign")
    os.rename(out.parent / "foreign", out)
    (out.parent / "foreign").symlink_to(out.name)


def _partial(out: Path) -> Path:
    return out.with_name(f"{out.name}.partial")


_SOMETHING = json.dumps({"stage": "finetune", "settings": {}, "parents": {}}).encode()
FRESH: dict[str, Callable[[Path, Random], None]] = {
    "OUT is a file": lambda out, random: out.write_text("x") and None,
    "OUT is an empty directory": lambda out, random: out.mkdir(),
    "OUT is a dangling link": lambda out, random: out.symlink_to("nowhere"),
    "OUT is a link to itself": lambda out, random: out.symlink_to(out.name),
    "OUT is a directory of somebody else": lambda out, random: _foreign(out),
    "OUT is a link to a directory": lambda out, random: _linked(out),
    "OUT is a pipe": lambda out, random: os.mkfifo(out),
    "OUT's lock is a directory": lambda out, random: out.with_name(f".{out.name}.lock").mkdir(),
    "OUT.partial is a file": lambda out, random: _partial(out).write_text("x") and None,
    "OUT.partial is a link to a directory": lambda out, random: _linked(_partial(out)),
    "OUT.partial is a dangling link": lambda out, random: _partial(out).symlink_to("nowhere"),
    "OUT.partial has a stage of something else": lambda out, random: _stage(_partial(out), _SOMETHING),
    **{f"OUT.partial has a stage that is {name}": (lambda out, random, data=data: _stage(_partial(out), data))
       for name, data in {
           "empty": b"", "no object": b"[1]", "null": b"null", "binary": b"\xff\xfe\0", "deep": b"[" * 100_000, "another shape": b'{"stage": 5, "parents": {"x": 1}}',
           "without path": b'{"stage": "x", "settings": [], "parents": {"x": {"y": null}}}', "not a number": b'{"stage": NaN}',
       }.items()},
}  # fmt: skip
# On what a command made that came to its end.
_AGAIN = ("the same again", "other words")
FINISHED = (
    *_AGAIN, "killed before its last rename", *(f"its record: {how}" for how in SPOILS["JSON"]), "a file spoiled 0", "a file spoiled 1", "a file spoiled 2", "a JSON spoiled 0",
    "a JSON spoiled 1", "a JSON spoiled 2", "a JSON spoiled 3", "in OUT.partial: a file spoiled", "in OUT.partial: its record spoiled",
)  # fmt: skip


def lay(state: str, out: Path, finished: Path, random: Random) -> None:
    """Makes a state. `finished` is what the command that works left at its output."""
    if state in FRESH:
        FRESH[state](out, random)
        return
    place = _partial(out) if "partial" in state or state.startswith("killed") else out
    copy_linked(finished, place)
    files = sorted(path for path in place.rglob("*") if path.is_file())
    if "record" in state:
        files = [path for path in files if path.name == "record.json"]
        how = state.removeprefix("its record: ")
        if files:
            spoil(files[0], how if how in SPOILS["JSON"] else random.choice([*SPOILS["JSON"]]), random)
    elif "spoiled" in state:
        files = [path for path in files if path.suffix == ".json"] or files if "JSON" in state else files
        chosen = random.choice(files)
        spoil(chosen, random.choice([how for how in spoils_of(chosen) if how != "a pipe"]), random)


def copy_linked(source: Path, target: Path) -> None:
    """A copy of a file or a directory that shares its content."""
    if source.is_dir():
        shutil.copytree(source, target, copy_function=os.link)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target)


__all__ = ["FINISHED", "FRESH", "copy_linked", "is_kept", "lay", "menagerie"]
