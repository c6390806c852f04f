"""What would fail in a phase, found before anything is trained."""

from typing import Any

from ..configuration_albert_plus import AlbertPlusConfig
from ..errors import InvalidInput
from ..glue import MATCHING, Task
from .layer_maps import layer_map
from .methods import Method
from .phases import Phase
from .terms import AttentionScores, AttentionTransfer, Relations


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
                got=" and ".join("/".join(map(str, sorted(found))) for found in heads.values()),
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


def check_task(method: Method, task: Task) -> None:
    """Refuses a task that a method's students cannot have.

    Raises:
        InvalidInput: two towers for a task whose label 1 does not say that its two texts match.
    """
    if method.towers and task.name not in MATCHING:
        raise InvalidInput(
            "two towers need a task with pairs of texts that match or not",
            got=task.name,
            repair=f"use one of {', '.join(MATCHING)}",
        )


__all__ = ["check_phase", "check_task", "check_words"]
