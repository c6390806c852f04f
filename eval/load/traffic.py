"""Real sentences as traffic, in MLPerf's three scenarios (Reddi et al., 2020, section 4).

Single stream: one sentence at a time, the next as soon as one is answered. Offline: all at once, in the best batches.
Server: they arrive by a Poisson process whether or not the last was answered; what waits is answered together.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy

from hf_albert_plus.engines.batch_plans import TOKEN_BUDGET
from hf_albert_plus.engines.batching import pad_rows, run_batches
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.text_answers import Text
from hf_albert_plus.eval.batched_inference import Batching
from hf_albert_plus.eval.latency.timing import (
    Player,
    Timings,
    WarmUp,
    current_method,
    elapsed_ms,
    summarise,
    take_turns,
    warm,
)
from hf_albert_plus.eval.measured_documents import Cell
from hf_albert_plus.eval.settings import BenchSettings
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.eval.window_counts import WindowCount
from hf_albert_plus.tasks.joined_answers import rows_of_texts
from hf_albert_plus.tasks.long_rows import numbers_of
from hf_albert_plus.tasks.row_texts import texts_of
from hf_albert_plus.tasks.rows import encode, load_tokenizer
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task import Task

if TYPE_CHECKING:
    from datasets import Dataset

Scenario = Literal["single-stream", "offline", "server"]
SCENARIOS: tuple[Scenario, ...] = ("single-stream", "offline", "server")
# What a pass keeps: of an encoder's hidden states a file would have gigabytes.
_ANSWERS = ("logits", "sentence_embedding")
_SERVER_ROUNDS = 6
_OFFLINE_ROUNDS = 6


@dataclass(frozen=True)
class Traffic:
    """Sentences of a task's first evaluation split, in the file's order.

    Attributes:
        at_most: so many of them, evenly over the file; None for all.
    """

    data: str
    task: Task
    max_length: int = 128
    at_most: int | None = None

    @cached_property
    def rows(self) -> "Dataset":
        rows = load_split(self.data, self.task, self.task.judging_split)
        if self.at_most is None or len(rows) <= self.at_most:
            return rows
        return rows.select(numpy.linspace(0, len(rows) - 1, self.at_most).round().astype(int))

    def text(self, number: int) -> Text:
        """A sentence, or a pair of them."""
        ((first, *second),) = texts_of(self.rows.select([number]), self.task)
        return (first, second[0]) if second else first

    @property
    def path(self) -> str:
        """The route of a server that answers them."""
        return "/tag" if self.task.has_tags else "/classify"

    def request(self, numbers: Sequence[int]) -> bytes:
        """What that route is asked for some sentences, those that are too long to be cut."""
        if self.task.has_tags:
            inputs: list[Any] = [{"words": words} for words in self.rows.select(numbers)[self.task.columns[0]]]
        else:
            inputs = [as_asked(self.text(number)) for number in numbers]
        return json.dumps({"inputs": inputs, "truncate": True}).encode()


def as_asked(text: Text) -> str | dict[str, str]:
    """A text or a pair as requests carry them."""
    return text if isinstance(text, str) else {"text": text[0], "text_pair": text[1]}


class Client:
    """A target with the traffic's sentences in its own tokens. Tokenisation is done before anything is timed.

    Attributes:
        rows, lengths: of tokens, and how many each has.
        rows_of: the numbers of each sentence's rows: one, or those of its windows.
        tokens: of each sentence, in all of its rows.
        windows: of a sentence, where long ones are read in several, or of a question.
    """

    def __init__(self, target: Target, engine: Engine, traffic: Traffic):
        self.target, self.engine = target, engine
        self.tokenizer = load_tokenizer(target.directory, engine.config)
        encoded = encode(traffic.rows, traffic.task, self.tokenizer, max_length=traffic.max_length)
        self.rows, numbers = encoded.to_list(), numbers_of(encoded)
        self.lengths = [row["length"] for row in self.rows]
        self.windows = WindowCount.of(numbers)
        self.rows_of = rows_of_texts(range(len(self.rows)) if numbers is None else numbers)
        self.tokens = [sum(self.lengths[row] for row in of_text) for of_text in self.rows_of]
        self.longest = int(numpy.argmax(self.tokens))

    def answer(self, numbers: Sequence[int]) -> object:
        """One batch of sentences, by their numbers, all windows of each."""
        return self.answer_rows([row for number in numbers for row in self.rows_of[number % len(self.rows_of)]])

    def answer_rows(self, numbers: Sequence[int]) -> object:
        """One batch of rows, by their numbers."""
        return self.engine(**pad_rows([self.rows[number] for number in numbers], self.tokenizer))

    def answer_all(self, engine: Engine, batches: list[list[int]], *, streams: int) -> None:
        """Batches of sentences on the target's engine, as it is opened for so many of them at a time."""
        pad = partial(pad_rows, tokenizer=self.tokenizer)
        run_batches(engine, self.rows, batches, pad=pad, streams=streams, kept=_ANSWERS, description=None)

    def answer_longest(self) -> object:
        return self.answer([self.longest])


def time_single_stream(clients: dict[str, Client], *, baseline: str, seconds: float, name: str) -> dict[str, Cell]:
    """Label -> cell: latencies of single sentences. In a round every row answers the same ones."""
    warm_up = {label: warm(client.answer_longest) for label, client in clients.items()}
    slowest = max(of_label.call_ms for of_label in warm_up.values())
    count = max(4, round(seconds * 1e3 / current_method().rounds / slowest))

    def play(client: Client, turn: int) -> list[float]:
        first = turn * count
        return [elapsed_ms(partial(client.answer, [number])) for number in range(first, first + count)]

    limit_s = current_method().patience * seconds * len(clients)
    return _play(clients, play, warm_up, baseline=baseline, description=f"time {name}", limit_s=limit_s)


def time_offline(
    clients: dict[str, Client], *, baseline: str, seconds: float, name: str, threads: int | None
) -> dict[str, Cell]:
    """Label -> cell: milliseconds of whole passes over the sentences, batched by length, a batch on each core where the
    runtime can."""
    way = Batching()
    loaded = {label: way.load(client.target, threads=threads) for label, client in clients.items()}
    plans = {label: way.of(client.lengths) for label, client in clients.items()}

    def run_pass(label: str) -> None:
        (engine, streams), client = loaded[label], clients[label]
        client.answer_all(engine, plans[label], streams=streams)

    warm_up = {label: _two_passes(partial(run_pass, label)) for label in clients}
    slowest = max(of_label.call_ms for of_label in warm_up.values())
    rounds = max(_OFFLINE_ROUNDS, min(current_method().rounds, round(seconds * 1e3 / slowest)))

    def play(client: Client, _: int) -> list[float]:
        return [elapsed_ms(partial(run_pass, client.target.label))]

    sentences = len(next(iter(clients.values())).rows_of)
    return _play(
        clients,
        play,
        warm_up,
        baseline=baseline,
        description=f"time {name}",
        rounds=rounds,
        items=sentences,
    )


def _two_passes(run_pass: Callable[[], object]) -> WarmUp:
    """Whole passes are long: two are warm enough, and say whether they agree within 5 %."""
    first, second = elapsed_ms(run_pass), elapsed_ms(run_pass)
    return WarmUp(calls=2, stable=abs(second - first) <= 0.05 * first, call_ms=min(first, second))


def time_server(
    clients: dict[str, Client], *, baseline: str, seconds: float, rate: float, name: str
) -> dict[str, Cell]:
    """Label -> cell: milliseconds from a sentence's arrival to its answer, at `rate` sentences a second.

    Every round is an open loop of its own with the same arrivals for every row.
    """
    BenchSettings(seconds=seconds, rate=(rate,))
    warm_up = {label: warm(client.answer_longest) for label, client in clients.items()}
    count = max(8, round(rate * seconds / _SERVER_ROUNDS))
    batches: dict[str, list[int]] = {label: [] for label in clients}
    spans: dict[str, float] = dict.fromkeys(clients, 0.0)

    def play(client: Client, turn: int) -> list[float]:
        arrivals = numpy.random.default_rng(turn).exponential(1 / rate, size=count).cumsum()
        first = turn * count
        loop = open_loop(
            arrivals,
            lengths=[client.tokens[(first + number) % len(client.tokens)] for number in range(count)],
            answer=lambda numbers: client.answer([first + number for number in numbers]),
        )
        batches[client.target.label] += loop.batches
        spans[client.target.label] += loop.seconds
        return loop.latencies_ms

    cells = _play(clients, play, warm_up, baseline=baseline, description=f"time {name}", rounds=_SERVER_ROUNDS)
    answered_per_s = {label: round(cell.samples / spans[label], 2) for label, cell in cells.items()}
    return {
        label: replace(
            cell,
            items_per_s=answered_per_s[label],
            mean_batch=round(float(numpy.mean(batches[label])), 2),
            # Far under the rate of arrival, what is timed is a queue that grows for as long as one looks.
            kept_up=answered_per_s[label] > 0.9 * rate,
        )
        for label, cell in cells.items()
    }


@dataclass(frozen=True)
class OpenLoop:
    """What came of an open loop: milliseconds from arrival to answer, sizes of the batches, seconds from the first arrival on."""

    latencies_ms: list[float]
    batches: list[int]
    seconds: float


def open_loop(
    arrivals: Sequence[float] | numpy.ndarray,
    *,
    lengths: Sequence[int],
    answer: Callable[[list[int]], object],
    budget: int = TOKEN_BUDGET,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> OpenLoop:
    """Answers what has arrived, first come first served, together as far as the token budget goes.

    Args:
        arrivals: seconds after the start, ascending.
        lengths: tokens of each.
    """
    start, done = clock(), 0
    latencies: list[float] = []
    batches: list[int] = []
    while done < len(arrivals):
        now = clock() - start
        if arrivals[done] > now:
            _wait(arrivals[done] - now, clock=clock, sleep=sleep)
            continue
        batch, longest = [done], lengths[done]
        while (following := done + len(batch)) < len(arrivals) and arrivals[following] <= now:
            longest = max(longest, lengths[following])
            if longest * (len(batch) + 1) > budget:
                break
            batch.append(following)
        answer(batch)
        end = clock() - start
        latencies += [(end - float(arrivals[number])) * 1e3 for number in batch]
        batches.append(len(batch))
        done += len(batch)
    return OpenLoop(latencies, batches, clock() - start - float(arrivals[0]))


def _wait(seconds: float, *, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
    """Sleeps most of the time and looks at the clock for the rest: a sleep ends late."""
    end = clock() + seconds
    if seconds > 0.002:
        sleep(seconds - 0.001)
    while clock() < end:
        sleep(0)


def _play(
    clients: dict[str, Client],
    play: Callable[[Client, int], list[float]],
    warm_up: dict[str, WarmUp],
    *,
    baseline: str,
    items: int = 1,
    **turns: Any,
) -> dict[str, Cell]:
    players: dict[str, Player] = {label: partial(play, client) for label, client in clients.items()}
    settle = {label: client.answer_longest for label, client in clients.items()}
    rounds = take_turns(players, settle=settle, baseline=baseline, **turns)
    return summarise(Timings(rounds=rounds, warm_up=warm_up), baseline=baseline, items=items)
