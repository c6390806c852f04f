"""Teachers: classifiers of a task, encoders that teach on text, logits computed once, and the tokenizers that each of them reads by."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from ..checkpoints import check_label_names, check_label_order, open_tokenizer
from ..config_files import load_config
from ..engines.classifier_config import answer_rule_of
from ..errors import InvalidInput
from ..heads import answers, architecture_of, gives_labels
from ..model_inputs import reads_token_types
from ..records import processes
from ..records.files import writing
from ..records.progress import track
from ..records.stage import mark, taken_up
from ..tasks.joined_answers import text_logits, text_numbers
from ..tasks.long_rows import answering_of
from ..tasks.rows import fitted_tokenizer, load_tokenizer
from ..tasks.task import Task
from ..text.letter_tokenizer import letter_tokenizer
from ..training.row_logits import row_logits
from ..weight_files import from_pretrained
from .phase_rows import TEACHER_LOGITS, TEACHER_VECTORS, Collator
from .phases import Phase

if TYPE_CHECKING:
    from datasets import Dataset

# What a teacher's labels are of, where they are not of texts.
_OF = {"tags": "of words ", "spans": "of spans "}
# Rows of a file.
_PART = 2048
# What is read of a teacher's output for a column of rows.
_OUTPUTS = {TEACHER_LOGITS: "logits", TEACHER_VECTORS: "sentence_embedding"}


def check_teacher(source: Any, task: Task, *, name: str) -> None:
    """Refuses a teacher that is no classifier of the task.

    Raises:
        InvalidInput: another number of labels, or another order.
    """
    of_another_kind = gives_labels(source) and not answers(source, task)
    if source.num_labels != task.num_labels or of_another_kind:
        raise InvalidInput(
            f"--teacher must be a classifier {_OF.get(task.kind, '')}with the {task.num_labels} labels of {task.name}",
            got=f"{name} with {source.num_labels} labels" + (f", {architecture_of(source)}" if of_another_kind else ""),
            repair=f"fine-tune it first: albert-plus finetune --model {name} {f'--task {task.name}' if task.benchmark else '--data …'} …",
        )
    check_label_order(source, task, option="--teacher")
    check_label_names(source, task, option="--teacher", source=name)


def text_teacher(source: str, phase: Phase, *, option: str = "--general-teacher") -> PreTrainedModel:
    """The model that teaches a phase on text: a masked language model where the phase reads words, or else an encoder.

    Raises:
        InvalidInput: it lacks weights.
    """
    opener = AutoModelForMaskedLM if phase.reads_tokens else AutoModel
    model, report = from_pretrained(opener, source, option=option)
    missing = sorted(key for key in report["missing_keys"] if "pooler." not in key)
    if missing:
        raise InvalidInput(
            f"{option} must hold the weights of {type(model).__name__}",
            got=f"{source} without {missing[0]}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""),
            repair="use a checkpoint saved as that",
        )
    return model


def with_teacher_answers(
    rows: "Dataset",
    teacher: Any,
    teacher_rows: "Dataset",
    tokenizer: PreTrainedTokenizerBase,
    *,
    column: str = TEACHER_LOGITS,
    directory: Path,
    use_bf16: bool,
) -> "Dataset":
    """The rows with the teacher's logits, or a sentence encoder's vectors, as a column, computed once. They lie in the directory part by
    part, so that a resumed run goes on with them, and processes share the work.

    They belong to a row, whatever the order it is drawn in: that is sound because the teacher sees the row unchanged and
    without dropout every time.

    Args:
        teacher_rows: the same rows as the teacher reads them; of texts in windows, the same texts. Where its tokenizer makes other windows of
            a text, each of the rows has what the teacher says of the whole text.
        column: TEACHER_LOGITS or TEACHER_VECTORS.
    """
    order = sorted(range(len(teacher_rows)), key=teacher_rows["length"][:].__getitem__)
    parts = [order[begin : begin + _PART] for begin in range(0, len(order), _PART)]
    files = [directory / f"{number}.safetensors" for number in range(len(parts))]
    directory.mkdir(parents=True, exist_ok=True)
    mine = range(processes.rank(), len(parts), processes.count())
    for number in track(mine, total=len(mine), description="ask the teacher"):
        done = files[number].with_suffix(".json")
        if taken_up(done, shape=list[int]) != parts[number]:
            asked = [teacher_rows[row] for row in parts[number]]
            answers = row_logits(teacher, asked, Collator(tokenizer), use_bf16=use_bf16, output=_OUTPUTS[column])
            with writing(files[number]) as temporary:
                save_file({column: answers}, temporary)
            mark(done, [files[number]], facts=parts[number])
    processes.wait()
    answers = torch.cat([load_file(file)[column] for file in files])[torch.tensor(order).argsort()]
    answering, of_teacher = answering_of(rows), answering_of(teacher_rows)
    if answering is not None and of_teacher is not None:
        ours, theirs = text_numbers(answering), text_numbers(of_teacher)
        if ours != theirs:
            has_several = answer_rule_of(teacher.config).has_several
            answers = torch.from_numpy(text_logits(answers.numpy(), theirs, has_several=has_several))[ours]
    return rows.add_column(column, list(answers.numpy()))


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of a run.

    Attributes:
        teacher: of the task's teacher.
        general: of the teacher on text, often the same.
        rows: what rows are cut by: the student's words, with token types where the student or the teacher reads them.
        saved: the student's, as it is kept with it.
    """

    teacher: PreTrainedTokenizerBase
    general: PreTrainedTokenizerBase
    rows: PreTrainedTokenizerBase
    saved: PreTrainedTokenizerBase

    def of(self, phase: Phase) -> PreTrainedTokenizerBase:
        """The tokenizer of a phase's teacher."""
        return self.general if phase.rows == "text" else self.teacher

    def check(self, phase: Phase, *, method: str, task: Task | None = None) -> None:
        """Refuses words that a phase of a task cannot compare or mask.

        Raises:
            InvalidInput: student and teacher of other words where both read the same rows, or no mask token.
        """
        by_token = not phase.caches_answers or (task is not None and task.answers_parts)
        compares = phase.of_teacher and by_token and not phase.trains_teacher
        if compares and self.rows.get_vocab() != self.of(phase).get_vocab():
            raise InvalidInput(
                f"the phase {phase.name} of {method} compares token by token: student and teacher must have one vocabulary",
                got=f"{len(self.rows)} and {len(self.of(phase))} tokens",
                repair="use a student of that teacher's vocabulary"
                + (
                    ""
                    if task is not None and task.answers_parts
                    else ", or a method that reads predictions alone, such as kd"
                ),
            )
        if phase.masks_words and self.rows.mask_token_id is None:
            raise InvalidInput(
                f"the phase {phase.name} masks words",
                got="a tokenizer without a mask token",
                repair="use the tokenizer of a masked language model, or leave the phase out with --phases",
            )


def open_tokenizers(teacher: str, *, general_teacher: str | None, student: str, config: Any) -> Tokenizers:
    """The tokenizers of a run whose student has this config. A student directory's own tokenizer is taken where its words
    are not the teacher's; one that reads letter trigrams has the tokenizer of letters.

    Raises:
        InvalidInput: a directory without a tokenizer, or a student with fewer words than its tokenizer.
    """
    theirs = load_config(teacher, option="--teacher")
    of_teacher = load_tokenizer(teacher, theirs)
    general = of_teacher
    if general_teacher is not None:
        general = load_tokenizer(general_teacher, load_config(general_teacher, option="--general-teacher"))
    source: str | Path = teacher
    if (Path(student) / "tokenizer_config.json").is_file():
        own = open_tokenizer(
            student, rule="--student must hold its tokenizer, or none", repair="save the tokenizer into it"
        )
        source = student if own.get_vocab() != of_teacher.get_vocab() else teacher
    if config.letter_trigrams and source == teacher:
        letters = fitted_tokenizer(letter_tokenizer(), config)
        return Tokenizers(of_teacher, general, letters, letters)
    saved = load_tokenizer(source, config)
    rows = saved if source == student or reads_token_types(config) else load_tokenizer(teacher, theirs)
    return Tokenizers(of_teacher, general, rows, saved)
