"""The main job as a chain of stages. Each is skipped if it is done, so the same command resumes where it stopped."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..checkpoints import check_label_names
from ..config_files import load_config
from ..conversion.families import CONVERTIBLE
from ..data_names import name_of_data
from ..distillation.checks import check_phase, check_words
from ..distillation.methods import get_method
from ..distillation.phases import layers_of
from ..distillation.stage import distill
from ..distillation.students import student_architecture
from ..errors import InvalidInput, suggest
from ..records.record import Record, parent, read_record
from ..records.stage import discard
from ..search.stage import picked_student, search
from ..tasks.glue import get_task
from ..tasks.rows import fits_positions
from ..tasks.splits import evaluated_splits, load_split
from ..tasks.task import Task, check_no_spans
from ..training.adoption import adopt, is_trained_for
from ..training.finetuning import finetune
from ..training.new_heads import head_rate
from .console import notes, printable
from .settings import RunSettings

if TYPE_CHECKING:
    from hf_albert_plus.eval.reporting.table import Table
    from hf_albert_plus.eval.targets import Target

STAGES = ("data", "pretrain", "finetune", "distill", "export", "eval", "bench", "report")
ROLES = ("teacher", "student")
# What the table has beside torch.
EXPORTED = ("onnx", "onnx-int8")


class StageCounter:
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
    tasks: Sequence[str | Task],
    out: Path,
    settings: RunSettings,
    threads: int | None = None,
    data_name: str | None = None,
    stop_after: str | None = None,
    steps: StageCounter | None = None,
) -> "Table | None":
    """Fine-tunes, distils, exports, scores, times and reports.

    Args:
        teacher: directory or Hub id of a pretrained encoder.
        out: gets `trained/ROLE-TASK`, `search/TASK` where the student is searched for, `models/ROLE-TASK` (with their exports), `scores/TASK`, `floor/TASK` where there is one, `latency` and
            `report`.
        stop_after: the last of `STAGES` to run.

    Returns:
        The speedup table, or None if stopped before it.
    """
    last = stage_index(stop_after)
    chosen = [get_task(name) for name in tasks]
    _check_before_training(teacher, data=data, tasks=chosen, settings=settings)
    floors = sum(settings.has_floor(task) for task in chosen)
    run = _Run(
        teacher=teacher,
        data=data,
        out=out,
        settings=settings,
        threads=threads,
        steps=steps or StageCounter(5 * len(chosen) + floors + 2),
        count=len(chosen),
    )
    for task in chosen:
        for stage in (run.finetune, run.distill, run.export, run.score)[: max(0, last - 1)]:
            stage(task)
        if last >= STAGES.index("eval") and settings.has_floor(task):
            run.floor(task)
    if last >= STAGES.index("bench"):
        run.bench(chosen)
    if last < STAGES.index("report"):
        return None
    return run.report(chosen, data_name=data_name or name_of_data(data))


def _check_before_training(teacher: str, *, data: str, tasks: list[Task], settings: RunSettings) -> None:
    """Finds what a later stage would refuse, before hours of training."""
    from hf_albert_plus.eval.targets import check_shapes, parse_shapes

    source = load_config(teacher, option="--teacher")
    students = {task.name: student_architecture(source, settings.architecture(task)) for task in tasks}
    configs = [("the teacher", source), *(("the student", student) for student in students.values())]
    row = get_method(settings.method)
    if row.towers or row.own_vocabulary:
        raise InvalidInput(
            "run makes classifiers of the teacher's vocabulary",
            got=f"--method {row.name}",
            repair=f"use albert-plus distill --method {row.name}",
        )
    for name, config in configs:
        fits_positions(config, settings.max_length)
        check_shapes(parse_shapes(settings.shapes), config, name=name)
    for task in tasks:
        settings.search().check_drop(task)
        if settings.floor:
            check_no_spans(task, what="--floor", repair="leave it out")
        training = settings.training(task)
        if is_trained_for(source, task, alone=len(tasks) == 1):
            check_label_names(source, task, option="--teacher", source=teacher)
            _refuse_head_options(teacher, settings)
        head_rate(task, chosen=settings.head_learning_rate, learning_rate=training.learning_rate, is_new=True)
        student, how = students[task.name], settings.distillation(task, encoder=teacher)
        for phase in how.chosen(layers_of(student, source)):
            check_words(phase, teacher, source)
            if phase.of_teacher:
                check_phase(phase, student=student, teacher=source)
        for split in ("train", *evaluated_splits(data, task).values()):
            load_split(data, task, split)


def _refuse_head_options(teacher: str, settings: RunSettings) -> None:
    given = {"--pooling": settings.pooling, "--head-learning-rate": settings.head_learning_rate}
    for option, value in given.items():
        if value is not None:
            raise InvalidInput(
                f"{option} is for the new classifier of an encoder",
                got=f"{option} {value} for {teacher}, which is a classifier",
                repair="leave it out, or start from the encoder that it was fine-tuned from",
            )


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


def model_directory(out: Path, role: str, task: str) -> Path:
    """Where a run has the exports of its teacher or student for a task."""
    return out / "models" / f"{role}-{task}"


@dataclass(frozen=True)
class _Run:
    """One run: where it reads and writes, and its stages.

    Attributes:
        found: task -> the student that a search found.
    """

    teacher: str
    data: str
    out: Path
    settings: RunSettings
    threads: int | None
    steps: StageCounter
    count: int
    found: dict[str, Path] = field(default_factory=dict)

    def trained(self, role: str, task: Task) -> Path:
        if role == "student" and task.name in self.found:
            return self.found[task.name]
        return self.out / "trained" / f"{role}-{task.name}"

    def model(self, role: str, task: Task) -> Path:
        return model_directory(self.out, role, task.name)

    def row(self, role: str, task: Task) -> str:
        """The name of a model's rows. What searches found for several tasks has a shape of its own on each."""
        return f"{role}-{task.name}" if role == "student" and task.name in self.found and self.count > 1 else role

    def targets(self, task: Task) -> "list[Target]":
        from hf_albert_plus.eval.targets import Target

        return [
            Target(self.row(role, task), self.model(role, task), runtime)
            for role in ROLES
            for runtime in ("torch", *EXPORTED)
        ]

    def finetune(self, task: Task) -> None:
        """Makes the teacher: a classifier that is trained for the task already stays as it is."""
        output = self.trained("teacher", task)
        if self.adopts(task):
            taken = partial(
                adopt, self.teacher, data=self.data, task=task, output=output, max_length=self.settings.max_length
            )
            self.steps.run(f"take the teacher as it is, a classifier of {task.name} already", taken)
            return

        def stage() -> Record:
            return finetune(
                self.teacher,
                data=self.data,
                task=task,
                output=output,
                settings=self.settings.training(task),
                pooling=self.settings.pooling,
                head_learning_rate=self.settings.head_learning_rate,
            )

        self.steps.run(f"fine-tune the teacher on {task.name}", stage)

    def adopts(self, task: Task) -> bool:
        return is_trained_for(load_config(self.teacher, option="--teacher"), task, alone=self.count == 1)

    def distill(self, task: Task) -> None:
        """Makes the student: the pick of a search where nothing is said of it, and one of the method else."""
        config = load_config(str(self.trained("teacher", task)), option="--teacher")
        if self.settings.searches and not task.has_spans and config.model_type in CONVERTIBLE:
            self.steps.run(f"search for a student on {task.name}", partial(self.search, task))
            return

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

    def search(self, task: Task) -> Record:
        batch_size, out = self.settings.batch_size or task.batch_size, self.out / "search" / task.name
        hunt = search(
            str(self.trained("teacher", task)),
            data=self.data,
            task=replace(task, batch_size=batch_size),
            out=out,
            settings=self.settings.search(),
            threads=self.threads,
        )
        if hunt.is_stopped:
            raise KeyboardInterrupt  # what follows would be of a student that the same command may not find again
        picked = picked_student(hunt, out=out)
        nearest = "" if picked.holds else f", the nearest: nothing is shown to keep within {hunt.budget.in_words()}"
        notes.print(f"  the student: {printable(picked.tried.words)}{nearest}")
        notes.print(f"  what was tried: {printable(str(picked.page))}")
        self.found[task.name] = picked.directory
        self.make_room(task)
        return replace(read_record(picked.directory), reused=False)  # the search itself goes on each time

    def make_room(self, task: Task) -> None:
        """Removes what was made of another student, which an earlier search with less time found."""
        exported = self.model("student", task)
        found = parent(self.found[task.name])["sha256"]
        if not exported.is_dir() or read_record(exported).parents["model"]["sha256"] == found:
            return
        for made in (exported, self.out / "scores" / task.name, self.out / "latency", self.out / "report"):
            discard(made)

    def export(self, task: Task) -> None:
        from hf_albert_plus.export.stage import export

        for role in ROLES:
            stage = partial(export, self.trained(role, task), to=list(EXPORTED), output=self.model(role, task))
            self.steps.run(f"export the {role} for {task.name}", stage)

    def score(self, task: Task) -> None:
        from hf_albert_plus.eval.scoring import score
        from hf_albert_plus.eval.settings import EvalSettings

        stage = partial(
            score,
            self.targets(task),
            data=self.data,
            task=task,
            output=self.out / "scores" / task.name,
            settings=EvalSettings(max_length=self.settings.max_length),
            threads=self.threads,
        )
        self.steps.run(f"score on {task.name}", stage)

    def floor(self, task: Task) -> None:
        from hf_albert_plus.eval.floor.stage import floor

        output = self.out / "floor" / task.name
        stage = partial(floor, data=self.data, task=task, teacher=self.teacher, output=output, threads=self.threads)
        self.steps.run(f"the floor of {task.name}", stage)

    def bench(self, tasks: list[Task]) -> None:
        """Times every row once: models of several tasks under one name differ in their classifier alone."""
        from hf_albert_plus.eval.latency.bench import bench
        from hf_albert_plus.eval.settings import BenchSettings

        rows: dict[str, Target] = {}
        for target in (target for task in tasks for target in self.targets(task)):
            rows.setdefault(target.label, target)
        targets = list(rows.values())
        stage = partial(
            bench,
            targets,
            output=self.out / "latency",
            shapes=self.settings.shapes,
            baseline=targets[0],
            settings=BenchSettings(seconds=self.settings.bench_seconds),
            threads=self.threads,
        )
        self.steps.run("time", stage)

    def report(self, tasks: list[Task], *, data_name: str) -> "Table":
        from hf_albert_plus.eval.reporting.cards import write_cards
        from hf_albert_plus.eval.reporting.stage import read_table, report

        scores = [self.out / "scores" / task.name / "scores.json" for task in tasks]
        scores += [self.out / "floor" / task.name / "scores.json" for task in tasks if self.settings.has_floor(task)]
        latency = self.out / "latency" / "latency.json"
        output = self.out / "report"
        stage = partial(report, scores, bench=latency, output=output, title="Speedup table", data_name=data_name)
        self.steps.run("report", stage)
        models = {f"{self.row(role, task)}-{task.name}": self.model(role, task) for task in tasks for role in ROLES}
        write_cards(output, models)
        return read_table(scores, bench=latency)
