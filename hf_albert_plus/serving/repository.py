"""A directory of models to serve: one model, several of them, or versions of each."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ..engines.artefacts import RUNTIMES, get_runtime
from ..engines.runtime_files import weight_files
from ..errors import InvalidInput

# What is run where no engine is named: the first whose file is there.
_PREFERRED = ("onnx-int8", "onnx-int8-exits", "onnx", "torch")
# Of files that open a model, besides what its engine runs.
_OF_MODELS = {".json", ".model", ".safetensors", ".txt"}


@dataclass(frozen=True)
class ServedModel:
    """A version of a model that a directory holds.

    Attributes:
        content: as `content_of` gives it.
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
        """Checks that the files of its engine can be read.

        Raises:
            InvalidInput: one is missing or cannot be read.
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


def scan(directory: Path, *, runtime: str | None = None) -> list[ServedModel]:
    """The models that `find` finds, with their engines' files checked.

    Raises:
        InvalidInput: nothing to serve, or an engine whose file is missing.
    """
    models = find(directory, runtime=runtime)
    for model in models:
        model.check_files()
    return models


def find(directory: Path, *, runtime: str | None = None) -> list[ServedModel]:
    """The model of a directory under the directory's own name, or those inside it: `NAME/config.json`, and `NAME/VERSION/config.json`
    with whole numbers as versions.

    Args:
        runtime: engine of all of them; by default int8 where there is such an export, then int8 with exits, fp32, torch.

    Raises:
        InvalidInput: nothing to serve.
    """
    if not directory.is_dir():
        raise InvalidInput("what is served must be a directory", got=str(directory), repair="check the path")
    if runtime is not None:
        get_runtime(runtime)
    models = [_served(path, name, version, runtime) for path, name, version in _candidates(directory)]
    if not models:
        raise InvalidInput(
            "a directory to serve must be a model, or hold some as NAME/config.json or NAME/VERSION/config.json",
            got=f"{directory} without",
            repair="make one: albert-plus export DIR --to onnx-int8 --out MODELS/NAME",
        )
    return models


def content_of(directory: Path, runtime: str) -> str:
    """What lies in a model directory for a runtime, by place, size and time: it changes when a file there does. It reads none of them."""
    opening = {file for file in directory.iterdir() if file.suffix in _OF_MODELS}
    digest = hashlib.sha256(runtime.encode())
    for file in sorted(opening.union(weight_files(directory / RUNTIMES[runtime].file))):
        if file.is_file():
            facts = file.stat()
            digest.update(
                f"{file.resolve()} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns} {facts.st_mode}\n".encode()
            )
    return digest.hexdigest()


def _candidates(directory: Path) -> list[tuple[Path, str, int]]:
    if _is_model(directory):
        return [(directory, directory.resolve().name, 1)]
    candidates = []
    for path in sorted(directory.iterdir()):
        if path.name.startswith(".") or path.name.endswith(".partial"):
            continue
        if _is_model(path):
            candidates.append((path, path.name, 1))
        elif path.is_dir():
            candidates += [
                (version, path.name, int(version.name))
                for version in sorted(path.iterdir())
                if version.name.isascii() and version.name.isdigit() and _is_model(version)
            ]
    return candidates


def _is_model(path: Path) -> bool:
    return (path / "config.json").is_file()


def _served(path: Path, name: str, version: int, runtime: str | None) -> ServedModel:
    chosen = runtime or next((one for one in _PREFERRED if (path / RUNTIMES[one].file).is_file()), _PREFERRED[-1])
    return ServedModel(name, version, path.resolve(), chosen, content_of(path.resolve(), chosen))
