"""Who reads which words: the tokenizers of teacher, general teacher and student."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..checkpoints import load_config
from ..errors import InvalidInput
from ..glue import load_tokenizer, reads_token_types
from ..tokenizer_files import open_tokenizer
from .phases import Phase


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
        """Of a phase's teacher."""
        return self.general if phase.rows == "text" else self.teacher

    def check(self, phase: Phase, *, method: str) -> None:
        """Refuses words that a phase cannot compare or mask.

        Raises:
            InvalidInput: student and teacher of other words where both read the same rows, or no mask token.
        """
        compares = phase.of_teacher and not phase.caches_logits and not phase.trains_teacher
        if compares and self.rows.get_vocab() != self.of(phase).get_vocab():
            raise InvalidInput(
                f"the phase {phase.name} of {method} compares token by token: student and teacher must have one vocabulary",
                got=f"{len(self.rows)} and {len(self.of(phase))} tokens",
                repair="use a student of that teacher's vocabulary, or a method that reads predictions alone, such as kd",
            )
        if phase.masks_words and self.rows.mask_token_id is None:
            raise InvalidInput(
                f"the phase {phase.name} masks words",
                got="a tokenizer without a mask token",
                repair="use the tokenizer of a masked language model, or leave the phase out with --phases",
            )


def open_tokenizers(teacher: str, *, general_teacher: str | None, student: str, config: Any) -> Tokenizers:
    """The tokenizers of a run whose student has this config. A student directory's own tokenizer is taken where its words
    are not the teacher's.

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
    saved = load_tokenizer(source, config)
    rows = saved if source == student or reads_token_types(config) else load_tokenizer(teacher, theirs)
    return Tokenizers(of_teacher, general, rows, saved)


__all__ = ["Tokenizers", "open_tokenizers"]
