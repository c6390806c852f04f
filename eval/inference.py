"""A target's predictions on encoded rows: how rows become batches, and how long each way takes."""

import re
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy

from hf_albert_plus.errors import InvalidInput, shown
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.export.batching import TOKEN_BUDGET, file_batches, pad_rows, run_batches, token_batches
from hf_albert_plus.export.engines import Engine, physical_cores
from hf_albert_plus.export.runtimes import RUNTIMES


@dataclass(frozen=True)
class Batching:
    """How rows of text become batches.

    Attributes:
        token_budget: tokens a batch, padding included, rows of similar length together; engines that can compute a
            batch on each core.
        file_order: batches of this many rows in the file's order instead, one at a time on all cores.
    """

    token_budget: int = TOKEN_BUDGET
    file_order: int | None = None

    def __str__(self) -> str:
        return f"length:{self.token_budget}" if self.file_order is None else f"file:{self.file_order}"

    def of(self, lengths: list[int]) -> list[list[int]]:
        if self.file_order is not None:
            return file_batches(len(lengths), size=self.file_order)
        return token_batches(lengths, budget=self.token_budget)

    def load(self, target: Target, *, threads: int | None) -> tuple[Engine, int]:
        """A target's engine, and how many batches it computes at a time."""
        cores = threads or physical_cores()
        if self.file_order is None and RUNTIMES[target.runtime].concurrent and cores > 1:
            return target.load(threads=1), cores
        return target.load(threads=cores), 1


def parse_batching(text: str) -> Batching:
    """`"length"`, `"length:512"` or `"file:32"` -> how to batch.

    Raises:
        InvalidInput: another form.
    """
    match = re.fullmatch(r"length(?::([1-9][0-9]{0,8}))?|file:([1-9][0-9]{0,8})", text)
    if match is None:
        raise InvalidInput(
            "--batching must be length, length:TOKENS or file:ROWS", got=shown(text), repair="use --batching length"
        )
    if match[2]:
        return Batching(file_order=int(match[2]))
    return Batching(token_budget=int(match[1] or TOKEN_BUDGET))


class Answers(NamedTuple):
    """What an engine says of rows, in their order.

    Attributes:
        logits: `[examples, num_labels]`; rows in no batch have NaN.
        layers: that each row ran, `[examples]`, of an engine with exits.
    """

    logits: numpy.ndarray
    layers: numpy.ndarray | None


def timed_predictions(
    engines: dict[Batching, tuple[Engine, int]], encoded: Any, tokenizer: Any, *, rounds: int, what: str
) -> tuple[Answers, dict[str, list[float]]]:
    """Answers of the first way of batching, and each way's seconds in every round, the ways in turns."""
    plans, rows = {way: way.of(encoded["length"]) for way in engines}, encoded.to_list()
    ways = list(engines)
    samples: dict[str, list[float]] = {str(way): [] for way in ways}
    answers = Answers(numpy.empty(0), None)
    for turn in range(rounds):
        for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
            engine, streams = engines[way]
            predict(engine, rows, tokenizer, plans[way][:2], streams=streams, description=f"warm up {what}")
            start = time.perf_counter()
            found = answer(engine, rows, tokenizer, plans[way], streams=streams, description=f"score {what} {way}")
            samples[str(way)].append(time.perf_counter() - start)
            answers = found if way is ways[0] else answers
    return answers, samples


def predict(
    engine: Engine, rows: list[dict[str, Any]], tokenizer: Any, batches: list[list[int]], **how: Any
) -> numpy.ndarray:
    """The logits of `answer`."""
    return answer(engine, rows, tokenizer, batches, **how).logits


def answer(
    engine: Engine,
    rows: list[dict[str, Any]],
    tokenizer: Any,
    batches: list[list[int]],
    *,
    streams: int = 1,
    description: str | None = "predict",
) -> Answers:
    """Runs batches of encoded rows."""
    outputs = run_batches(
        engine,
        rows,
        batches,
        pad=lambda some: pad_rows(some, tokenizer),
        streams=streams,
        description=description,
    )
    nothing = numpy.full(engine.config.num_labels or 1, numpy.nan, dtype=numpy.float32)
    logits = numpy.stack([output["logits"].numpy() if output else nothing for output in outputs])
    if not all(output and "layers" in output for output in outputs):
        return Answers(logits, None)
    return Answers(logits, numpy.array([int(output["layers"]) for output in outputs]))


__all__ = ["Answers", "Batching", "answer", "parse_batching", "predict", "timed_predictions"]
