"""The settings of an export. The module imports no library: the command line builds its options from it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hf_albert_plus.conversion.settings import SentencePooling
from hf_albert_plus.engines.artefacts import ARTEFACTS, TYPED_GRAPHS, names_in_words
from hf_albert_plus.errors import InvalidInput, shown
from hf_albert_plus.option import Option, PythonOnly
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.task import Task

if TYPE_CHECKING:
    from hf_albert_plus.engines.engine import Engine

# The points that an engine scores on the settings' task.
Scorer = Callable[["Engine"], float]

EXIT_FORMS = ("auto", "loop", "segments")
# Choices of an input with three axes, at the smallest, best and largest shape.
CHOICES = (1, 4, 8)


@dataclass(frozen=True)
class Profile:
    """Shapes, batch and length, that a TensorRT engine takes, and the one that it is fastest at."""

    minimum: tuple[int, int] = (1, 1)
    optimum: tuple[int, int] = (8, 128)
    maximum: tuple[int, int] = (32, 512)

    def __str__(self) -> str:
        """As `parse_profile` reads it."""
        return ",".join(f"{batch}x{length}" for batch, length in (self.minimum, self.optimum, self.maximum))

    def fitted(self, longest: int) -> "Profile":
        """The profile within a model's positions."""
        shapes = ((batch, min(length, longest)) for batch, length in (self.minimum, self.optimum, self.maximum))
        return Profile(*shapes)

    def shapes(self, rank: int = 2) -> list[tuple[int, ...]]:
        """Minimum, optimum and maximum with the axis of choices, where inputs have one."""
        corners = (self.minimum, self.optimum, self.maximum)
        return [
            (batch, length) if rank == 2 else (batch, choices, length)
            for (batch, length), choices in zip(corners, CHOICES, strict=True)
        ]

    def allows(self, shape: Any) -> bool:
        """Whether an engine with this profile takes a shape."""
        low, _, high = self.shapes(len(shape))
        return all(least <= size <= most for least, size, most in zip(low, shape, high, strict=True))


def parse_profile(text: str) -> Profile:
    """`"1x1,8x128,32x512"` -> the profile with these minimum, optimum and maximum shapes.

    Raises:
        InvalidInput: another form, or shapes that do not grow.
    """
    parts = [part.strip().split("x") for part in text.split(",")]
    good = len(parts) == 3 and all(
        len(part) == 2 and all(n.isdecimal() and len(n) < 10 and int(n) > 0 for n in part) for part in parts
    )
    corners = [(int(part[0]), int(part[1])) for part in parts] if good else []
    if not good or any(a > b for low, high in pairwise(corners) for a, b in zip(low, high, strict=True)):
        raise InvalidInput(
            "--profile must be the smallest, best and largest BATCHxLENGTH, none smaller than the one before",
            got=shown(text),
            repair="use --profile 1x1,8x128,32x512",
        )
    return Profile(*corners)


@dataclass(frozen=True)
class ExportSettings:
    """What decides the files of an export besides the model."""

    data: Annotated[
        str | None, PythonOnly("a verb has options for data; their examples calibrate, their score judges int8")
    ] = None
    task: Annotated["str | Task | None", PythonOnly("a verb chooses it for --data")] = None
    texts: Annotated[
        Path | None, Option("Calibrate on this file instead: one text a line, with a tab between the two of a pair.")
    ] = None
    examples: Annotated[int, Option("Examples to calibrate with.")] = 128
    keep_fp32: Annotated[
        tuple[str, ...],
        Option("Leave weight products with such names in fp32, as '*.layers.11.*'; repeat for several."),
    ] = ()
    max_drop: Annotated[
        float | None,
        Option("Points of the score that int8 may lose; finds the fewest products to keep in fp32."),
    ] = None
    pooling: Annotated[SentencePooling | None, PythonOnly("--pooling has it, of a text's vector")] = None
    normalize: Annotated[bool, Option("With --pooling: divide each text's vector by its length.")] = False
    exit_form: Annotated[str, Option("Graph of exits: loop, segments, or auto for the faster one.")] = "auto"
    tensorrt_from: Annotated[str, Option(f"Graph that TensorRT builds from: {names_in_words(TYPED_GRAPHS)}.")] = (
        "onnx-fp16"
    )
    profile: Annotated[
        Profile, Option("Smallest, best and largest BATCHxLENGTH of a TensorRT engine.", parse=parse_profile)
    ] = field(default_factory=Profile)
    timing_cache: Annotated[Path | None, Option("File in which TensorRT keeps what it timed.")] = None
    threads: Annotated[
        int | None,
        PythonOnly("a verb's --threads are the whole process's; these are of the engines that check and score"),
    ] = None

    def deciding(self, wanted: list[str]) -> dict[str, Any]:
        """The settings that decide the files of these exports, for the record."""
        settings: dict[str, Any] = {}
        if self.task is not None or self.texts is not None:
            settings["examples"] = self.examples
        if self.task is not None:
            settings |= get_task(self.task).settings
        if self.keep_fp32:
            settings["keep_fp32"] = list(self.keep_fp32)
        if self.max_drop is not None:
            settings["max_drop"] = self.max_drop
        if self.pooling is not None:
            settings |= {"pooling": self.pooling, "normalize": self.normalize}
        if any(ARTEFACTS[name].has_exits for name in wanted):
            settings["exit_form"] = self.exit_form
        if "tensorrt" in wanted:
            settings |= {"tensorrt_from": self.tensorrt_from, "profile": asdict(self.profile)}
        return settings
