"""What of a model directory goes to the Hub, and what stays here and why."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from ..errors import InvalidInput
from ..records.files import is_temporary
from ..records.machine_paths import without_machine_paths
from ..records.record import _IDENTITY, CARD, CHECKPOINTS, EVAL_RESULTS, RECORD, RUNS, read_record

README = "README.md"
_CHECKPOINT = re.compile(r"checkpoint-\d+")
# Of a training, and of no use to whoever opens the model.
_STATES = ("optimizer.*", "scheduler.*", "scaler.*", "rng_state*", "trainer_state.json", "training_args.bin", "projections.safetensors", "trackers.json", "running_losses_*", _IDENTITY)  # fmt: skip
_LOGS = ("*.log", "*tfevents*", "nohup.out")
_LOG_FOLDERS = {RUNS, "logs", "wandb", "mlruns"}
_PICKLES = ("*.pt", "*.pth", "*.pkl", "*.pickle", "pytorch_model*.bin")
# Whoever describes a model writes these, after its record.
_OF_PEOPLE = (README, CARD, RECORD, "LICENSE*", "NOTICE*", "CITATION*", f"{EVAL_RESULTS}/*", ".gitattributes")


@dataclass(frozen=True)
class Outgoing:
    """A file that goes.

    Attributes:
        name: its path in the repository.
        source: the file, or what is sent in its place.
    """

    name: str
    source: Path | bytes

    @property
    def size(self) -> int:
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size


@dataclass(frozen=True)
class LeftOut:
    """A file that stays, and why."""

    name: str
    size: int
    reason: str


@dataclass(frozen=True)
class Contents:
    """What of a directory goes, and what stays."""

    files: tuple[Outgoing, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def contents_of(directory: Path, *, replaced: Mapping[str, bytes], include: Iterable[str] = ()) -> Contents:
    """Decides of every file of a directory whether it goes.

    Checkpoints, the state and the logs of trainings, pickles, half files and hidden ones never go. Where there is a record, what it does
    not name goes only if it is asked for. The record that goes names files without this machine's paths, and none that stays.

    Args:
        replaced: by name, what goes in place of a file, or of one that is not there.
        include: patterns of further files.

    Raises:
        InvalidInput: a pattern that no file has.
        StageConflict: a file differs from the record.
    """
    recorded = set(read_record(directory).files) if (directory / RECORD).is_file() else None
    names = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    for pattern in include:
        if not any(fnmatch(name, pattern) for name in names):
            raise InvalidInput(
                "--include must match a file of the directory", got=repr(pattern), repair=f"look for it: ls {directory}"
            )
    stays = {name: _reason(name, recorded=recorded, include=tuple(include)) for name in names}
    going = [name for name in names if stays[name] is None]
    sent: dict[str, Path | bytes] = {name: directory / name for name in going}
    if RECORD in sent:
        sent[RECORD] = _record_to_send(directory, going)
    sent |= replaced
    return Contents(
        tuple(Outgoing(name, sent[name]) for name in sorted(sent)),
        tuple(
            LeftOut(name, (directory / name).stat().st_size, reason)
            for name, reason in stays.items()
            if reason is not None and name not in replaced
        ),
    )


def check_directory(directory: Path) -> None:
    """Refuses what is no finished model directory.

    Raises:
        InvalidInput: no config.json, or a directory that a stage is still making.
    """
    if not directory.is_dir() or not (directory / "config.json").is_file():
        raise InvalidInput(
            "push needs a model directory, with a config.json",
            got=str(directory),
            repair="give one that a verb made, or that save_pretrained wrote",
        )
    if directory.name.endswith(".partial") or (directory / _IDENTITY).is_file():
        raise InvalidInput(
            "push needs a directory that is finished",
            got=f"{directory}, which a stage is still making",
            repair="give the stage's command again: it goes on where it was, and names the directory at its end",
        )


def _reason(name: str, *, recorded: set[str] | None, include: tuple[str, ...]) -> str | None:
    """Why a file stays; None where it goes."""
    path = Path(name)
    *folders, file = path.parts
    if any(folder == CHECKPOINTS or _CHECKPOINT.fullmatch(folder) for folder in folders):
        return "a checkpoint of a training"
    if any(fnmatch(file, pattern) for pattern in _STATES):
        return "the state of a training"
    if _LOG_FOLDERS & set(folders) or any(fnmatch(file, pattern) for pattern in _LOGS):
        return "a log"
    if is_temporary(file):
        return "half a file"
    if any(fnmatch(file, pattern) for pattern in _PICKLES):
        return "a pickle, which runs code where it is opened"
    of_people = any(fnmatch(name, pattern) for pattern in _OF_PEOPLE)
    if any(part.startswith(".") for part in path.parts) and not of_people:
        return "hidden"
    asked = any(fnmatch(name, pattern) for pattern in include)
    if recorded is not None and name not in recorded and not of_people and not asked:
        return f"{RECORD} does not name it: --include sends it"
    return None


def _record_to_send(directory: Path, going: list[str]) -> bytes:
    """The record without this machine's paths, and without files that stay."""
    content = without_machine_paths(json.loads((directory / RECORD).read_text(encoding="utf-8")))
    content["files"] = {name: facts for name, facts in content["files"].items() if name in going}
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
