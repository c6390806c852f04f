"""What a report says of the floor: how good and how fast classifiers without an encoder are, and what the encoders are better by."""

from hf_albert_plus.eval.measured_documents import FLOOR
from hf_albert_plus.eval.metrics import measure_text
from hf_albert_plus.eval.reporting.table import Row, Table
from hf_albert_plus.tasks.task import ERRORS

# Points, or the share of an error, that an encoder has to be better by.
_POINT, _SHARE = 1.0, 0.01


def floor_notes(table: Table) -> list[str]:
    """A sentence for the floor of each task, and one for what the rows beside the baseline's model add to it."""
    names = {row.label: row.name for row in table.rows}
    lines = []
    for task in table.tasks:
        rows = [row for row in table.rows if row.score(task) is not None]
        floor = [row for row in rows if row.runtime == FLOOR]
        if not floor:
            continue
        metric = next(iter(floor[0].scores[task].metrics))
        paces = ", ".join(f"{row.label} {_pace(row, task)}" for row in floor)
        lines.append(f"The floor of {task}, classifiers without an encoder, from text to answer: {paces}.")
        best = max(floor, key=lambda row: _worth(row, task))
        near = [
            row.label
            for row in rows
            if row.runtime != FLOOR and row.name != names[table.baseline] and _is_near(row, best, task)
        ]
        if near:
            unit = "one per cent" if metric in ERRORS else "a point"
            lines.append(
                f"{best.label} is within {unit} of {', '.join(near)} on {task}, or better: serve it instead, or give "
                "the student more to learn from."
            )
    return lines


def _worth(row: Row, task: str) -> float:
    """More is better."""
    score = row.score(task) or 0.0
    return -score if row.is_error(task) else score


def _is_near(row: Row, floor: Row, task: str) -> bool:
    """Whether a row is hardly better than the floor."""
    gain = _worth(row, task) - _worth(floor, task)
    return gain <= (_SHARE * abs(_worth(floor, task)) if row.is_error(task) else _POINT)


def _pace(row: Row, task: str) -> str:
    """`89.5 at 21,000 sentences/s in 3.1 MB`."""
    score = row.scores[task]
    metric, value = next(iter(score.metrics.items()))
    (pace,) = score.runs[0].throughput or (None,)
    assert pace is not None, "the floor is timed where it is scored"
    size = row.sizes.get("file_bytes", 0) / 1e6
    return f"{measure_text(metric, value, decimals=1)} at {pace.sentences_per_s:,.0f} sentences/s in {size:.1f} MB"
