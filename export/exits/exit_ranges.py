"""The ranges of the parts of a graph with exits: each part is calibrated on the hidden states that the parts before it give."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from hf_albert_plus.engines.onnx_engine import open_session
from hf_albert_plus.export.exits.exit_parts import branch_weights, steps_of
from hf_albert_plus.export.precision.input_ranges import Range, find_ranges
from hf_albert_plus.export.real_examples import Example, as_arrays

_Arrays = dict[str, numpy.ndarray]


def ranges_of_segments(start: Path, segments: Sequence[Path], examples: Sequence[Example]) -> list[dict[str, Range]]:
    """Of the start, and of each segment."""
    given = [as_arrays(example) for example in examples]
    ranges, hidden = [find_ranges(start, given)], _run(start, given, "hidden")
    for number, segment in enumerate(segments):
        feeds = _feeds(hidden, given)
        ranges.append(find_ranges(segment, feeds))
        if number < len(segments) - 1:
            hidden = _run(segment, feeds, "next_hidden")
    return ranges


def ranges_of_loop(model: Any, start: Path, step: Path, examples: Sequence[Example]) -> list[dict[str, Range]]:
    """Of the start, and of the step, which is the same product in every round: its range covers them all."""
    given = [as_arrays(example) for example in examples]
    ranges, hidden = [find_ranges(start, given)], _run(start, given, "hidden")
    branches, feeds = branch_weights(model), []
    for number in range(steps_of(model.config).count):
        of_branch = {name: stacked[min(number, len(stacked) - 1)].numpy() for name, stacked in branches.items()}
        round_ = _feeds(hidden, given, **of_branch)
        feeds += round_
        hidden = _run(step, round_, "next_hidden")
    return [*ranges, find_ranges(step, feeds)]


def _feeds(hidden: Sequence[numpy.ndarray], given: Sequence[_Arrays], **others: numpy.ndarray) -> list[_Arrays]:
    return [
        {"hidden": state, "attention_mask": row["attention_mask"], **others}
        for state, row in zip(hidden, given, strict=True)
    ]


def _run(graph: Path, feeds: Sequence[Mapping[str, numpy.ndarray]], output: str) -> list[numpy.ndarray]:
    session = open_session(graph)
    names = [port.name for port in session.get_inputs()]
    return [session.run([output], {name: feed[name] for name in names})[0] for feed in feeds]
