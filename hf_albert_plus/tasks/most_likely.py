"""The class that a teacher's answer names: where data have answers and no labels, the most likely class is the label."""

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..errors import InvalidInput, shown


def class_answers(values: Sequence[Any], *, where: str, labels: Sequence[str] = ()) -> list[dict[str, float]] | None:
    """A number for each class and row, or None where the values are no answers.

    An answer is an object with a number for each class, or a list of numbers, not all of them whole: probabilities or logits of the
    classes `labels`, by their order, or of 0, 1, 2, … where there are none. Either may be written in JSON.

    Raises:
        InvalidInput: rows that answer for other classes than the first.
    """
    if not values or not isinstance(json_value(values[0]), dict | list):
        return None
    read = [json_value(value) for value in values]
    if not (all(map(_is_object, read)) or _are_lists(read)):
        return None
    answers = [value if isinstance(value, dict) else _named(value, labels) for value in read]
    classes = answers[0].keys()
    wrong = next((place for place, answer in enumerate(answers) if answer.keys() != classes), None)
    if wrong is not None:
        raise InvalidInput(
            f"answers must have a number for the same {len(classes)} classes in every row",
            got=f"{shown(values[wrong])} in row {wrong + 1} of {where}",
            repair="fill in or drop that row",
        )
    return answers


def most_likely(answer: dict[str, float]) -> str:
    """The first of the classes with the largest number."""
    return max(answer, key=answer.__getitem__)


def json_value(value: Any) -> Any:
    """What a string says in JSON; anything else, and a string that is none, as it is."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):  # it is a name then
            return json.loads(value)
    return value


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(_is_number, value.values()))


def _are_lists(values: list[Any]) -> bool:
    """Lists of numbers, not all of them whole: whole ones name labels."""
    if not all(isinstance(value, list) and value and all(map(_is_number, value)) for value in values):
        return False
    return any(not float(number).is_integer() for value in values for number in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _named(numbers: list[float], labels: Sequence[str]) -> dict[str, float]:
    names = labels if len(labels) == len(numbers) else [str(i) for i in range(len(numbers))]
    return dict(zip(names, numbers, strict=True))
