"""What somebody should look at before data are learned from: rule, value and repair of each doubt."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import quantiles

from .joined_labels import separator_of
from .task import Task
from .written_numbers import MISSING

# A share of rows with the same label at which accuracy says little.
_NEARLY_ALL = 0.95
# Rows that a score should be of.
_FEW_ROWS = 30
# A number is far from the others at so many times the middle half's width from the median.
_FAR = 20
# A share of near-copies of training rows from which on a score flatters.
_MANY_NEAR_COPIES = 0.2
_SHOWN = 5


def doubts_of_classes(counts: dict[str, int], task: Task, *, rows: int) -> list[str]:
    """What to look at in the names of a task's labels and in how often each is there.

    Args:
        counts: label -> training rows with it.
        rows: training rows.
    """
    if task.has_tags and task.tag_scheme == "plain" and all(name.isdecimal() for name in counts):
        return [
            "tags should be names, got numbers, of which no entities are known, so that the score is the accuracy of tags: write B-PER, say"
        ]
    if task.kind not in ("classes", "labels"):
        return []
    said = []
    alike: dict[str, list[str]] = defaultdict(list)
    for name in counts:
        alike[" ".join(name.lower().split())].append(name)
    twice = [names for names in alike.values() if len(names) > 1]
    if twice:
        said.append(
            f"labels should differ by more than capitals and blanks, got {_quoted(twice[0])}"
            + (f" and {len(twice) - 1} more such groups" if len(twice) > 1 else "")
            + ": write them alike, as they are learned as different labels"
        )
    missing = [name for name in counts if name.lower() in MISSING]
    if missing:
        said.append(f"a label should be a name, got {_quoted(missing)}: drop the rows if it means that they have none")
    if task.has_several_labels:
        return said
    separator = separator_of(counts)
    if separator is not None:
        joined = [name for name in counts if separator in name]
        said.append(
            f"a class should be one name, got {_quoted(joined[:2])}, which seem to be several joined by {separator!r}: "
            "add --kind labels to learn each by itself"
        )
    name, most = max(counts.items(), key=lambda item: item[1])
    if most >= _NEARLY_ALL * rows:
        said.append(
            f"no class should have nearly all rows, got {100 * most / rows:.0f} % with {name!r}: accuracy is as high for a model that "
            "always answers that; add --measure macro_f1"
        )
    return said


def doubts_of_numbers(numbers: Sequence[float]) -> list[str]:
    """What to look at in numbers that are learned or judge: some that are far from the others."""
    far = _far(numbers)
    if not far:
        return []
    values = ", ".join(f"{value:g}" for value in far[:_SHOWN]) + (", …" if len(far) > _SHOWN else "")
    return [
        f"numbers should be of one size, got {len(far)} far from the others ({values}): correct or drop these rows, or learn logarithms, as "
        "they outweigh all others"
    ]


def doubts_of_splits(rows: dict[str, int]) -> list[str]:
    """What to look at in the number of rows that are scored."""
    return [
        f"a split that is scored should have at least {_FEW_ROWS} rows, got {count} of {split}: scores of so few differ by chance; add rows"
        for split, count in rows.items()
        if split != "train" and count < _FEW_ROWS
    ]


def doubts_of_near_copies(near_copies: dict[str, tuple[int, int]], *, held_out: str | None) -> list[str]:
    """What to look at where many of the rows that are scored stand nearly whole in a training row.

    Args:
        near_copies: split -> how many do that are not equal, of how many.
        held_out: the split that the training rows gave up, if any: it has near-copies where all rows are made by one pattern.
    """
    return [
        f"few texts should stand nearly whole in a training row, got {count} of the {rows} of {split}: models score better on these than on "
        + (
            "new texts; add --validation FILE with rows like those to come"
            if split == held_out
            else "new texts; leave near-copies out, or put the rows of both into one file, of which a part is held out"
        )
        for split, (count, rows) in near_copies.items()
        if count > _MANY_NEAR_COPIES * rows
    ]


def _far(numbers: Sequence[float]) -> list[float]:
    """Numbers that are further from the median than 20 times the distance between the quartiles, the furthest first."""
    low, middle, high = quantiles(numbers, n=4) if len(numbers) > 1 else (0.0, 0.0, 0.0)
    if low == high:
        return []
    return sorted(
        (one for one in numbers if abs(one - middle) > _FAR * (high - low)), key=lambda one: -abs(one - middle)
    )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:_SHOWN])
