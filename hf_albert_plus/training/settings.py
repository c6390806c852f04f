"""How a model is trained, whatever it learns."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Literal, get_args

from ..errors import InvalidInput, check_known, check_values, length_rule, seed_rule, suggest
from ..option import Option

Precision = Literal["auto", "fp32", "bf16"]
# What a training reports to, by transformers' names, each with the packages of which one must be installed.
TRACKERS = {"tensorboard": ("tensorboard", "tensorboardX"), "wandb": ("wandb",), "mlflow": ("mlflow",)}


def check_trackers(report_to: Sequence[str]) -> None:
    """Refuses what a training cannot report to here.

    Raises:
        InvalidInput: another name than those of `TRACKERS`, or one whose package is not installed.
    """
    for name in report_to:
        if name not in TRACKERS:
            raise InvalidInput(
                f"--report-to must be one of {', '.join(TRACKERS)}",
                got=repr(name),
                repair=suggest(name, list(TRACKERS)),
            )
        packages = TRACKERS[name]
        if not any(find_spec(package) for package in packages):
            raise InvalidInput(
                f"--report-to {name} needs the package {' or '.join(packages)}",
                got="no such package",
                repair=f"install it: pip install {packages[0]}",
            )


# Far above what anybody trains: beyond them a number is a slip, and computing with it fails later.
_MOST_EPOCHS, _LARGEST_BATCH = 1_000_000, 1 << 24


def check_rates(settings: object, *, epochs: str, learning_rate: str) -> None:
    """Raises where a field of passes or one of rates, of these names, cannot be trained with; None is somebody else's choice."""
    passes, rate = getattr(settings, epochs), getattr(settings, learning_rate)
    check_values(
        settings,
        (epochs, passes is None or 0 < passes <= _MOST_EPOCHS, f"above 0 and at most {_MOST_EPOCHS:,}", "1"),
        (learning_rate, rate is None or 0 < rate < 1, "between 0 and 1", "5e-5"),
    )


@dataclass(frozen=True)
class TrainSettings:
    """How a model is trained: by AdamW, with linear warm-up and decay. Fractions of an epoch are fine."""

    epochs: Annotated[float, Option("Passes over the data. Default: the task's own.", of_task=True)]
    batch_size: Annotated[int, Option("Examples a step, over all processes. Default: the task's own.", of_task=True)]
    learning_rate: Annotated[float, Option("Peak learning rate of AdamW.")] = 5e-5
    warmup: Annotated[float, Option("Share of the steps with a rising learning rate.")] = 0.06
    weight_decay: Annotated[float, Option("Weight decay, but for biases and norms.")] = 0.01
    max_length: Annotated[
        int,
        Option("Longest input in tokens; the rest is cut. Default: as the model was trained, or 128.", of_task=True),
    ] = 128
    seed: Annotated[int, Option("Seed of weights, order and dropout.")] = 42
    precision: Annotated[
        Precision, Option("What training multiplies in: auto takes bf16 where the hardware multiplies it natively.")
    ] = "auto"
    report_to: Annotated[
        tuple[str, ...],
        Option(
            "Draw the losses in tensorboard (files in OUT/runs), wandb or mlflow; repeat for several. Default: nowhere."
        ),
    ] = ()

    def __post_init__(self) -> None:
        check_trackers(self.report_to)
        check_rates(self, epochs="epochs", learning_rate="learning_rate")
        check_values(
            self,
            ("batch_size", 1 <= self.batch_size <= _LARGEST_BATCH, f"at least 1 and at most {_LARGEST_BATCH:,}", "32"),
            ("warmup", 0 <= self.warmup < 1, "a share from 0 up to, not including, 1", "0.06"),
            ("weight_decay", 0 <= self.weight_decay < 1, "from 0 up to, not including, 1", "0.01"),
            length_rule(self.max_length),
            seed_rule(self.seed),
            ("precision", self.precision in ("auto", "fp32", "bf16"), "auto, fp32 or bf16", "auto"),
        )

    def describe(self) -> dict[str, Any]:
        """All that decides what comes out, which those who watch do not."""
        return {name: value for name, value in asdict(self).items() if name != "report_to"}


Schedule = Literal["cubic", "one-shot"]


@dataclass(frozen=True)
class ZeroSettings(TrainSettings):
    """How many weights become zero while a model is trained, and when."""

    sparsity: Annotated[float, Option("Share of every matrix that becomes zero.")] = 0.0
    schedule: Annotated[
        Schedule, Option("cubic: more and more zeros over the ramp; one-shot: all before the first step.")
    ] = "cubic"
    ramp: Annotated[float, Option("Share of the steps over which cubic gets to its zeros.")] = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known(self, schedule=get_args(Schedule))
        check_values(
            self,
            ("sparsity", 0 <= self.sparsity < 1, "a share from 0 up to, not including, 1", "0.5"),
            ("ramp", 0 < self.ramp <= 1, "a share above 0, at most 1", "0.5"),
        )


def trains_in_bf16(precision: Precision) -> bool:
    """Whether training autocasts to bf16 here."""
    from ..machine import multiplies_bf16  # opens torch

    return precision == "bf16" or (precision == "auto" and multiplies_bf16())
