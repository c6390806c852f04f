"""The bench of a server against the engine it runs: throughput in turns, then the latency of requests one at a time and at half the pace."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy

from hf_albert_plus.engines.batch_plans import TOKEN_BUDGET, token_batches
from hf_albert_plus.engines.text_answers import Text
from hf_albert_plus.engines.text_model_kinds import open_text_model
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.batched_inference import Batching
from hf_albert_plus.eval.latency.timing import Player, Timings, elapsed_ms, percentiles, summarise, take_turns, warm
from hf_albert_plus.eval.load.agreement import label_agreement
from hf_albert_plus.eval.load.clients import Clients, Reply
from hf_albert_plus.eval.load.peers_served import PEERS, PeerProcess, awake
from hf_albert_plus.eval.load.server_process import ServerProcess
from hf_albert_plus.eval.load.traffic import Client, Traffic
from hf_albert_plus.eval.measured_documents import Percentiles, to_json
from hf_albert_plus.eval.settings import ServedSettings
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.heads import is_bare_encoder
from hf_albert_plus.machine import FORMAT, environment
from hf_albert_plus.tasks.rows import fits_positions
from hf_albert_plus.tasks.task import Task, check_answers_texts, check_no_spans

BARE = "engine"
SERVED = "served"
# Sentences and requests of a block, so that its beginning and end count little.
_BLOCK, _REQUESTS = 6000, 1000
_ROUNDS = 10
_LATE_CLIENTS = 32


@dataclass(frozen=True)
class _Server:
    """A server that is asked, and its requests."""

    port: int
    path: str
    bodies: list[bytes]

    def clients(self, count: int) -> Clients:
        return Clients("127.0.0.1", self.port, count=count, path=self.path)

    def ask(self, count: int, bodies: Sequence[bytes]) -> list[Reply]:
        """The answers to some requests, from so many clients at a time."""
        asking = self.clients(count)
        replies = checked(asking.closed_loop(bodies))
        asking.close()
        return replies

    def time_block(self, count: int) -> float:
        """Milliseconds for all requests, of clients whose connections are open."""
        asking = self.clients(count)
        asking.closed_loop(self.bodies[: 2 * count])
        took = elapsed_ms(lambda: checked(asking.closed_loop(self.bodies)))
        asking.close()
        return took


def bench_served(
    target: Target, traffic: Traffic, settings: ServedSettings, *, cluster: bool = False, peers: Path | None = None
) -> dict[str, Any]:
    """Starts a server of a target and loads it with real sentences.

    Throughput is a ratio in one run: the engine alone and the servers take turns with the same sentences in the same groups. The engine's
    are in tokens before, and each group's are batched as the server batches them, a batch a core. A server gets
    a request for a group, from clients that share its cores.

    Args:
        cluster: run the model on Ray Serve, a replica in a process of its own.
        peers: folder of the environments of other servers, which are asked as well; None for none.

    Raises:
        InvalidInput: a server that does not start or answer, or peers for what they do not take.
    """
    check_no_spans(
        traffic.task, what="bench serve", repair="time the engine alone: albert-plus bench DIR:RUNTIME --data …"
    )
    if peers is not None:
        check_answers_texts(traffic.task, what="bench serve --peers", repair="leave out --peers")
    texts, clients = settings.texts, settings.clients
    way = Batching()
    engine, streams = way.load(target, threads=None)
    gives_vectors = is_bare_encoder(engine.config)
    if gives_vectors:
        _check_vectors(traffic.task, peers)
    fits_positions(engine.config, traffic.max_length)
    client = Client(target, engine, traffic)
    groups = _groups(len(client.rows_of), texts)
    asked = [[traffic.text(number) for number in group] for group in groups]
    call_tokens = _call_tokens(target, traffic.max_length)
    batches = [_batches(group, client, call_tokens=call_tokens) for group in groups]
    plan = [batch for of_group in batches for batch in of_group]
    before = environment()
    options = ["--wait-ms", f"{settings.wait_ms:g}", "--deadline", "60"]
    with ExitStack() as stack:
        others = [
            stack.enter_context(PeerProcess(peer, target, peers, _plain_texts(asked[0])))
            for peer in PEERS
            if peers is not None
        ]
        for other in others:
            other.sleep()
        server = stack.enter_context(
            ServerProcess(f"{target.directory}:{target.runtime}", *options, *(["--cluster"] if cluster else []))
        )
        ours = _Server(
            server.port,
            "/embed" if gives_vectors else traffic.path,
            [traffic.request(group) for group in groups],
        )
        agreement = label_agreement(
            ours.ask(clients, ours.bodies[: -(-len(client.rows_of) // texts)]), client, engine, groups
        )
        spent: list[dict[str, float]] = []
        walls_s: list[float] = []

        def serve_block(_: int) -> list[float]:
            start, began = server.cpu_seconds(), time.perf_counter()
            took = ours.time_block(clients)
            walls_s.append(time.perf_counter() - began)
            end = server.cpu_seconds()
            spent.append({part: end[part] - start[part] for part in end})
            return [took]

        run = partial(client.answer_all, engine, plan, streams=streams)
        players: dict[str, Player] = {BARE: lambda _: [elapsed_ms(run)], SERVED: serve_block}
        settle: dict[str, Callable[[], object]] = {
            BARE: client.answer_longest,
            SERVED: lambda: ours.ask(clients, ours.bodies[:clients]),
        }
        theirs: dict[str, tuple[PeerProcess, _Server]] = {}
        for other in others:
            name = other.peer.name
            made = _Server(other.port, other.peer.path, [other.peer.body(_plain_texts(some)) for some in asked])
            theirs[name] = other, made
            players[name], settle[name] = _turns(other, made, clients)
        warm_up = {label: warm(call, seconds=1) for label, call in settle.items()}
        rounds = take_turns(players, settle=settle, baseline=BARE, description="throughput", rounds=_ROUNDS)
        sentences = sum(map(len, groups))
        throughput = summarise(Timings(rounds, warm_up), baseline=BARE, items=sentences)
        engine_alone = _engine_alone(client, batches, seconds=settings.seconds / 4)
        latency = {SERVED: _latency(ours, throughput[SERVED].items_per_s / texts, seconds=settings.seconds)}
        memory_mb = server.memory_mb()
        for name, (other, made) in theirs.items():
            with awake(other):
                latency[name] = _latency(made, throughput[name].items_per_s / texts, seconds=settings.seconds)
    total = sum(sum(one.values()) for one in spent)
    available_s = before["cores"] * sum(walls_s)
    return {
        "kind": "served",
        "format": FORMAT,
        "target": f"{target.directory}:{target.runtime}",
        "texts_a_request": texts,
        "clients": clients,
        "streams": streams,
        "cluster": cluster,
        "wait_ms": settings.wait_ms,
        "label_agreement": agreement,
        "throughput": to_json(throughput),
        "cpu_split": {part: round(sum(one[part] for one in spent) / total, 4) for part in spent[0]},
        "cores_busy": round(total / available_s, 4),
        "ready_s": server.ready_s,
        "memory_mb": memory_mb,
        "engine_alone": to_json(engine_alone),
        **latency.pop(SERVED),
        "peers": latency,
        "environment": before,
    }


def _call_tokens(target: Target, max_length: int) -> float:
    """What the server knows as well of how its engine likes its batches."""
    model = open_text_model(target.directory, target.runtime, cores=1, max_length=max_length)
    model.warm_up()
    return model.call_tokens()


def _check_vectors(task: Task, peers: Path | None) -> None:
    """Refuses what an encoder does not answer.

    Raises:
        InvalidInput: pairs of texts, words with tags, or peers, which give labels.
    """
    check_answers_texts(task, what="bench serve of an encoder", repair="use another --task")
    if len(task.columns) > 1:
        raise InvalidInput(
            "an encoder gives vectors of single texts", got=f"{task.name}, a task of pairs", repair="use another --task"
        )
    if peers is not None:
        raise InvalidInput("--peers give labels", got="an encoder, which gives vectors", repair="leave it out")


def _batches(group: Sequence[int], client: Client, *, call_tokens: float) -> list[list[int]]:
    """The batches in which an engine computes a group."""
    rows = [row for number in group for row in client.rows_of[number]]
    batches = token_batches([client.lengths[row] for row in rows], budget=TOKEN_BUDGET, call_tokens=call_tokens)
    return [[rows[place] for place in batch] for batch in batches]


def _plain_texts(texts: Sequence[Text]) -> list[str]:
    """
    Raises:
        InvalidInput: pairs, which the peers are not made for.
    """
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInput(
            "--peers are asked for single texts", got="a task of pairs", repair="leave it out, or use another --task"
        )
    return [text for text in texts if isinstance(text, str)]


def _turns(other: PeerProcess, made: _Server, clients: int) -> tuple[Player, Callable[[], object]]:
    """A block of a peer's, and what it does before it; it sleeps in between."""

    def block(_: int) -> list[float]:
        with awake(other):
            return [made.time_block(clients)]

    def settle() -> None:
        with awake(other):
            made.ask(clients, made.bodies[:clients])

    return block, settle


def _answer_all(client: Client, batches: list[list[int]]) -> None:
    for batch in batches:
        client.answer_rows(batch)


def _engine_alone(client: Client, batches: list[list[list[int]]], *, seconds: float) -> Percentiles:
    """Percentiles of the engine that computes one request's texts after another's."""
    waits_ms: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        of_group = batches[len(waits_ms) % len(batches)]
        waits_ms.append(elapsed_ms(partial(_answer_all, client, of_group)))
    return percentiles(numpy.asarray(waits_ms))


def _latency(server: _Server, requests_per_s: float, *, seconds: float) -> dict[str, Any]:
    """Percentiles of a server's requests: one at a time, and at half of its pace."""
    alone = _one_at_a_time(server, seconds=seconds)
    rate = requests_per_s / 2
    loaded = _at_rate(server, rate=rate, seconds=seconds)
    return {"one_at_a_time": to_json(alone), "half_pace": {"requests_per_s": round(rate, 2), **to_json(loaded)}}


def _groups(sentences: int, texts: int) -> list[list[int]]:
    """Numbers of sentences, `texts` a request, through the file again and again."""
    count = max(1, min(_REQUESTS, _BLOCK // texts))
    return [[(first * texts + place) % sentences for place in range(texts)] for first in range(count)]


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


def _one_at_a_time(server: _Server, *, seconds: float) -> Percentiles:
    """Percentiles of requests of which each is sent when the one before is answered."""
    asking, bodies = server.clients(1), server.bodies
    pace_ms = numpy.median([reply.ms for reply in checked(asking.closed_loop(bodies[:20]))])
    count = max(20, round(seconds * 1e3 / pace_ms))
    replies = checked(asking.closed_loop([bodies[number % len(bodies)] for number in range(count)]))
    asking.close()
    return percentiles(numpy.asarray([reply.ms for reply in replies]))


def _at_rate(server: _Server, *, rate: float, seconds: float) -> Percentiles:
    """Percentiles from arrival to answer, of a Poisson process."""
    asking, bodies = server.clients(_LATE_CLIENTS), server.bodies
    asking.closed_loop(bodies[: 2 * _LATE_CLIENTS])
    count = max(20, round(rate * seconds))
    arrivals = numpy.random.default_rng(0).exponential(1 / rate, size=count).cumsum()
    replies = checked(asking.open_loop([bodies[number % len(bodies)] for number in range(count)], arrivals.tolist()))
    asking.close()
    return percentiles(numpy.asarray([reply.ms for reply in replies]))
