"""Which teacher layer each student layer follows."""

from collections.abc import Sequence

from ..errors import InvalidInput, suggest

LAYER_MAPS = ("uniform", "skip", "last")


def layer_map(chosen: str | Sequence[int], *, student_layers: int, teacher_layers: int) -> tuple[int, ...]:
    """The teacher's layer, counted from 1, for each of the student's M of the teacher's N layers.

    - `uniform`: m·N / M rounded down (TinyBERT, section 4.2: g(m) = 3m for 4 of 12).
    - `skip`: every (N / M rounded down)-th layer, from the first such (PKD, section 3.1).
    - `last`: the last M (PKD, section 3.1; TinyBERT's "top").
    - numbers, as a sequence or with commas: layer by layer.

    Raises:
        InvalidInput: no such map, a layer that is not there, or fewer layers in the teacher than in the student.

    Example:
        >>> layer_map("skip", student_layers=5, teacher_layers=12), layer_map("uniform", student_layers=5, teacher_layers=12)
        ((2, 4, 6, 8, 10), (2, 4, 7, 9, 12))
    """
    if not isinstance(chosen, str) or not chosen[:1].isalpha():
        return _explicit(chosen, student_layers=student_layers, teacher_layers=teacher_layers)
    if chosen not in LAYER_MAPS:
        raise InvalidInput(
            "--set layer_map must be uniform, skip, last or layers with commas",
            got=repr(chosen),
            repair=suggest(chosen, list(LAYER_MAPS)),
        )
    if student_layers > teacher_layers:
        raise InvalidInput(
            f"the layer map {chosen} needs a teacher with at least the student's {student_layers} layers",
            got=f"{teacher_layers} layers",
            repair="name a teacher layer for each: --set layer_map="
            + ",".join(str(1 + m * teacher_layers // student_layers) for m in range(student_layers)),
        )
    layers = range(1, student_layers + 1)
    if chosen == "uniform":
        return tuple(m * teacher_layers // student_layers for m in layers)
    if chosen == "skip":
        return tuple(m * (teacher_layers // student_layers) for m in layers)
    return tuple(teacher_layers - student_layers + m for m in layers)


def _explicit(chosen: str | Sequence[int], *, student_layers: int, teacher_layers: int) -> tuple[int, ...]:
    try:
        layers = tuple(int(layer) for layer in (chosen.split(",") if isinstance(chosen, str) else chosen))
    except ValueError:
        layers = ()
    if len(layers) != student_layers or not all(1 <= layer <= teacher_layers for layer in layers):
        raise InvalidInput(
            f"--set layer_map must name one of the teacher's layers 1 to {teacher_layers} for each of the student's "
            f"{student_layers}",
            got=str(chosen),
            repair="use "
            + ",".join(str(max(1, m * teacher_layers // student_layers)) for m in range(1, student_layers + 1)),
        )
    return layers


__all__ = ["LAYER_MAPS", "layer_map"]
