"""What a directory holds to serve: a model, several models, or versions of each."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.engines import weight_files
from hf_albert_plus.export.runtimes import RUNTIMES, get_runtime

# What is run where no engine is named: the first whose file is there.
_PREFERRED = ("onnx-int8", "onnx", "torch")
# Of files that open a model, besides what its engine runs.
_OF_MODELS = {".json", ".model", ".safetensors", ".txt"}


@dataclass(frozen=True)
class Served:
    """A version of a model.

    Attributes:
        content: changes when what lies in the directory does.
    """

    name: str
    version: int
    directory: Path
    runtime: str
    content: str

    @property
    def application(self) -> str:
        """What it is called among Ray's applications."""
        return f"{self.name}-{self.version}-{self.content[:12]}"

    def check_files(self) -> None:
        """
        Raises:
            InvalidInput: a file of its engine is missing or cannot be read.
        """
        for file in weight_files(self.directory / RUNTIMES[self.runtime].file):
            try:
                with file.open("rb"):
                    continue
            except OSError as error:
                raise InvalidInput(
                    f"{self.directory} must hold {file.relative_to(self.directory)} to be run by {self.runtime}",
                    got="no such file" if isinstance(error, FileNotFoundError) else error.strerror,
                    repair=f"make it: {RUNTIMES[self.runtime].command(self.directory)}",
                ) from None


def scan(directory: Path, *, runtime: str | None = None) -> list[Served]:
    """What `find` finds, every engine's files there.

    Raises:
        InvalidInput: nothing to serve, or an engine whose file is missing.
    """
    found = find(directory, runtime=runtime)
    for model in found:
        model.check_files()
    return found


def find(directory: Path, *, runtime: str | None = None) -> list[Served]:
    """A model directory by its own name, or those inside it: `NAME/config.json`, and `NAME/VERSION/config.json` with whole numbers as
    versions.

    Args:
        runtime: engine of all of them; by default int8 where there is such an export, then fp32, then torch.

    Raises:
        InvalidInput: nothing to serve.
    """
    if not directory.is_dir():
        raise InvalidInput("what is served must be a directory", got=str(directory), repair="check the path")
    if runtime is not None:
        get_runtime(runtime)
    found = [_served(path, name, version, runtime) for path, name, version in _candidates(directory)]
    if not found:
        raise InvalidInput(
            "a directory to serve must be a model, or hold some as NAME/config.json or NAME/VERSION/config.json",
            got=f"{directory} without",
            repair="make one: albert-plus export DIR --to onnx-int8 --out MODELS/NAME",
        )
    return found


def _candidates(directory: Path) -> list[tuple[Path, str, int]]:
    if _is_model(directory):
        return [(directory, directory.resolve().name, 1)]
    found = []
    for path in sorted(directory.iterdir()):
        if path.name.startswith(".") or path.name.endswith(".partial"):
            continue
        if _is_model(path):
            found.append((path, path.name, 1))
        elif path.is_dir():
            found += [
                (version, path.name, int(version.name))
                for version in sorted(path.iterdir())
                if version.name.isascii() and version.name.isdigit() and _is_model(version)
            ]
    return found


def _is_model(path: Path) -> bool:
    return (path / "config.json").is_file()


def _served(path: Path, name: str, version: int, runtime: str | None) -> Served:
    chosen = runtime or next((one for one in _PREFERRED if (path / RUNTIMES[one].file).is_file()), _PREFERRED[-1])
    opening = {file for file in path.iterdir() if file.suffix in _OF_MODELS}
    digest = hashlib.sha256(chosen.encode())
    for file in sorted(opening.union(weight_files(path / RUNTIMES[chosen].file))):
        if file.is_file():
            facts = file.stat()
            digest.update(f"{file.resolve()} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return Served(name, version, path.resolve(), chosen, digest.hexdigest())


__all__ = ["Served", "find", "scan"]
