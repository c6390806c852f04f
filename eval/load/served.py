"""The bench of a server against the engine it runs: throughput in turns, then the latency of requests one at a time and at half the pace."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy

from hf_albert_plus.engines.batch_plans import TOKEN_BUDGET, token_batches
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.text_answers import Text
from hf_albert_plus.engines.text_model_kinds import open_text_model
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.batched_inference import Batching
from hf_albert_plus.eval.latency.timing import Player, Timings, elapsed_ms, percentiles, summarise, take_turns, warm
from hf_albert_plus.eval.load.agreement import label_agreement
from hf_albert_plus.eval.load.asked_server import AskedServer
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


@dataclass(frozen=True)
class _Work:
    """What engine and servers are asked for: sentences, a group of them a request.

    Attributes:
        client: the target with the sentences in its tokens.
        engine, streams: the target, and how many batches it computes at a time.
        groups: numbers of the sentences of each request.
        batches: those in which the server's engine computes each group.
        path: the server's route.
    """

    traffic: Traffic
    client: Client
    engine: Engine
    streams: int
    groups: list[list[int]]
    batches: list[list[list[int]]]
    path: str

    @classmethod
    def of(cls, target: Target, traffic: Traffic, *, texts: int, peers: Path | None) -> "_Work":
        """
        Args:
            texts: of a request.
        """
        engine, streams = Batching().load(target, threads=None)
        gives_vectors = is_bare_encoder(engine.config)
        if gives_vectors:
            _check_vectors(traffic.task, peers)
        fits_positions(engine.config, traffic.max_length)
        client = Client(target, engine, traffic)
        groups = _groups(len(client.rows_of), texts)
        call_tokens = _call_tokens(target, traffic.max_length)
        batches = [_batches(group, client, call_tokens=call_tokens) for group in groups]
        return cls(traffic, client, engine, streams, groups, batches, path="/embed" if gives_vectors else traffic.path)

    @property
    def sentences(self) -> int:
        return sum(map(len, self.groups))

    @property
    def plain_texts(self) -> list[list[str]]:
        """The texts of each request, as peers take them."""
        return [_plain_texts([self.traffic.text(number) for number in group]) for group in self.groups]

    def asked_of(self, port: int) -> AskedServer:
        """Our server, with the requests."""
        return AskedServer(port, self.path, [self.traffic.request(group) for group in self.groups])

    def agreement(self, server: AskedServer, clients: int) -> float | None:
        """How often server and engine say the same, as `label_agreement` counts it."""
        once = -(-len(self.client.rows_of) // len(self.groups[0]))
        return label_agreement(server.ask(clients, server.bodies[:once]), self.client, self.engine, self.groups)

    @cached_property
    def plan(self) -> list[list[int]]:
        """The batches of all groups, put together once: what is timed only computes them."""
        return [batch for of_group in self.batches for batch in of_group]

    def answer(self) -> None:
        """All groups on the engine alone, a batch a core."""
        self.client.answer_all(self.engine, self.plan, streams=self.streams)

    def engine_alone(self, *, seconds: float) -> Percentiles:
        """Percentiles of the engine that computes one request's texts after another's."""
        waits_ms: list[float] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            of_group = self.batches[len(waits_ms) % len(self.batches)]
            waits_ms.append(elapsed_ms(partial(_answer_all, self.client, of_group)))
        return percentiles(numpy.asarray(waits_ms))


@dataclass
class _WatchedServer:
    """Our server, and the seconds of its cores while it is timed.

    Attributes:
        spent: part of the server -> seconds of a core, of each block.
        walls_s: of each block.
    """

    process: ServerProcess
    asked: AskedServer
    clients: int
    spent: list[dict[str, float]] = field(default_factory=list)
    walls_s: list[float] = field(default_factory=list)

    def block(self, _: int) -> list[float]:
        start, began = self.process.cpu_seconds(), time.perf_counter()
        took = self.asked.time_block(self.clients)
        self.walls_s.append(time.perf_counter() - began)
        end = self.process.cpu_seconds()
        self.spent.append({part: end[part] - start[part] for part in end})
        return [took]

    def facts(self, *, cores: int) -> dict[str, Any]:
        """Where the time of its cores went, as JSON."""
        total = sum(sum(one.values()) for one in self.spent)
        return {
            "cpu_split": {part: round(sum(one[part] for one in self.spent) / total, 4) for part in self.spent[0]},
            "cores_busy": round(total / (cores * sum(self.walls_s)), 4),
            "ready_s": self.process.ready_s,
        }


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
    work = _Work.of(target, traffic, texts=settings.texts, peers=peers)
    clients, before = settings.clients, environment()
    options = ["--wait-ms", f"{settings.wait_ms:g}", "--deadline", "60", *(["--cluster"] if cluster else [])]
    with ExitStack() as stack:
        others = [] if peers is None else _begin_peers(stack, target, work, peers)
        process = stack.enter_context(ServerProcess(f"{target.directory}:{target.runtime}", *options))
        ours = _WatchedServer(process, work.asked_of(process.port), clients)
        agreement = work.agreement(ours.asked, clients)
        players: dict[str, Player] = {BARE: lambda _: [elapsed_ms(work.answer)], SERVED: ours.block}
        settle: dict[str, Callable[[], object]] = {
            BARE: work.client.answer_longest,
            SERVED: lambda: ours.asked.ask(clients, ours.asked.bodies[:clients]),
        }
        for other, asked in others:
            players[other.peer.name], settle[other.peer.name] = _turns(other, asked, clients)
        warm_up = {label: warm(call, seconds=1) for label, call in settle.items()}
        rounds = take_turns(players, settle=settle, baseline=BARE, description="throughput", rounds=_ROUNDS)
        throughput = summarise(Timings(rounds, warm_up), baseline=BARE, items=work.sentences)
        engine_alone = work.engine_alone(seconds=settings.seconds / 4)
        paces = {name: each.items_per_s / settings.texts for name, each in throughput.items()}
        latency = ours.asked.latency(paces[SERVED], seconds=settings.seconds)
        memory_mb = process.memory_mb()
        of_peers = {}
        for other, asked in others:
            with awake(other):
                of_peers[other.peer.name] = asked.latency(paces[other.peer.name], seconds=settings.seconds)
    return {
        "kind": "served",
        "format": FORMAT,
        "target": f"{target.directory}:{target.runtime}",
        "texts_a_request": settings.texts,
        "clients": clients,
        "streams": work.streams,
        "cluster": cluster,
        "wait_ms": settings.wait_ms,
        "label_agreement": agreement,
        "throughput": to_json(throughput),
        **ours.facts(cores=before["cores"]),
        "memory_mb": memory_mb,
        "engine_alone": to_json(engine_alone),
        **latency,
        "peers": of_peers,
        "environment": before,
    }


def _begin_peers(stack: ExitStack, target: Target, work: _Work, peers: Path) -> list[tuple[PeerProcess, AskedServer]]:
    """Starts the other servers, which sleep until it is their turn."""
    texts = work.plain_texts
    begun = [stack.enter_context(PeerProcess(peer, target, peers, texts[0])) for peer in PEERS]
    for other in begun:
        other.sleep()
    return [(each, AskedServer(each.port, each.peer.path, [each.peer.body(some) for some in texts])) for each in begun]


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


def _turns(other: PeerProcess, asked: AskedServer, clients: int) -> tuple[Player, Callable[[], object]]:
    """A block of a peer's, and what it does before it; it sleeps in between."""

    def block(_: int) -> list[float]:
        with awake(other):
            return [asked.time_block(clients)]

    def settle() -> None:
        with awake(other):
            asked.ask(clients, asked.bodies[:clients])

    return block, settle


def _answer_all(client: Client, batches: list[list[int]]) -> None:
    for batch in batches:
        client.answer_rows(batch)


def _groups(sentences: int, texts: int) -> list[list[int]]:
    """Numbers of sentences, `texts` a request, through the file again and again."""
    count = max(1, min(_REQUESTS, _BLOCK // texts))
    return [[(first * texts + place) % sentences for place in range(texts)] for first in range(count)]
