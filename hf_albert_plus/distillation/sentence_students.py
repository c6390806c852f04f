"""Students that are sentence encoders: what makes their vectors, what a run of them needs, and the directory that they are kept in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from ..conversion.sentence_encoders import with_pooling
from ..conversion.sentence_modules import form_of, read_modules, write_modules
from ..engines.pooled_encoder import SentenceEncoder
from ..engines.sentence_files import SentenceForm
from ..errors import InvalidInput
from .phases import Phase
from .settings import DistilSettings
from .vector_terms import VectorSimilarity

# Where the config of an encoder says which prefixes of its vectors serve.
DIMS = "matryoshka_dims"


def form_of_teacher(teacher: str, phase: Phase) -> SentenceForm:
    """What makes the teacher's vectors: as it says itself, or else as the phase is told.

    Raises:
        InvalidInput: it says nothing and nothing is told, or it says something else.
    """
    own, told = read_modules(teacher, option="--teacher") if teacher else None, phase.pooling
    if own is None:
        if told == "teacher":
            raise InvalidInput(
                "--teacher must be a sentence encoder, with a modules.json that says how it makes vectors",
                got=teacher or "a model of no directory",
                repair="say it with --set pooling=mean, or cls for the first token",
            )
        return form_of(told, normalize=False)
    if told != "teacher" and form_of(told, own.normalize) != own:
        raise InvalidInput(
            "--set pooling is for a teacher without a modules.json",
            got=f"--set pooling={told} for {teacher}, whose vectors are made by the {own.pooling} of the tokens",
            repair="leave it out",
        )
    return own


def check_vectors(teacher: str | None, *, data: str | None, method: DistilSettings) -> None:
    """Refuses what a method that learns vectors from text alone has no use for, and a run of it without text.

    Raises:
        InvalidInput: no text or no teacher, or data of a task, its answers, or a second teacher.
    """
    rule = f"{method.name} learns the vectors of --teacher from --text alone"
    others = {
        "--data": data,
        "--soft-labels": method.soft_labels,
        "--unlabelled": method.unlabelled,
        "--general-teacher": method.general_teacher,
    }
    for option, value in others.items():
        if value is not None:
            raise InvalidInput(
                rule, got=f"{option} {value}", repair="leave it out, and write the texts to a file, one a line"
            )
    for option, needed in {"--text": method.text, "--teacher": teacher}.items():
        if needed is None:
            raise InvalidInput(rule, got=f"no {option}", repair=f"add {option} {'FILE' if option == '--text' else 'ENCODER'}")  # fmt: skip


def check_spaces(phases: Sequence[Phase], *, student: Any, teacher: Any) -> None:
    """Refuses vectors that only a map which is thrown away would make similar to the teacher's, and prefixes that are none.

    Raises:
        InvalidInput: another width than the teacher's, or prefixes, without the loss of similarities; or prefixes as long as the vectors.
    """
    for phase in phases:
        similarity = next((term for term in phase.terms if isinstance(term, VectorSimilarity)), None)
        in_own_space = any(term.own_space for term in phase.terms)
        if similarity is None and (in_own_space or student.hidden_size != teacher.hidden_size):
            raise InvalidInput(
                "a student with a space of its own must learn the similarities of texts: the map to the teacher's space is not kept",
                got=f"{student.hidden_size} numbers for the teacher's {teacher.hidden_size}"
                + (", with matryoshka_dims" if in_own_space else "")
                + ", and similarity_weight 0",
                repair="leave --set similarity_weight out",
            )
        longest = max((0, *similarity.prefixes)) if similarity is not None else 0
        if longest >= student.hidden_size:
            raise InvalidInput(
                f"--set {DIMS} must be shorter than the student's vectors of {student.hidden_size} numbers",
                got=longest,
                repair=f"use numbers below {student.hidden_size}",
            )


def as_teacher(encoder: PreTrainedModel, phase: Phase) -> SentenceEncoder:
    """An opened encoder as the sentence encoder that the directory or Hub id which it was opened from describes.

    Raises:
        InvalidInput: as `form_of_teacher`.
    """
    if isinstance(encoder, SentenceEncoder):
        return encoder
    return SentenceEncoder(encoder, **vars(form_of_teacher(str(encoder.name_or_path), phase)))


def sentence_student(student: Any, teacher: SentenceEncoder) -> SentenceEncoder:
    """The encoder of a student as a sentence encoder that makes vectors as its teacher does, without dense layer and head."""
    encoder = with_pooling(student.albert_plus, teacher.pooling)
    return SentenceEncoder(encoder, pooling=teacher.pooling, normalize=teacher.normalize)


def save_sentence_student(student: SentenceEncoder, tokenizer: Any, directory: Path, phases: Sequence[Phase]) -> None:
    """Saves the encoder as a model directory that transformers and sentence-transformers open, with the prefixes that serve.

    Args:
        tokenizer: None where somebody else keeps it.
    """
    prefixes = next((term.prefixes for term in phases[-1].terms if isinstance(term, VectorSimilarity)), ())
    if prefixes:
        setattr(student.encoder.config, DIMS, list(prefixes))
    student.encoder.save_pretrained(directory)
    if tokenizer is not None:
        tokenizer.save_pretrained(directory)
    write_modules(directory, student.config, SentenceForm(student.pooling, student.normalize))
