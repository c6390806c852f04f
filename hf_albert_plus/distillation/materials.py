"""What a run learns from: its teachers and its rows, each opened once."""

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints import load_classifier
from ..config_files import load_config
from ..engines.pooled_encoder import SentenceEncoder
from ..heads import gives_labels
from ..records.record import CHECKPOINTS
from ..tasks.own_data import more_texts
from ..tasks.question_windows import POSITIONS
from ..tasks.row_texts import texts_of
from ..tasks.splits import load_split
from ..tasks.task import Task
from ..training.settings import TrainSettings, trains_in_bf16
from .phase_rows import (
    LABELLED,
    TEACHER_LOGITS,
    TEACHER_VECTORS,
    documents,
    pair_rows,
    task_rows,
    text_rows,
    together,
    unlabelled_rows,
)
from .phases import Phase
from .segment_rows import segment_rows
from .sentence_rows import sentence_rows, sentence_texts
from .sentence_students import form_of_teacher
from .settings import DistilSettings, stand_in
from .teacher_answers import answered_before
from .teachers import Tokenizers, open_tokenizers, text_teacher, with_teacher_answers

if TYPE_CHECKING:
    from datasets import Dataset


class Materials:
    """The teachers and rows of a run in a directory."""

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
        self._text_rows: dict[str, Dataset] = {}
        self._sentence_teacher: SentenceEncoder | None = None

    @cached_property
    def teacher(self) -> Any:
        """The task's classifier; where there is no task, or a column has the answers, the encoder under a head that is not kept."""
        has_head = gives_labels(load_config(self.teacher_source, option="--teacher"))
        if self.task is not None:
            new_head = None if self.method.soft_labels is None else self.task
        else:
            new_head = None if has_head else stand_in()
        return load_classifier(self.teacher_source, option="--teacher", task=new_head)

    @cached_property
    def answered_before(self) -> bool:
        """Whether a column of the labelled rows has the teacher's answers."""
        return self.data is not None and self.task is not None and answered_before(self.data, self.task, self.method)

    @property
    def general_source(self) -> str:
        """The directory or Hub id of the teacher on text."""
        return self.method.general_teacher or self.teacher_source

    def text_teacher(self, phase: Phase) -> Any:
        """The teacher of a phase on text, kept for the other phases that read the same of it; None where it has none."""
        if not phase.of_teacher:
            return None
        if phase.reads_tokens not in self._text_teachers:
            self._text_teachers[phase.reads_tokens] = text_teacher(self.general_source, phase)
        return self._text_teachers[phase.reads_tokens]

    def sentence_teacher(self, phase: Phase) -> SentenceEncoder:
        """The sentence encoder whose vectors a phase copies."""
        if self._sentence_teacher is None:
            encoder = text_teacher(self.teacher_source, phase, option="--teacher")
            self._sentence_teacher = SentenceEncoder(encoder, **vars(form_of_teacher(self.teacher_source, phase)))
        return self._sentence_teacher

    def tokenizers(self, config: Any) -> Tokenizers:
        """The tokenizers of a run whose student has this config."""
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
        splits = [load_split(data, task, "train")]
        if self.method.unlabelled is not None:
            splits.append(more_texts(self.method.unlabelled, task))
        return (text for split in splits for texts in texts_of(split, task) for text in texts)

    def taught_rows(self, phase: Phase, tokenizers: Tokenizers) -> tuple["Dataset", Any]:
        """A phase's rows, and the teacher that is run beside the student, if any is."""
        length = self.settings.max_length
        if phase.rows == "sentences":
            return self._sentences(phase, tokenizers), None
        if not self.method.reads_task(phase):
            return self._rows_of_text(phase, tokenizers.rows), self.text_teacher(phase)
        data, task = self._given
        read = partial(pair_rows, data, task, max_length=length) if phase.rows == "pairs" else self._labelled
        labelled = read(tokenizers.rows)
        unlabelled = self._unlabelled(tokenizers.rows) if phase.takes_unlabelled else None
        if phase.rows == "text":
            rows = together(labelled, unlabelled)
            inputs = [
                name for name in rows.column_names if name not in ("labels", LABELLED, TEACHER_LOGITS, *POSITIONS)
            ]
            return rows.select_columns(inputs), self.text_teacher(phase)
        if not phase.of_teacher:
            return labelled, None
        if not phase.caches_answers or task.answers_parts:
            return together(labelled, unlabelled), self.teacher
        labelled = self._answered(labelled, self._labelled, tokenizers, kept="teacher_logits")
        if unlabelled is not None:
            unlabelled = self._answered(unlabelled, self._unlabelled, tokenizers, kept="teacher_logits_of_unlabelled")
        return together(labelled, unlabelled), None

    def _sentences(self, phase: Phase, tokenizers: Tokenizers) -> "Dataset":
        """The sentences of --text with the teacher's vectors, in fp32."""
        length = self.settings.max_length
        texts = sentence_texts(self._text, tokenizers.teacher, max_length=length, cut=phase.cut)
        rows, teacher_rows = (
            sentence_rows(texts, tokenizer, max_length=length) for tokenizer in (tokenizers.rows, tokenizers.teacher)
        )
        return with_teacher_answers(
            rows,
            self.sentence_teacher(phase),
            teacher_rows,
            tokenizers.teacher,
            column=TEACHER_VECTORS,
            directory=self.directory / CHECKPOINTS / TEACHER_VECTORS,
            use_bf16=False,
        )

    def _rows_of_text(self, phase: Phase, tokenizer: Any) -> "Dataset":
        """The rows of --text, kept for the other phases that read the same."""
        if phase.order not in self._text_rows:
            length, seed = self.settings.max_length, self.settings.seed
            self._text_rows[phase.order] = (
                segment_rows(self._text, tokenizer, max_length=length, order=phase.order, seed=seed)
                if phase.asks_order
                else text_rows(self._text, tokenizer, max_length=length)
            )
        return self._text_rows[phase.order]

    def _labelled(self, tokenizer: Any) -> "Dataset":
        """The task's training rows."""
        data, task = self._given
        column = self.method.soft_labels if self.answered_before else None
        return task_rows(data, task, tokenizer, max_length=self.settings.max_length, soft_labels=column)

    def _unlabelled(self, tokenizer: Any) -> "Dataset | None":
        """The texts without labels, if there are some."""
        texts, (_, task), column = self.method.unlabelled, self._given, self.method.soft_labels
        if texts is None:
            return None
        return unlabelled_rows(texts, task, tokenizer, max_length=self.settings.max_length, soft_labels=column)

    def _answered(self, rows: Any, read: Callable[[Any], Any], tokenizers: Tokenizers, *, kept: str) -> Any:
        """Rows with a teacher's logits: those that stand in the data, or what the teacher says now of them as it reads them."""
        if TEACHER_LOGITS in rows.column_names:
            return rows
        return with_teacher_answers(
            rows,
            self.teacher,
            read(tokenizers.teacher),
            tokenizers.teacher,
            directory=self.directory / CHECKPOINTS / kept,
            use_bf16=trains_in_bf16(self.settings.precision),
        )

    @property
    def _text(self) -> Path:
        assert self.method.text is not None
        return self.method.text

    @property
    def _given(self) -> tuple[str, Task]:
        assert self.data is not None
        assert self.task is not None
        return self.data, self.task
