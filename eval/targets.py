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
    name, rest = _named(text)
    directory, named = directory_and_runtime(rest)
    runtime = named or "torch"
    engine_file(directory, runtime)
    return Target(name=name or Path(directory).resolve().name, directory=Path(directory), runtime=runtime)


def directory_and_runtime(text: str) -> tuple[str, str | None]:
    """`DIR:RUNTIME` -> DIR and RUNTIME; None where there is none. A path may hold colons itself."""
    head, colon, tail = text.rpartition(":")
    is_path = not colon or not head or Path(text).is_dir() or "/" in tail or "\\" in tail
    return (text, None) if is_path else (head, tail)


def _named(text: str) -> tuple[str, str]:
    """`NAME=REST` -> NAME and REST; a path may hold = itself."""
    before, equals, after = text.partition("=")
    named = equals and "/" not in before and "\\" not in before and not Path(text).exists()
    return (before, after) if named else ("", text)


def parse_targets(texts: list[str], *, runs: bool = False) -> list[Target]:
    """Targets under labels that tell them apart.

    Args:
        runs: whether several directories under one given name are runs of one row, such as other seeds.

    Raises:
        InvalidInput: two targets with the same label.
    """
    targets = [parse_target(text) for text in texts]
    for target in targets:
        same = [(other, text) for other, text in zip(targets, texts, strict=True) if other.label == target.label]
        others = len({other.directory.resolve() for other, _ in same}) == len(same)
        if len(same) > 1 and not (runs and others and all(_named(text)[0] for _, text in same)):
            raise InvalidInput(
                "targets must have different labels",
                got=f"{target.label!r} twice",
                repair="name them: NAME=DIR:RUNTIME",
            )
    return targets


__all__ = ["RUNTIMES", "Target", "directory_and_runtime", "parse_target", "parse_targets"]
