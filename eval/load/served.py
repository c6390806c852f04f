"""The bench of a server against the engine it runs: throughput in turns, then the latency of requests one at a time and at half the pace."""

import json
from functools import partial
from typing import Any

import numpy

from hf_albert_plus.engines.batch_plans import TOKEN_BUDGET, token_batches
from hf_albert_plus.engines.classifier_config import answer_rule_of
from hf_albert_plus.engines.text_answers import Text
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.batched_inference import Batching, predict
from hf_albert_plus.eval.latency.timing import Player, Timings, elapsed_ms, percentiles, summarise, take_turns, warm
from hf_albert_plus.eval.load.server_process import Clients, Reply, ServerProcess
from hf_albert_plus.eval.load.traffic import Client, Traffic
from hf_albert_plus.eval.measured_documents import Percentiles, to_json
from hf_albert_plus.eval.settings import ServedSettings
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.machine import FORMAT, environment
from hf_albert_plus.records.progress import track
from hf_albert_plus.tasks.rows import fits_positions

BARE = "engine"
SERVED = "served"
# Sentences that a block answers, so that its beginning and end count little.
_BLOCK = 6000
_ROUNDS = 10
_LATE_CLIENTS = 32


def bench_served(
    target: Target, traffic: Traffic, *, texts: int, clients: int, seconds: float, wait_ms: float
) -> dict[str, Any]:
    """Starts a server of a target and loads it with real sentences.

    Throughput is a ratio in one run: the engine alone and the server take turns with the same sentences in the same groups. The engine's
    are in tokens before, and each group's are batched by length under the server's token budget, a batch a core. The server gets
    a request for a group, from clients that share its cores.

    Args:
        texts: sentences of a request.
        clients: clients that ask at a time.
        seconds: length of the one-at-a-time measurement and of the open loop.
        wait_ms: how long the server lets a sentence wait for others.

    Raises:
        InvalidInput: a count below 1, or a server that does not start or answer.
    """
    ServedSettings(texts=texts, clients=clients, seconds=seconds, wait_ms=wait_ms, max_length=traffic.max_length)
    way = Batching()
    engine, streams = way.load(target, threads=None)
    fits_positions(engine.config, traffic.max_length)
    client = Client(target, engine, traffic)
    groups = _groups(len(client.rows), texts)
    bodies = [
        json.dumps({"inputs": [as_asked(traffic.text(number)) for number in group], "truncate": True}).encode()
        for group in groups
    ]
    plan = [
        [group[place] for place in batch]
        for group in groups
        for batch in token_batches([client.lengths[number] for number in group], budget=TOKEN_BUDGET)
    ]
    before = environment()
    options = ("--wait-ms", f"{wait_ms:g}", "--streams", str(streams), "--deadline", "60")
    with ServerProcess(f"{target.directory}:{target.runtime}", *options) as server:
        asking = Clients("127.0.0.1", server.port, count=clients)
        agreement = _agreement(asking.closed_loop(bodies[: -(-len(client.rows) // texts)]), client, engine, groups)
        spent: list[dict[str, float]] = []

        def serve_block(_: int) -> list[float]:
            start = server.cpu_seconds()
            took = elapsed_ms(lambda: checked(asking.closed_loop(bodies)))
            end = server.cpu_seconds()
            spent.append({part: end[part] - start[part] for part in end})
            return [took]

        run = partial(predict, engine, client.rows, client.tokenizer, plan, streams=streams, description=None)
        players: dict[str, Player] = {BARE: lambda _: [elapsed_ms(run)], SERVED: serve_block}
        settle = {BARE: client.answer_longest, SERVED: lambda: asking.closed_loop(bodies[:clients])}
        warm_up = {label: warm(call, seconds=1) for label, call in settle.items()}
        rounds = take_turns(players, settle=settle, baseline=BARE, description="throughput", rounds=_ROUNDS)
        sentences = sum(map(len, groups))
        throughput = summarise(Timings(rounds, warm_up), baseline=BARE, items=sentences)
        asking.close()
        alone = _one_at_a_time(server.port, bodies, seconds=seconds)
        rate = throughput[SERVED].items_per_s / texts / 2
        loaded = _at_rate(server.port, bodies, rate=rate, seconds=seconds)
    total = sum(sum(one.values()) for one in spent)
    available_s = before["cores"] * sum(block[0] for block in rounds[SERVED]) / 1e3
    return {
        "kind": "served",
        "format": FORMAT,
        "target": f"{target.directory}:{target.runtime}",
        "texts_a_request": texts,
        "clients": clients,
        "streams": streams,
        "wait_ms": wait_ms,
        "label_agreement": agreement,
        "throughput": to_json(throughput),
        "cpu_split": {part: round(sum(one[part] for one in spent) / total, 4) for part in spent[0]},
        "cores_busy": round(total / available_s, 4),
        "one_at_a_time": to_json(alone),
        "half_pace": {"requests_per_s": round(rate, 2), **to_json(loaded)},
        "environment": before,
    }


def _groups(sentences: int, texts: int) -> list[list[int]]:
    """Numbers of sentences, `texts` a request, through the file again and again."""
    count = max(1, _BLOCK // texts)
    return [[(first * texts + place) % sentences for place in range(texts)] for first in range(count)]


def as_asked(text: Text) -> str | dict[str, str]:
    """A text or a pair as requests carry them."""
    return text if isinstance(text, str) else {"text": text[0], "text_pair": text[1]}


def checked(replies: list[Reply]) -> list[Reply]:
    """The replies, each of which must be an answer.

    Raises:
        InvalidInput: the server refused one.
    """
    for reply in replies:
        if reply.status != 200:
            raise InvalidInput(
                "the server must answer every request",
                got=f"{reply.status}: {reply.json()['error']}",
                repair="use fewer --clients or --texts",
            )
    return replies


def _agreement(replies: list[Reply], client: Client, engine: Any, groups: list[list[int]]) -> float | None:
    """Share of sentences to which server and engine give the same label, or the same set of several; None of a regression. In int8 what
    shares a batch moves its scores a little."""
    rule = answer_rule_of(engine.config)
    if not rule.decides:
        return None
    logits = predict(
        engine,
        client.rows,
        client.tokenizer,
        token_batches(client.lengths, budget=TOKEN_BUDGET),
        streams=1,
        description=None,
    )
    labels = [{each["label"] for each in rule.answer(row)} for row in rule.scores(logits)]
    same = [
        labels[number] == ({each["label"] for each in one["labels"]} if rule.has_several else {one["label"]})
        for group, reply in zip(groups, checked(replies), strict=False)
        for number, one in zip(group, reply.json()["predictions"], strict=True)
    ]
    return round(float(numpy.mean(same)), 5)


def _one_at_a_time(port: int, bodies: list[bytes], *, seconds: float) -> Percentiles:
    """Percentiles of requests of which each is sent when the one before is answered."""
    asking = Clients("127.0.0.1", port, count=1)
    pace_ms = numpy.median([reply.ms for reply in checked(asking.closed_loop(bodies[:20]))])
    count = max(20, round(seconds * 1e3 / pace_ms))
    numbers = track(range(count), total=count, description="one at a time")
    waits_ms = [checked(asking.closed_loop([bodies[number % len(bodies)]]))[0].ms for number in numbers]
    asking.close()
    return percentiles(numpy.asarray(waits_ms))


def _at_rate(port: int, bodies: list[bytes], *, rate: float, seconds: float) -> Percentiles:
    """Percentiles from arrival to answer, of a Poisson process."""
    asking = Clients("127.0.0.1", port, count=_LATE_CLIENTS)
    asking.closed_loop(bodies[: 2 * _LATE_CLIENTS])
    count = max(20, round(rate * seconds))
    arrivals = numpy.random.default_rng(0).exponential(1 / rate, size=count).cumsum()
    replies = checked(asking.open_loop([bodies[number % len(bodies)] for number in range(count)], arrivals.tolist()))
    asking.close()
    return percentiles(numpy.asarray([reply.ms for reply in replies]))
