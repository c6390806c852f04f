"""The files that a runtime runs in a model directory: which they are, and whether they are those that the record there describes."""

from pathlib import Path

from ..errors import InvalidInput
from ..records.files import SCHEME, file_sha256
from ..records.record import RECORD, open_record
from .artefacts import Runtime, get_runtime


def engine_file(directory: str | Path, runtime: str) -> Path:
    """The file that a runtime runs in a model directory, there and readable.

    Raises:
        InvalidInput: no such runtime, directory or file.
    """
    chosen = get_runtime(runtime)
    if not Path(directory).is_dir():
        raise InvalidInput("a target must be a model directory", got=str(directory), repair="check the path")
    path = Path(directory) / chosen.file
    if not path.is_file():
        repair = f"make it: {chosen.command(directory)}"
        raise InvalidInput(f"the target {directory}:{runtime} needs {path}", got="no such file", repair=repair)
    return path


def weight_files(path: Path) -> list[Path]:
    """A runtime's file and those that belong to it: OpenVINO keeps its weights beside the graph."""
    return [path, path.with_suffix(".bin")] if path.suffix == ".xml" else [path]


def check_hashes(directory: Path, runtime: Runtime) -> None:
    """Compares what a runtime runs with the hashes in the directory's record.json, where it has one.

    Raises:
        InvalidInput: other content, or none.
    """
    if not (directory / RECORD).is_file():
        return
    recorded = open_record(directory).files
    others = [directory / SCHEME] if runtime.simulates_bits else []
    for path in (*weight_files(directory / runtime.file), *others):
        name = path.relative_to(directory).as_posix()
        if name in recorded and (not path.is_file() or file_sha256(path) != recorded[name]["sha256"]):
            raise InvalidInput(
                f"{path} must be the file that {directory / RECORD} describes",
                got="other content" if path.is_file() else "no such file",
                repair="export it again, or load with verify=False if you changed it on purpose",
            )


def model_hash(directory: str | Path, runtime: str) -> str:
    """SHA-256 of the file that a target runs: what joins its scores with its timings."""
    path = engine_file(directory, runtime)
    return file_sha256(weight_files(path)[-1])
