"""The main job as a chain of stages. Each is skipped if it is done, so the same command resumes where it stopped."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..distillation import DistilSettings, distill
from ..errors import InvalidInput, suggest
from ..finetune import finetune
from ..glue import Task, get_task
from ..records import Record, parent, read_json, run_stage, write_json, write_text
from ..training import Precision, TrainSettings
from .console import notes

if TYPE_CHECKING:
    from hf_albert_plus.eval.table import Table

STAGES = ("data", "pretrain", "finetune", "distill", "export", "eval", "bench", "report")
ROLES = ("teacher", "student")
RUNTIMES = ("torch", "onnx", "onnx-int8")


@dataclass(frozen=True)
class RunSettings:
    """Choices of a run; None takes the task's own default."""

    student: str = "half"
    overrides: tuple[tuple[str, Any], ...] = ()
    teacher_epochs: float | None = None
    student_epochs: float | None = None
    batch_size: int | None = None
    learning_rate: float = 5e-5
    student_learning_rate: float = 3e-4
    max_length: int = 128
    shapes: str = "1x16,8x128"
    bench_seconds: float = 3.0
    precision: Precision = "auto"
    seed: int = 42

    def training(self, task: Task, role: str) -> TrainSettings:
        """Training settings of a teacher or student. A student sees the data three times as often: it starts further
        from its goal."""
        teacher_epochs = task.epochs if self.teacher_epochs is None else self.teacher_epochs
        student_epochs = 3 * teacher_epochs if self.student_epochs is None else self.student_epochs
        return TrainSettings(
            epochs=teacher_epochs if role == "teacher" else student_epochs,
            batch_size=task.batch_size if self.batch_size is None else self.batch_size,
            learning_rate=self.learning_rate if role == "teacher" else self.student_learning_rate,
            max_length=self.max_length,
            seed=self.seed,
            precision=self.precision,
        )


class _Steps:
    """Announces each stage with its number and says how it ended."""

    def __init__(self, total: int):
        self.total, self.number = total, 0

    def run(self, what: str, stage: Callable[[], Record]) -> Record:
        self.number += 1
        notes.print(f"[bold]\\[{self.number}/{self.total}][/] {what}")
        start = time.perf_counter()
        record = stage()
        notes.print(f"  done before: {record.finished}" if record.reused else f"  {time.perf_counter() - start:.1f} s")
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
    steps: _Steps | None = None,
) -> "Table | None":
    """Fine-tunes, distils, exports, scores, times and reports.

    Args:
        teacher: directory or Hub id of a pretrained encoder.
        out: gets `trained/ROLE-TASK`, `models/ROLE-TASK` (with their exports), `scores/TASK`, `latency` and `report`.
        stop_after: the last of `STAGES` to run.

    Returns:
        The speedup table, or None if stopped before it.
    """
    from hf_albert_plus.eval.latency import parse_shapes
    from hf_albert_plus.export.stage import EXPORTS, export

    parse_shapes(settings.shapes)
    chosen = [get_task(name) for name in tasks]
    for task in chosen:
        for role in ROLES:
            settings.training(task, role)
    last = _stage_index(stop_after)
    steps = steps or _Steps(5 * len(chosen) + 2)
    method = DistilSettings(student=settings.student, overrides=settings.overrides)
    for task in chosen:
        trained = {role: out / "trained" / f"{role}-{task.name}" for role in ROLES}
        if last >= STAGES.index("finetune"):
            steps.run(
                f"fine-tune the teacher on {task.name}",
                lambda task=task, trained=trained: finetune(
                    teacher, data=data, task=task, output=trained["teacher"], settings=settings.training(task, "teacher")
                ),
            )
        if last >= STAGES.index("distill"):
            steps.run(
                f"distil the student on {task.name}",
                lambda task=task, trained=trained: distill(
                    str(trained["teacher"]),
                    data=data,
                    task=task,
                    output=trained["student"],
                    settings=settings.training(task, "student"),
                    method=method,
                ),
            )
        if last >= STAGES.index("export"):
            for role in ROLES:
                steps.run(
                    f"export the {role} for {task.name}",
                    lambda task=task, trained=trained, role=role: export(
                        trained[role], to=list(EXPORTS), output=out / "models" / f"{role}-{task.name}"
                    ),
                )
        if last >= STAGES.index("eval"):
            steps.run(f"score on {task.name}", lambda task=task: _score(out, task, data=data, settings=settings, threads=threads))
    if last >= STAGES.index("bench"):
        steps.run("time", lambda: _bench(out, chosen[0], settings=settings, threads=threads))
    if last < STAGES.index("report"):
        return None
    return _report(out, chosen, data_name=data_name or _name_of(data), steps=steps)


def _stage_index(name: str | None) -> int:
    if name is None:
        return len(STAGES) - 1
    if name not in STAGES:
        raise InvalidInput("--stop-after must be a stage", got=repr(name), repair=suggest(name, list(STAGES)))
    return STAGES.index(name)


def _name_of(data: str) -> str:
    return Path(data).resolve().name if Path(data).is_dir() else data


def _targets(out: Path, task: Task) -> list[Any]:
    from hf_albert_plus.eval.targets import Target

    return [Target(role, out / "models" / f"{role}-{task.name}", runtime) for role in ROLES for runtime in RUNTIMES]


def _score(out: Path, task: Task, *, data: str, settings: RunSettings, threads: int | None) -> Record:
    from hf_albert_plus.eval.score import score_targets

    from ..glue import data_parent

    targets = _targets(out, task)

    def work(directory: Path) -> dict[str, Any]:
        document = score_targets(targets, data=data, task=task, max_length=settings.max_length, threads=threads)
        write_json(directory / "scores.json", document)
        return {row["label"] + " " + row["task"]: row["metrics"] for row in document["rows"]}

    parents = {role: parent(out / "models" / f"{role}-{task.name}") for role in ROLES}
    return run_stage(
        "eval",
        out / "scores" / task.name,
        settings={"task": task.name, "max_length": settings.max_length},
        parents={**parents, "data": data_parent(data, task)},
        work=work,
    )


def _bench(out: Path, task: Task, *, settings: RunSettings, threads: int | None) -> Record:
    """Times the first task's models: those of other tasks differ in their classifier alone."""
    from hf_albert_plus.eval.latency import bench_targets, parse_shapes

    targets = _targets(out, task)

    def work(directory: Path) -> dict[str, Any]:
        document = bench_targets(
            targets,
            shapes=parse_shapes(settings.shapes),
            baseline=targets[0],
            seconds=settings.bench_seconds,
            threads=threads,
        )
        write_json(directory / "latency.json", document)
        return {row["label"]: {shape: cell["p50_ms"] for shape, cell in row["shapes"].items()} for row in document["rows"]}

    return run_stage(
        "bench",
        out / "latency",
        settings={"shapes": settings.shapes, "seconds": settings.bench_seconds, "threads": threads},
        parents={role: parent(out / "models" / f"{role}-{task.name}") for role in ROLES},
        work=work,
    )


def _report(out: Path, tasks: list[Task], *, data_name: str, steps: _Steps) -> "Table":
    from hf_albert_plus.eval.report import report
    from hf_albert_plus.eval.table import build_table

    scores = [out / "scores" / task.name / "scores.json" for task in tasks]
    latency = out / "latency" / "latency.json"
    steps.run("report", lambda: report(scores, bench=latency, output=out / "report", title="Speedup table", data_name=data_name))
    for task in tasks:
        for role in ROLES:
            card = (out / "report" / "cards" / f"{role}-{task.name}.md").read_text(encoding="utf-8")
            write_text(out / "models" / f"{role}-{task.name}" / "README.md", card)
    return build_table([read_json(path, what="scores") for path in scores], read_json(latency, what="latency"))


def run_demo(out: Path, *, seed: int, threads: int | None = None, stop_after: str | None = None) -> "Table | None":
    """The main job on generated data, from pretraining a small encoder to the table.

    Returns:
        The speedup table, or None if stopped before it.
    """
    from ..demo.data import make_data
    from ..demo.tasks import GENERATORS
    from ..pretraining import pretrain_masked_lm

    last = _stage_index(stop_after)
    tasks = list(GENERATORS)
    steps = _Steps(2 + 5 * len(tasks) + 2)
    data, encoder = out / "data", out / "encoder"
    steps.run("write data", lambda: make_data(data, seed=seed))
    if last == STAGES.index("data"):
        return None
    steps.run(
        "pretrain the encoder",
        lambda: pretrain_masked_lm(
            data / "pretraining.txt",
            tokenizer=data / "tokenizer",
            config=DEMO_TEACHER,
            output=encoder,
            settings=TrainSettings(
                epochs=1.5, batch_size=16, learning_rate=1e-3, max_length=64, seed=seed, precision="fp32"
            ),
        ),
    )
    settings = RunSettings(
        overrides=(("num_hidden_layers", 2), ("embedding_size", 64)), teacher_epochs=2, student_epochs=2, batch_size=16,
        learning_rate=3e-4, student_learning_rate=5e-4, max_length=64, shapes="1x16,8x64", bench_seconds=1.5,
        precision="fp32", seed=seed,
    )  # fmt: skip
    return run_pipeline(
        str(encoder), data=str(data), tasks=tasks, out=out, settings=settings, threads=threads,
        data_name="the demo's generated data", stop_after=stop_after, steps=steps,
    )  # fmt: skip


# A small BERT: nothing shared, no factorised embedding. At this width the usual initial deviation of 0.02 learns slowly;
# 0.08 is about 1/√H.
DEMO_TEACHER = {
    "hidden_size": 128, "embedding_size": 128, "num_hidden_layers": 3, "initializer_range": 0.08, "num_attention_heads": 4, "intermediate_size": 512,
    "attention_sharing": "none", "ffn_sharing": "none", "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
    "max_position_embeddings": 128,
}  # fmt: skip

__all__ = ["DEMO_TEACHER", "STAGES", "RunSettings", "run_demo", "run_pipeline"]
