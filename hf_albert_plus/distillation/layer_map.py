"""Which teacher layer each student layer follows."""


def uniform_layer_map(student_layers: int, teacher_layers: int) -> tuple[int, ...]:
    """Index into the teacher's hidden states for each of the student's, embeddings (0) included.

    TinyBERT, section 3.1: 0 = g(0), M = g(N), and the layers in between evenly spread.

    Example:
        >>> uniform_layer_map(3, 6)
        (0, 2, 4, 6)
    """
    return tuple(layer * teacher_layers // student_layers for layer in range(student_layers + 1))


__all__ = ["uniform_layer_map"]
