"""Rows of text through an engine: how they become batches, what the engine says of them, and how long each way takes."""

import re
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy

from hf_albert_plus.engines.artefacts import RUNTIMES
from hf_albert_plus.engines.batch_plans import TOKEN_BUDGET, file_batches, token_batches
from hf_albert_plus.engines.batching import pad_rows, run_batches
from hf_albert_plus.engines.classifier_config import answer_rule_of
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.span_answers import best_spans
from hf_albert_plus.errors import InvalidInput, shown
from hf_albert_plus.eval.tag_scores import word_logits
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.heads import is_answerer, is_tagger
from hf_albert_plus.machine import physical_cores
from hf_albert_plus.model_outputs import logits_of
from hf_albert_plus.tasks.joined_answers import text_logits, text_numbers, token_values
from hf_albert_plus.tasks.long_rows import ANSWERING
from hf_albert_plus.tasks.windows import Answering


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
        if self.file_order is not None:
            return target.load(threads=cores), 1
        shares = RUNTIMES[target.runtime].share(cores)
        return target.load(threads=shares.threads), shares.streams


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


class Outputs(NamedTuple):
    """What an engine says of rows, in their order.

    Attributes:
        logits: `[examples, num_labels]`, joined where an example was read in windows; rows in no batch have NaN. Of tags, `[words,
            num_labels]` of each example in a list; of spans, the best one of each question.
        layers: that each row ran, `[rows]`, of an engine with exits.
    """

    logits: Any
    layers: numpy.ndarray | None


def timed_outputs(
    engines: dict[Batching, tuple[Engine, int]], encoded: Any, tokenizer: Any, *, rounds: int, what: str
) -> tuple[Outputs, dict[str, list[float]]]:
    """Outputs of the first way of batching, and each way's seconds in every round, the ways in turns."""
    plans, rows = {way: way.of(encoded["length"]) for way in engines}, encoded.to_list()
    ways = list(engines)
    seconds: dict[str, list[float]] = {str(way): [] for way in ways}
    first = Outputs(numpy.empty(0), None)
    for turn in range(rounds):
        for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
            engine, streams = engines[way]
            predict(engine, rows, tokenizer, plans[way][:2], streams=streams, description=f"warm up {what}")
            start = time.perf_counter()
            outputs = compute(engine, rows, tokenizer, plans[way], streams=streams, description=f"score {what} {way}")
            seconds[str(way)].append(time.perf_counter() - start)
            first = outputs if way is ways[0] else first
    return first, seconds


def predict(engine: Engine, rows: list[dict[str, Any]], tokenizer: Any, batches: list[list[int]], **how: Any) -> Any:
    """The logits of `compute`."""
    return compute(engine, rows, tokenizer, batches, **how).logits


def compute(
    engine: Engine,
    rows: list[dict[str, Any]],
    tokenizer: Any,
    batches: list[list[int]],
    *,
    streams: int = 1,
    description: str | None = "predict",
) -> Outputs:
    """Runs batches of encoded rows."""
    outputs = run_batches(
        engine,
        rows,
        batches,
        pad=lambda some: pad_rows(some, tokenizer),
        streams=streams,
        description=description,
    )
    answering = [row[ANSWERING] for row in rows] if ANSWERING in rows[0] else None
    if is_tagger(engine.config):
        return Outputs(_logits_of_words(rows, outputs, answering), None)
    if is_answerer(engine.config):
        computed = [(row, output) for row, output in zip(rows, outputs, strict=True) if output]
        of_windows = [logits_of(output).numpy() for _, output in computed]
        return Outputs(best_spans([row for row, _ in computed], of_windows, answer_rule_of(engine.config)), None)
    nothing = numpy.full(engine.config.num_labels or 1, numpy.nan, dtype=numpy.float32)
    logits = numpy.stack([output["logits"].numpy() if output else nothing for output in outputs])
    if answering is not None:
        has_several = answer_rule_of(engine.config).has_several
        logits = text_logits(logits, text_numbers(answering), has_several=has_several)
    if not all(output and "layers" in output for output in outputs):
        return Outputs(logits, None)
    return Outputs(logits, numpy.array([int(output["layers"]) for output in outputs]))


def _logits_of_words(
    rows: list[dict[str, Any]], outputs: list[dict[str, Any]], answering: list[Answering] | None
) -> list[numpy.ndarray]:
    """The logits of each text's words, `[W, C]`; of rows in no batch there are none."""
    done = [row for row, output in enumerate(outputs) if output]
    logits: list[Any] = [outputs[row]["logits"].numpy() for row in done]
    pieces = [rows[row]["first_pieces"] for row in done]
    if answering is not None:
        if len(done) < len(rows):
            return []
        logits = [numpy.stack(of_text) for of_text in token_values(logits, answering)]
        pieces = [of_row for of_row in pieces if of_row]
    return [word_logits(logits_SC, of_text) for logits_SC, of_text in zip(logits, pieces, strict=True)]
