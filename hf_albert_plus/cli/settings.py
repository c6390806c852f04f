"""What the main job is run with."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from ..conversion.settings import Pooling
from ..distillation.settings import DEFAULT, DistilSettings, StudentSettings
from ..option import Option, PythonOnly
from ..search.settings import CompressSettings, parse_time
from ..tasks.task import Task
from ..training.settings import Precision, TrainSettings, check_rates, check_trackers

_BY_SET = PythonOnly("--set has them")


@dataclass(frozen=True)
class RunSettings:
    """Choices of a run; None takes the task's own default."""

    method: Annotated[str, Option("How the student learns: a name of distill --list-methods.")] = DEFAULT
    values: Annotated[tuple[tuple[str, Any], ...], _BY_SET] = ()
    student: Annotated[
        str,
        Option(
            "auto searches for the fastest that loses at most --max-drop (albert-plus compress). third, half, a variant or a directory "
            "is distilled as it is, and so is auto where --method (but kd-hidden), --set, --student-epochs or --student-learning-rate say how."
        ),
    ] = StudentSettings.student
    max_drop: Annotated[
        float | None,
        Option(
            "Points that the student of a search may lose, with 90 % confidence. Default: 1, and of an error a twentieth of the teacher's."
        ),
    ] = None
    time_budget: Annotated[
        float, Option("Longest time of a search, such as 60m.", parse=parse_time, default="60m", metavar="TIME")
    ] = CompressSettings.time_budget
    overrides: Annotated[tuple[tuple[str, Any], ...], _BY_SET] = ()
    pooling: Annotated[Pooling | None, PythonOnly("--pooling has it")] = None
    head_learning_rate: Annotated[float | None, PythonOnly("--head-learning-rate has it")] = None
    teacher_epochs: Annotated[float | None, Option("The teacher's passes over the data. Default: the task's own.")] = (
        None
    )
    student_epochs: Annotated[
        float | None,
        Option("The student's passes over the data. Default: the method's; twice the teacher's for kd-hidden."),
    ] = None
    batch_size: Annotated[int | None, Option("Examples a step. Default: the task's own.")] = None
    learning_rate: Annotated[float, Option("Peak learning rate of the teacher.")] = TrainSettings.learning_rate
    student_learning_rate: Annotated[float | None, Option("Default: the method's.")] = None
    max_length: Annotated[
        int,
        Option("Longest input in tokens; the rest is cut. Default: as the teacher was trained, or 128.", of_task=True),
    ] = TrainSettings.max_length
    floor: Annotated[
        bool | None, Option("Add classifiers without an encoder to the table. Default: for your own data.")
    ] = None
    shapes: Annotated[str, Option("Shapes to time, BATCHxLENGTH.")] = "1x16,8x128"
    bench_seconds: Annotated[float, Option("Least measured time for each row and shape.", name="--seconds")] = 3.0
    precision: Annotated[
        Precision, Option("What training multiplies in: auto takes bf16 where the hardware multiplies it natively.")
    ] = TrainSettings.precision
    seed: Annotated[int, Option("Seed of weights, order and dropout.")] = TrainSettings.seed
    report_to: Annotated[
        tuple[str, ...],
        Option(
            "Draw the losses of teacher and student, and of the candidates of a search, in tensorboard, wandb or mlflow; repeat for several. "
            "Default: nowhere."
        ),
    ] = ()

    def __post_init__(self) -> None:
        check_trackers(self.report_to)
        from hf_albert_plus.eval.settings import BenchSettings
        from hf_albert_plus.eval.targets import parse_shapes

        check_rates(self, epochs="teacher_epochs", learning_rate="learning_rate")
        check_rates(self, epochs="student_epochs", learning_rate="student_learning_rate")
        BenchSettings(seconds=self.bench_seconds)
        parse_shapes(self.shapes)
        self.search()

    @property
    def searches(self) -> bool:
        """Whether nothing is said of the student or of how it learns."""
        said = (self.values, self.overrides, self.student_epochs, self.student_learning_rate)
        return self.student == StudentSettings.student and self.method == DEFAULT and not any(said)

    def search(self) -> CompressSettings:
        """How a student is searched for. Its graph has no exits, so that the table has it in every precision."""
        return CompressSettings(
            max_drop=self.max_drop,
            time_budget=self.time_budget,
            exits=False,
            max_length=self.max_length,
            seed=self.seed,
            precision=self.precision,
            report_to=self.report_to,
        )

    def architecture(self, task: Task) -> StudentSettings:
        return StudentSettings(self.student, self.overrides).of_task(task)

    def has_floor(self, task: Task) -> bool:
        """Whether a task's table has a floor."""
        return not (task.benchmark or task.has_spans) if self.floor is None else self.floor

    def training(self, task: Task) -> TrainSettings:
        """Of a teacher; a student has its method's own epochs and rate."""
        return TrainSettings(
            epochs=task.epochs if self.teacher_epochs is None else self.teacher_epochs,
            batch_size=task.batch_size if self.batch_size is None else self.batch_size,
            learning_rate=self.learning_rate,
            max_length=self.max_length,
            seed=self.seed,
            precision=self.precision,
            report_to=self.report_to,
        )

    def distillation(self, task: Task, *, encoder: str) -> DistilSettings:
        """How a student learns. By the default method it sees the data twice as often as its teacher: it starts further
        from its goal. The pretrained encoder teaches what a method does on text."""
        epochs = self.student_epochs
        if epochs is None and self.method == DEFAULT:
            epochs = 2 * self.training(task).epochs
        settings = DistilSettings(self.method, self.architecture(task), self.values, epochs, self.student_learning_rate)
        from ..distillation.phases import Layers  # opens torch

        phases = settings.row.phases(Layers(student=2, teacher=2), settings.settings)
        on_text = any(phase.rows == "text" for phase in phases)
        return replace(settings, general_teacher=encoder if on_text else None)
