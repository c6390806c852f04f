"""What the phases of a run learn from: teachers and rows, each opened once."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints import load_classifier, load_config
from ..glue import Task, load_split
from ..records import CHECKPOINTS
from ..training import TrainSettings, trains_in_bf16
from .distill import DistilSettings, stand_in
from .phases import Phase
from .rows import documents, pair_rows, task_rows, text_rows
from .teachers import text_teacher, with_teacher_logits
from .tokenizers import Tokenizers, open_tokenizers

if TYPE_CHECKING:
    from datasets import Dataset


class Materials:
    """Teachers and rows of a run in a directory."""

    def __init__(
        self,
        teacher_source: str,
        *,
        data: str | None,
        task: Task | None,
        directory: Path,
        settings: TrainSettings,
        method: DistilSettings,
    ):
        self.teacher_source = teacher_source
        self.data, self.task = data, task
        self.directory, self.settings, self.method = directory, settings, method
        self._text_teachers: dict[bool, Any] = {}
        self._text_rows: Dataset | None = None

    @cached_property
    def teacher(self) -> Any:
        """The task's classifier; where there is no task, the encoder under a head that is not kept."""
        architectures = load_config(self.teacher_source, option="--teacher").architectures or []
        has_head = any("SequenceClassification" in name for name in architectures)
        new_head = None if self.task is not None or has_head else stand_in()
        return load_classifier(self.teacher_source, option="--teacher", task=new_head)

    @property
    def general_source(self) -> str:
        return self.method.general_teacher or self.teacher_source

    def text_teacher(self, phase: Phase) -> Any:
        """The teacher of a phase on text, kept for the other phases that read the same of it; None where it has none."""
        if not phase.of_teacher:
            return None
        if phase.reads_tokens not in self._text_teachers:
            self._text_teachers[phase.reads_tokens] = text_teacher(self.general_source, phase)
        return self._text_teachers[phase.reads_tokens]

    def tokenizers(self, config: Any) -> Tokenizers:
        """Those of a run whose student has this config."""
        return open_tokenizers(
            self.teacher_source,
            general_teacher=self.method.general_teacher,
            student=self.method.student.student,
            config=config,
        )

    def texts(self, phase: Phase) -> Iterable[str]:
        """The texts that a phase on text reads."""
        if not self.method.reads_task(phase):
            return documents(self._text)
        data, task = self._given
        split = load_split(data, task, "train")
        return (row[column] for row in split for column in task.columns)

    def taught_rows(self, phase: Phase, tokenizers: Tokenizers) -> tuple["Dataset", Any]:
        """A phase's rows, and the teacher that is run beside the student, if any is."""
        length = self.settings.max_length
        if not self.method.reads_task(phase):
            if self._text_rows is None:
                self._text_rows = text_rows(self._text, tokenizers.rows, max_length=length)
            return self._text_rows, self.text_teacher(phase)
        data, task = self._given
        rows = (pair_rows if phase.rows == "pairs" else task_rows)(data, task, tokenizers.rows, max_length=length)
        if phase.rows == "text":
            return rows.remove_columns("labels"), self.text_teacher(phase)
        if not phase.of_teacher:
            return rows, None
        if not phase.caches_logits:
            return rows, self.teacher
        cached = with_teacher_logits(
            rows,
            self.teacher,
            task_rows(data, task, tokenizers.teacher, max_length=length),
            tokenizers.teacher,
            directory=self.directory / CHECKPOINTS / "teacher_logits",
            use_bf16=trains_in_bf16(self.settings.precision),
        )
        return cached, None

    @property
    def _text(self) -> Path:
        assert self.method.text is not None
        return self.method.text

    @property
    def _given(self) -> tuple[str, Task]:
        assert self.data is not None
        assert self.task is not None
        return self.data, self.task


__all__ = ["Materials"]
