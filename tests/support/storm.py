"""Good and bad requests at a server that is hurt meanwhile; what each must be answered is known before.

python -m tests.support.storm MODEL_DIR --engine onnx-int8 --data nyu-mll/glue --seconds 180
"""

import argparse
import http.client
import json
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import psutil

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.eval.load.server_process import ServerProcess
from hf_albert_plus.tasks.rows import load_tokenizer

MAX_BODY = 200_000
TOKEN = "of-the-storm"
# The ways to serve, by their options.
MODES = {"embedded": (), "processes": ("--processes", "2"), "cluster": ("--cluster", "--replicas", "2")}
# Of a score: kernels add in another order where a batch is larger.
TOLERANCE = {"onnx": 1e-4, "onnx-int8": 1e-4}


@dataclass
class Ask:
    """A request and the statuses that are right for it; of a good one, the numbers of its texts."""

    kind: str
    body: bytes
    right: set[int]
    numbers: list[int] = field(default_factory=list)
    path: str = "/classify"
    method: str = "POST"


def asks(texts: list[str], draw: random.Random) -> Ask:
    """One of the requests that a server sees: four of five are good."""
    good = draw.random() < 0.8
    if good:
        numbers = draw.choices(range(len(texts)), k=draw.choice([1, 1, 1, 2, 8, 32]))
        chosen = [texts[number] for number in numbers]
        if draw.random() < 0.3:
            identity = str(draw.random())
            body = {
                "id": identity,
                "inputs": [{"name": "text", "shape": [len(chosen)], "datatype": "BYTES", "data": chosen}],
            }
            return Ask(f"infer {identity}", json.dumps(body).encode(), {200}, numbers, "/v2/models/film/infer")
        given = chosen[0] if len(chosen) == 1 and draw.random() < 0.5 else chosen
        return Ask("classify", json.dumps({"inputs": given}).encode(), {200}, numbers)
    return draw.choice(
        [
            Ask("malformed", b'{"inputs": [', {400}),
            Ask("wrong type", b'{"inputs": 5}', {422}),
            Ask("not a number", b'{"inputs": NaN}', {422}),
            Ask("half a character", b'{"inputs": "\\ud800"}', {422}),
            Ask("too many bytes", b'"' + b"a" * (MAX_BODY + 1), {413}),
            Ask("too long a text", json.dumps({"inputs": "\N{PILE OF POO} " * 15_000}).encode(), {422}),
            Ask("no such model", b'{"inputs": "a", "model": "../../etc/passwd"}', {404}),
            Ask("no such path", b"{}", {404}, path="/v2/models/film/../../classify"),
            Ask("no such method", b"", {405}, path="/classify", method="DELETE"),
            Ask("ids that are none", b'{"inputs": [{"name": "input_ids", "shape": [1, 1], "datatype": "INT64", "data": [-7]}]}',
                {422}, path="/v2/models/film/infer"),
        ]
    )  # fmt: skip


class Storm:
    """Clients that go on asking until told to stop, and hold every answer against what it must be."""

    def __init__(
        self,
        port: int,
        texts: list[str],
        logits: numpy.ndarray,
        *,
        tolerance: float,
        clients: int,
        may_lose: bool = False,
    ):
        """
        Args:
            may_lose: a connection may end without an answer, as those of a process do that is killed; its request is sent again.
        """
        self.may_lose, self.lost = may_lose, 0
        self.port, self.texts, self.tolerance = port, texts, tolerance
        self.scores = numpy.exp(logits) / numpy.exp(logits).sum(-1, keepdims=True)
        self.counts: Counter[tuple[str, int]] = Counter()
        self.versions: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.slowest_s = 0.0
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._ask_on, args=(seed,), daemon=True) for seed in range(clients)]

    def __enter__(self) -> "Storm":
        for thread in self._threads:
            thread.start()
        return self

    def go_on_until(self, statuses: set[int], versions: set[str], *, at_most_s: float) -> None:
        """A slow machine answers few requests, and has not seen every kind of them; of several processes each takes up a version by itself."""
        limit = time.monotonic() + at_most_s
        while time.monotonic() < limit and not (
            statuses <= {status for _, status in list(self.counts)} and versions <= set(self.versions)
        ):
            time.sleep(0.2)

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=90)
            if thread.is_alive():
                self.wrong.append("a request was never answered")

    def _ask_on(self, seed: int) -> None:
        draw = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=80)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        with closing(connection):
            while not self._stopped.is_set():
                ask = asks(self.texts, draw)
                start = time.monotonic()
                try:
                    connection.request(ask.method, ask.path, ask.body, headers)
                    answer = connection.getresponse()
                    problem = self._problem(ask, answer.status, json.loads(answer.read()))
                    self.counts[ask.kind.split()[0] if ask.numbers else ask.kind, answer.status] += 1
                except (OSError, http.client.HTTPException, ValueError) as error:
                    problem = None if self.may_lose else f"no answer: {error!r}"
                    self.lost += 1
                    connection.close()
                self.slowest_s = max(self.slowest_s, time.monotonic() - start)
                if problem:
                    self.wrong.append(f"{ask.kind}: {problem}")

    def _problem(self, ask: Ask, status: int, content: dict) -> str | None:
        if status not in ask.right:
            return f"{status} {content}"
        if not ask.numbers:
            said = content["error"]
            return said if "Traceback" in said or ("/" in said.replace("/etc", "") and ".py" in said) else None
        if ask.path == "/classify":
            self.versions[content["version"]] += 1
            found = [list(one["scores"].values()) for one in content["predictions"]]
        else:
            self.versions[content["model_version"]] += 1
            if content["id"] != ask.kind.split()[1]:
                return f"the answer to another request: {content['id']}"
            (scores,) = [output for output in content["outputs"] if output["name"] == "scores"]
            found = numpy.reshape(scores["data"], scores["shape"]).tolist()
        right = self.scores[ask.numbers]
        if numpy.shape(found) != right.shape:
            return f"{len(found)} answers to {len(right)} texts"
        off = float(numpy.abs(numpy.asarray(found) - right).max())
        return f"scores are off by {off}" if off > self.tolerance else None


def hurt(server: ServerProcess, models: Path, *, seconds: float, tell=print) -> None:
    """Within so many seconds: two processes of the model killed, where there are several, and a version put in the place of the only one."""
    (old,) = (int(folder.name) for folder in (models / "film").iterdir())
    for _ in range(2):
        time.sleep(seconds / 4)
        if running := processes_of_model(server):
            os.kill(running[0], signal.SIGKILL)
            tell("killed a process")
            # One that takes requests itself is not replaced at once, and there must be another when the next is killed.
            wait_for_another(server, killed=running[0], count=len(running))
    time.sleep(seconds / 4)
    shutil.copytree(models / "film" / f"{old}", models / "film" / "partial")
    os.rename(models / "film" / "partial", models / "film" / f"{old + 1}")
    wait_for_versions(server, old, old + 1)
    shutil.rmtree(models / "film" / f"{old}")
    wait_for_versions(server, old + 1)
    tell("swapped the model")
    time.sleep(seconds / 4)


def processes_of_model(server: ServerProcess) -> list[int]:
    """Those that run the model; where they take requests themselves, those that do."""
    running = server.workers("film")
    return [pid for pid in running if _listens(pid, server.port)] or running


def _listens(pid: int, port: int) -> bool:
    with suppress(psutil.Error):
        connections = psutil.Process(pid).net_connections("tcp")
        return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections)
    return False


def wait_for_another(server: ServerProcess, *, killed: int, count: int) -> None:
    """Until so many processes run the model again, and the killed one is none of them."""
    limit = time.monotonic() + 120
    while killed in (running := processes_of_model(server)) or len(running) < count:
        assert time.monotonic() < limit, running
        time.sleep(0.2)


def wait_for_versions(server: ServerProcess, *numbers: int) -> None:
    """Until the server has exactly these; a process that has just been killed gives no answer."""
    limit, found = time.monotonic() + 90, None
    while found != [str(number) for number in numbers]:
        assert time.monotonic() < limit, found
        time.sleep(0.2)
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
                connection.request("GET", "/v2/models/film", headers={"Authorization": f"Bearer {TOKEN}"})
                found = json.loads(connection.getresponse().read())["versions"]
        except (OSError, http.client.HTTPException) as error:
            found = error


def logits_of(directory: Path, runtime: str, texts: list[str]) -> numpy.ndarray:
    """`[texts, labels]`, each text alone."""
    engine = Engine.load(directory, runtime)
    tokenizer = load_tokenizer(directory, engine.config)
    return numpy.stack([engine(**tokenizer([text], return_tensors="pt")).logits[0].numpy() for text in texts])


def main() -> None:
    from hf_albert_plus.tasks.glue import get_task
    from hf_albert_plus.tasks.splits import load_split

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--engine", default="onnx-int8", choices=sorted(TOLERANCE))
    parser.add_argument("--mode", default="embedded", choices=list(MODES))
    parser.add_argument("--data", default="nyu-mll/glue")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    texts = load_split(given.data, get_task("sst2"), "validation")["sentence"]
    logits = logits_of(given.model, given.engine, list(texts))
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder)
        shutil.copytree(given.model, models / "film" / "1")
        (models / "token").write_text(TOKEN)
        options = (
            *MODES[given.mode], "--cores", "1", "--deadline", "60", "--max-body", str(MAX_BODY), "--token-file", f"{models / 'token'}",
        )  # fmt: skip
        with ServerProcess(f"{models}:{given.engine}", *options) as server:
            tolerance = TOLERANCE[given.engine]
            with Storm(
                server.port,
                list(texts),
                logits,
                tolerance=tolerance,
                clients=given.clients,
                may_lose=given.mode == "processes",
            ) as storm:
                start = time.monotonic()
                hurt(server, models, seconds=given.seconds)
            took = time.monotonic() - start
    for (kind, status), count in sorted(storm.counts.items()):
        print(f"{count:8,}  {status}  {kind}")
    print(
        f"{sum(storm.counts.values()):,} requests in {took:.0f} s, the slowest {storm.slowest_s:.1f} s; versions {dict(storm.versions)}"
    )
    print(f"{storm.lost} connections ended without an answer")
    print("\n".join(storm.wrong[:20]) or "every one was answered once, and rightly")
    raise SystemExit(bool(storm.wrong))


if __name__ == "__main__":
    main()
