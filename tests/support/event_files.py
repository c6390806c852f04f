"""TensorBoard's event files, read back record by record: length, checksum, bytes, checksum."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOSS = "train/loss"


def curves_in(folder: Path) -> dict[str, dict[int, float]]:
    """The scalars of a run by tag and step, as TensorBoard shows them: a run that begins at a step purges what was drawn from there on.

    Fails for a step whose loss is drawn twice.
    """
    curves: dict[str, dict[int, float]] = {}
    for file in sorted(folder.glob("*tfevents*")):  # their names begin with the second
        for event in _events(file):
            if event.HasField("session_log"):
                curves = {
                    tag: {step: value for step, value in points.items() if step < event.step}
                    for tag, points in curves.items()
                }
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    points = curves.setdefault(value.tag, {})
                    assert value.tag != LOSS or event.step not in points, f"drawn twice: {event.step}"
                    points[event.step] = value.simple_value
    return {tag: points for tag, points in curves.items() if points}


def _events(file: Path) -> Iterator[Any]:
    from tensorboardX.proto.event_pb2 import Event

    data, place = file.read_bytes(), 0
    while place < len(data):
        length = int.from_bytes(data[place : place + 8], "little")
        yield Event.FromString(data[place + 12 : place + 12 + length])
        place += length + 16
