"""The ranges of the parts of a graph with exits: each part is calibrated on the hidden states that the parts before it give."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from hf_albert_plus.engines.onnx_session import open_session
from hf_albert_plus.export.exits.exit_parts import steps_of, weights_of_branch
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


def ranges_of_loop(
    model: Any, start: Path, parts: Sequence[Path], examples: Sequence[Example]
) -> list[dict[str, Range]]:
    """Of the start, and of each part of a loop on what the rounds that run it give it. The step is the same product in every round: its
    range covers them all. A branch runs in all rounds but the last, the classifier in the last one."""
    given = [as_arrays(example) for example in examples]
    hidden, of_step, of_branch = _run(start, given, "hidden"), [], []
    step, *heads = parts
    for number in range(steps_of(model.config).count):
        feeds = _feeds(hidden, given)
        of_step += feeds
        hidden = _run(step, feeds, "next_hidden")
        of_branch += _feeds(hidden, given, **weights_of_branch(model, number))
    ranges = [find_ranges(start, given), find_ranges(step, of_step)]
    if heads:
        branch, classifier = heads
        ranges += [find_ranges(branch, of_branch[: -len(given)]), find_ranges(classifier, of_branch[-len(given) :])]
    return ranges


def _feeds(hidden: Sequence[numpy.ndarray], given: Sequence[_Arrays], **others: numpy.ndarray) -> list[_Arrays]:
    return [
        {"hidden": state, "attention_mask": row["attention_mask"], **others}
        for state, row in zip(hidden, given, strict=True)
    ]


def _run(graph: Path, feeds: Sequence[Mapping[str, numpy.ndarray]], output: str) -> list[numpy.ndarray]:
    session = open_session(graph)
    names = [port.name for port in session.get_inputs()]
    return [session.run([output], {name: feed[name] for name in names})[0] for feed in feeds]
