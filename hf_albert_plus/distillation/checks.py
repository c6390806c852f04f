"""Checks of a distillation before anything is trained: phases, teachers, tasks and vocabularies that do not fit together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..checkpoints import open_tokenizer
from ..configuration_albert_plus import AlbertPlusConfig
from ..errors import InvalidInput
from ..tasks.glue import MATCHING
from ..tasks.task import Task
from .phases import Method, Phase, layer_map
from .terms import AttentionScores, AttentionTransfer, Relations

_SPECIALS = ("cls_token", "sep_token", "pad_token", "mask_token")


def check_phase(phase: Phase, *, student: Any, teacher: Any) -> None:
    """Refuses a phase whose terms cannot compare a student and a teacher with these configs.

    Raises:
        InvalidInput: layers, heads or vocabularies that do not fit.
    """
    if any(term.paired for term in phase.terms):
        layer_map(phase.layer_map, student_layers=student.num_hidden_layers, teacher_layers=teacher.num_hidden_layers)
    heads = {"student": _heads_of_layers(student), "teacher": _heads_of_layers(teacher)}
    for term in phase.terms:
        alike = isinstance(term, AttentionScores | AttentionTransfer) or (
            isinstance(term, Relations) and not term.heads
        )
        if alike and (heads["student"] != heads["teacher"] or len(heads["student"]) > 1):
            raise InvalidInput(
                f"{term.name} of the phase {phase.name} needs as many heads in every layer of the student as in the teacher's",
                got=" and ".join("/".join(map(str, sorted(numbers))) for numbers in heads.values()),
                repair=f"use --set num_attention_heads={teacher.num_attention_heads}, or minilm-v2, which splits them anew",
            )
        if isinstance(term, Relations) and term.heads:
            for name, config in (("student", student), ("teacher", teacher)):
                whole = getattr(config, "bottleneck_size", None) or config.hidden_size
                for width in {number * whole // config.num_attention_heads for number in heads[name]}:
                    if width % term.heads:
                        raise InvalidInput(
                            f"--set relation_heads must divide the width of the {name}'s attention, {width}",
                            got=term.heads,
                            repair=f"use one of {', '.join(str(n) for n in range(1, width + 1) if width % n == 0)}",
                        )


def _heads_of_layers(config: Any) -> set[int]:
    """The numbers of heads that its layers have."""
    if config.model_type != AlbertPlusConfig.model_type:
        return {config.num_attention_heads}
    return {config.attention_heads[block] for block in config.attention_map}


def check_words(phase: Phase, source: str, config: Any) -> None:
    """Refuses a teacher without a masked language modelling head for a phase that reads its words.

    Raises:
        InvalidInput: such a teacher.
    """
    architectures = config.architectures or []
    if (
        phase.reads_tokens
        and phase.of_teacher
        and not any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in architectures)
    ):
        raise InvalidInput(
            f"the phase {phase.name} needs a teacher with a masked language modelling head",
            got=f"{source}, a {', '.join(architectures) or 'model without a named architecture'}",
            repair="name one with --general-teacher, or leave the phase out with --phases",
        )


def check_task(method: Method, task: Task, phases: Sequence[Phase]) -> None:
    """Refuses a task that a method's students cannot have.

    Raises:
        InvalidInput: two towers for a task whose label 1 does not say that its two texts match, or a term that reads what a text is
            answered by for a task of tags or spans.
    """
    of_texts = next((term for phase in phases for term in phase.terms if term.of_texts), None)
    if task.answers_parts and of_texts is not None:
        raise InvalidInput(
            f"{of_texts.name} of {method.name} reads what one answer to a text is made of",
            got=f"{task.name}, which has {task.parts}",
            repair="use --method kd-hidden, kd, minilm, minilm-v2, tinybert or distilbert",
        )
    if method.towers and not task.long.is_cut:
        raise InvalidInput(
            "two towers read each text by itself, and cut it at the end", got=f"--long {task.long.way}", repair="use --long cut"
        )  # fmt: skip
    if method.towers and task.name not in MATCHING:
        raise InvalidInput(
            "two towers need a task with pairs of texts that match or not",
            got=task.name,
            repair=f"use one of {', '.join(MATCHING)}",
        )


def check_own_vocabulary(student: str, *, teacher: str, method: str) -> None:
    """Refuses a student whose words are the teacher's, and a tokenizer that cannot mask words.

    Raises:
        InvalidInput: no directory with a tokenizer, one with the teacher's vocabulary, or a special token that is
            missing in either.
    """
    make = (
        f"make one first: AutoTokenizer.from_pretrained({teacher!r}).train_new_from_iterator(lines, vocab_size=5000)"
        ".save_pretrained(DIR), AlbertPlusConfig(vocab_size=len(tokenizer), …).save_pretrained(DIR), then --student DIR"
    )
    rule = f"--student of {method} must be a directory with a config.json and a tokenizer of its own"
    if not (Path(student) / "tokenizer_config.json").is_file():
        raise InvalidInput(rule, got=student, repair=make)
    tokenizers: dict[str, Any] = {
        source: open_tokenizer(path, rule=f"the {source} of {method} must have a tokenizer", repair=make)
        for source, path in (("student", student), ("teacher", teacher))
    }
    if tokenizers["student"].get_vocab() == tokenizers["teacher"].get_vocab():
        raise InvalidInput(rule, got=f"{student} with the vocabulary of {teacher}", repair=make)
    for source, tokenizer in tokenizers.items():
        for name in _SPECIALS:
            if getattr(tokenizer, name) is None:
                raise InvalidInput(
                    f"{method} needs {', '.join(_SPECIALS)} of student and teacher",
                    got=f"no {name} of the {source}",
                    repair="save the tokenizer of a masked language model, with all of them",
                )
