"""Targets: what is scored and timed, written `DIR`, `DIR:RUNTIME` or `NAME=DIR:RUNTIME`."""

from dataclasses import dataclass
from pathlib import Path

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.engines import Engine, engine_file
from hf_albert_plus.export.runtimes import RUNTIMES


@dataclass(frozen=True)
class Target:
    """A model directory on a runtime, under the name its rows carry."""

    name: str
    directory: Path
    runtime: str

    @property
    def label(self) -> str:
        """As in a table's first column: `student onnx int8`."""
        return f"{self.name} {RUNTIMES[self.runtime].label}"

    def load(self, *, threads: int | None = None) -> Engine:
        return Engine.load(self.directory, self.runtime, threads=threads)


def parse_target(text: str) -> Target:
    """`NAME=DIR:RUNTIME` -> a target. NAME is the directory's own name and RUNTIME torch where left out.

    Raises:
        InvalidInput: no such directory or runtime, or the directory lacks the runtime's file.
    """
    before, equals, after = text.partition("=")
    named = equals and "/" not in before and "\\" not in before and not Path(text).exists()
    name, rest = (before, after) if named else ("", text)
    head, colon, tail = rest.rpartition(":")
    directory, runtime = (head, tail) if colon and head and not Path(rest).is_dir() else (rest, "torch")
    if "/" in runtime or "\\" in runtime:
        directory, runtime = rest, "torch"
    engine_file(directory, runtime)
    return Target(name=name or Path(directory).resolve().name, directory=Path(directory), runtime=runtime)


def parse_targets(texts: list[str]) -> list[Target]:
    """Targets under labels that tell them apart.

    Raises:
        InvalidInput: two targets with the same label.
    """
    targets = [parse_target(text) for text in texts]
    labels = [target.label for target in targets]
    for label in labels:
        if labels.count(label) > 1:
            raise InvalidInput(
                "targets must have different labels", got=f"{label!r} twice", repair="name them: NAME=DIR:RUNTIME"
            )
    return targets


__all__ = ["RUNTIMES", "Target", "parse_target", "parse_targets"]
