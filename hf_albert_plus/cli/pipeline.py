"""The main job as a chain of stages. Each is skipped if it is done, so the same command resumes where it stopped."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints import load_config
from ..distillation import (
    DEFAULT,
    DistilSettings,
    Layers,
    StudentSettings,
    distill,
    get_method,
    student_architecture,
)
from ..distillation.checks import check_phase, check_words
from ..errors import InvalidInput, suggest
from ..files import write_json
from ..finetune import finetune, fits_positions
from ..glue import Task, data_parent, get_task, load_split
from ..records import Record, parent, run_stage
from ..training import Precision, TrainSettings
from .console import notes, printable

if TYPE_CHECKING:
    from hf_albert_plus.eval.table import Table
    from hf_albert_plus.eval.targets import Target

STAGES = ("data", "pretrain", "finetune", "distill", "export", "eval", "bench", "report")
ROLES = ("teacher", "student")
# What the table has beside torch.
EXPORTED = ("onnx", "onnx-int8")


@dataclass(frozen=True)
class RunSettings:
    """Choices of a run; None takes the task's own default."""

    method: str = DEFAULT
    values: tuple[tuple[str, Any], ...] = ()
    student: str = "half"
    overrides: tuple[tuple[str, Any], ...] = ()
    teacher_epochs: float | None = None
    student_epochs: float | None = None
    batch_size: int | None = None
    learning_rate: float = 5e-5
    student_learning_rate: float | None = None
    max_length: int = 128
    shapes: str = "1x16,8x128"
    bench_seconds: float = 3.0
    precision: Precision = "auto"
    seed: int = 42

    def __post_init__(self) -> None:
        from hf_albert_plus.eval.settings import BenchSettings
        from hf_albert_plus.eval.shapes import parse_shapes

        BenchSettings(seconds=self.bench_seconds)
        parse_shapes(self.shapes)

    @property
    def architecture(self) -> StudentSettings:
        return StudentSettings(self.student, self.overrides)

    def training(self, task: Task) -> TrainSettings:
        """Of a teacher; a student has its method's own epochs and rate."""
        return TrainSettings(
            epochs=task.epochs if self.teacher_epochs is None else self.teacher_epochs,
            batch_size=task.batch_size if self.batch_size is None else self.batch_size,
            learning_rate=self.learning_rate,
            max_length=self.max_length,
            seed=self.seed,
            precision=self.precision,
        )

    def distillation(self, task: Task, *, encoder: str) -> DistilSettings:
        """How a student learns. By the default method it sees the data twice as often as its teacher: it starts further
        from its goal. The pretrained encoder teaches what a method does on text."""
        epochs = self.student_epochs
        if epochs is None and self.method == DEFAULT:
            epochs = 2 * self.training(task).epochs
        settings = DistilSettings(self.method, self.architecture, self.values, epochs, self.student_learning_rate)
        phases = settings.row.phases(Layers(student=2, teacher=2), settings.settings)
        on_text = any(phase.rows == "text" for phase in phases)
        return replace(settings, general_teacher=encoder if on_text else None)


class Steps:
    """Announces each stage with its number and says how it ended."""

    def __init__(self, total: int):
        self.total, self.number = total, 0

    def run(self, what: str, stage: Callable[[], Record]) -> Record:
        self.number += 1
        notes.print(f"[bold]\\[{self.number}/{self.total}][/] {printable(what)}")
        start = time.perf_counter()
        record = stage()
        notes.print(
            f"  done before: {printable(record.finished)}"
            if record.reused
            else f"  {time.perf_counter() - start:.1f} s"
        )
        return record


def run_pipeline(
    teacher: str,
    *,
    data: str,
    tasks: list[str],
    out: Path,
    settings: RunSettings,
    threads: int | None = None,
    data_name: str | None = None,
    stop_after: str | None = None,
    steps: Steps | None = None,
) -> "Table | None":
    """Fine-tunes, distils, exports, scores, times and reports.

    Args:
        teacher: directory or Hub id of a pretrained encoder.
        out: gets `trained/ROLE-TASK`, `models/ROLE-TASK` (with their exports), `scores/TASK`, `latency` and `report`.
        stop_after: the last of `STAGES` to run.

    Returns:
        The speedup table, or None if stopped before it.
    """
    chosen = [get_task(name) for name in tasks]
    _check_before_training(teacher, data=data, tasks=chosen, settings=settings)
    last = stage_index(stop_after)
    run = _Run(
        teacher=teacher,
        data=data,
        out=out,
        settings=settings,
        threads=threads,
        steps=steps or Steps(5 * len(chosen) + 2),
    )
    for task in chosen:
        for stage in (run.finetune, run.distill, run.export, run.score)[: max(0, last - 1)]:
            stage(task)
    if last >= STAGES.index("bench"):
        run.bench(chosen[0])
    if last < STAGES.index("report"):
        return None
    return run.report(chosen, data_name=data_name or (Path(data).resolve().name if Path(data).is_dir() else data))


def _check_before_training(teacher: str, *, data: str, tasks: list[Task], settings: RunSettings) -> None:
    """Finds what a later stage would refuse, before hours of training."""
    from hf_albert_plus.eval.shapes import check_shapes, parse_shapes

    source = load_config(teacher, option="--teacher")
    student = student_architecture(source, settings.architecture)
    configs = {"the teacher": source, "the student": student}
    row = get_method(settings.method)
    if row.towers or row.own_vocabulary:
        raise InvalidInput(
            "run makes classifiers of the teacher's vocabulary",
            got=f"--method {row.name}",
            repair=f"use albert-plus distill --method {row.name}",
        )
    for name, config in configs.items():
        fits_positions(config, settings.max_length)
        check_shapes(parse_shapes(settings.shapes), config, name=name)
    for task in tasks:
        settings.training(task)
        how = settings.distillation(task, encoder=teacher)
        for phase in how.chosen(Layers(student.num_hidden_layers, source.num_hidden_layers)):
            check_words(phase, teacher, source)
            if phase.of_teacher:
                check_phase(phase, student=student, teacher=source)
        for split in ("train", *task.rows.values()):
            load_split(data, task, split)


def stage_index(name: str | None) -> int:
    """Place of a stage in `STAGES`; the last one for None.

    Raises:
        InvalidInput: no such stage.
    """
    if name is None:
        return len(STAGES) - 1
    if name not in STAGES:
        raise InvalidInput("--stop-after must be a stage", got=repr(name), repair=suggest(name, list(STAGES)))
    return STAGES.index(name)


@dataclass(frozen=True)
class _Run:
    """One run: where it reads and writes, and its stages."""

    teacher: str
    data: str
    out: Path
    settings: RunSettings
    threads: int | None
    steps: Steps

    def trained(self, role: str, task: Task) -> Path:
        return self.out / "trained" / f"{role}-{task.name}"

    def model(self, role: str, task: Task) -> Path:
        return self.out / "models" / f"{role}-{task.name}"

    def targets(self, task: Task) -> "list[Target]":
        from hf_albert_plus.eval.targets import Target

        return [Target(role, self.model(role, task), runtime) for role in ROLES for runtime in ("torch", *EXPORTED)]

    def finetune(self, task: Task) -> None:
        def stage() -> Record:
            return finetune(
                self.teacher,
                data=self.data,
                task=task,
                output=self.trained("teacher", task),
                settings=self.settings.training(task),
            )

        self.steps.run(f"fine-tune the teacher on {task.name}", stage)

    def distill(self, task: Task) -> None:
        def stage() -> Record:
            return distill(
                str(self.trained("teacher", task)),
                data=self.data,
                task=task,
                output=self.trained("student", task),
                settings=self.settings.training(task),
                method=self.settings.distillation(task, encoder=self.teacher),
            )

        self.steps.run(f"distil the student on {task.name}", stage)

    def export(self, task: Task) -> None:
        from hf_albert_plus.export.stage import export

        for role in ROLES:
            stage = partial(export, self.trained(role, task), to=list(EXPORTED), output=self.model(role, task))
            self.steps.run(f"export the {role} for {task.name}", stage)

    def score(self, task: Task) -> None:
        from hf_albert_plus.eval.environment import FORMAT
        from hf_albert_plus.eval.score import score_targets

        def work(directory: Path) -> dict[str, Any]:
            document = score_targets(
                self.targets(task),
                data=self.data,
                task=task,
                max_length=self.settings.max_length,
                threads=self.threads,
            )
            write_json(directory / "scores.json", document)
            return {f"{row['label']} {row['task']}": row["metrics"] for row in document["rows"]}

        def stage() -> Record:
            parents = {role: parent(self.model(role, task)) for role in ROLES}
            return run_stage(
                "eval",
                self.out / "scores" / task.name,
                settings={"task": task.name, "max_length": self.settings.max_length, "format": FORMAT},
                parents={**parents, "data": data_parent(self.data, task)},
                work=work,
            )

        self.steps.run(f"score on {task.name}", stage)

    def bench(self, task: Task) -> None:
        """Times the models of one task: those of the others differ in their classifier alone."""
        from hf_albert_plus.eval.environment import FORMAT
        from hf_albert_plus.eval.latency import bench_targets
        from hf_albert_plus.eval.shapes import parse_shapes

        targets = self.targets(task)

        def work(directory: Path) -> dict[str, Any]:
            document = bench_targets(
                targets,
                shapes=parse_shapes(self.settings.shapes),
                baseline=targets[0],
                seconds=self.settings.bench_seconds,
                threads=self.threads,
            )
            write_json(directory / "latency.json", document)
            return {
                row["label"]: {shape: cell["p50_ms"] for shape, cell in row["loads"].items()}
                for row in document["rows"]
            }

        def stage() -> Record:
            return run_stage(
                "bench",
                self.out / "latency",
                settings={
                    "shapes": self.settings.shapes,
                    "seconds": self.settings.bench_seconds,
                    "threads": self.threads,
                    "format": FORMAT,
                },
                parents={role: parent(self.model(role, task)) for role in ROLES},
                work=work,
            )

        self.steps.run("time", stage)

    def report(self, tasks: list[Task], *, data_name: str) -> "Table":
        from hf_albert_plus.eval.cards import read_facts, write_card
        from hf_albert_plus.eval.documents import read_latency, read_scores
        from hf_albert_plus.eval.report import report
        from hf_albert_plus.eval.table import build_table

        scores = [self.out / "scores" / task.name / "scores.json" for task in tasks]
        latency = self.out / "latency" / "latency.json"
        output = self.out / "report"
        stage = partial(report, scores, bench=latency, output=output, title="Speedup table", data_name=data_name)
        self.steps.run("report", stage)
        for task in tasks:
            for role in ROLES:
                write_card(self.model(role, task), read_facts(output / "cards" / f"{role}-{task.name}.json"))
        return build_table([read_scores(path) for path in scores], read_latency(latency))


__all__ = ["STAGES", "RunSettings", "Steps", "run_pipeline", "stage_index"]
