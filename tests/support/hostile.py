"""Hostile requests at a real server, drawn from a grammar, beside good ones whose answers are known before.

python -m tests.support.hostile MODEL_DIR --requests 10000 --seed 0
"""

import argparse
import http.client
import json
import random
import socket
import struct
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from hf_albert_plus.eval.load.server_process import ServerProcess
from tests.support.hostile_grammar import INFER, MAX_BODY, TEXTS, TOKEN, Raw, binary, bodies, paths, raw
from tests.support.storm import TOLERANCE, logits_of

# Seconds that the server gives headers and bodies, and after which a request that is not answered hangs.
HEADER_TIMEOUT, BODY_TIMEOUT, HANG_S = 2, 2, 10
OPTIONS = ("--cores", "1", "--deadline", "60", "--max-body", str(MAX_BODY), "--header-timeout", str(HEADER_TIMEOUT), "--body-timeout", str(BODY_TIMEOUT))  # fmt: skip
_OPEN = "/v2/health/live"
_GOOD = 0.4
# Of the server's own fault, where they are no promise: it stops, or has no time.
_ALLOWED = {503, 504}


@dataclass
class Report:
    """What came of the requests."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def lines(self) -> list[str]:
        return [f"{count:8,}  {outcome:>9}  {kind}" for (kind, outcome), count in sorted(self.counts.items())]


class HostileClient:
    """Some threads, each with its own seed, that send so many requests in all and hold every answer against what it may be."""

    def __init__(self, port: int, logits: numpy.ndarray, *, requests: int, seed: int, clients: int = 8):
        self.port, self.requests, self.report = port, requests, Report()
        self.scores = numpy.exp(logits) / numpy.exp(logits).sum(-1, keepdims=True)
        self._left, self._lock = requests, threading.Lock()
        self._threads = [
            threading.Thread(target=self._ask_on, args=(f"{seed}-{n}",), daemon=True) for n in range(clients)
        ]

    def run(self) -> Report:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        return self.report

    def _ask_on(self, seed: str) -> None:
        draw = random.Random(seed)
        with closing(self._connection()) as connection:
            while self._takes_one():
                start, sort = time.monotonic(), draw.random()
                allowed_s = float(HANG_S)
                if sort < _GOOD:
                    kind, outcome = self._good(draw, connection)
                elif sort < _GOOD + 0.4:
                    kind, outcome = self._http(draw)
                else:
                    given = raw(draw)
                    allowed_s += len(given.pieces) * given.gap_s
                    kind, outcome = given.kind, self._raw(given)
                took = time.monotonic() - start
                with self._lock:
                    self.report.counts[kind, outcome] += 1
                    self.report.slowest_s = max(self.report.slowest_s, took)
                    if took > allowed_s:
                        self.report.wrong.append(f"{kind}: {took:.1f} s")

    def _takes_one(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0

    def _blame(self, text: str) -> None:
        with self._lock:
            self.report.wrong.append(text)

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=3 * HANG_S)

    def _good(self, draw: random.Random, connection: http.client.HTTPConnection) -> tuple[str, str]:
        """A request that must be answered, and rightly, whatever comes beside it; on a connection that stays open."""
        numbers = draw.choices(range(len(TEXTS)), k=draw.choice([1, 1, 2, 4]))
        texts = [TEXTS[number] for number in numbers]
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        kind, identity = "good classify", str(draw.random())
        path, body, bytes_of = "/classify", json.dumps({"inputs": texts}).encode(), False
        if draw.random() < 0.5:
            kind, path, bytes_of = "good infer", INFER, draw.random() < 0.5
            blob = b"".join(struct.pack("<I", len(text)) + text.encode() for text in texts)
            given: dict[str, Any] = {"name": "text", "shape": [len(texts)], "datatype": "BYTES"}
            given.update({"parameters": {"binary_data_size": len(blob)}} if bytes_of else {"data": texts})
            body = json.dumps({"id": identity, "inputs": [given]}).encode()
            if bytes_of:
                headers["Inference-Header-Content-Length"] = str(len(body))
                body += blob
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            status, content = answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            self._blame(f"{kind}: lost by {error!r}")
            return kind, "lost"
        if status != 200:
            self._blame(f"{kind}: {status} {content}")
        elif problem := self._problem(numbers, content, identity):
            self._blame(f"{kind}: {problem}")
            return kind, "wrong"
        return kind, str(status)

    def _problem(self, numbers: list[int], content: Any, identity: str) -> str | None:
        if "predictions" in content:
            found = [list(one["scores"].values()) for one in content["predictions"]]
        elif content["id"] != identity:
            return "the answer to another request"
        else:
            (scores,) = [output for output in content["outputs"] if output["name"] == "scores"]
            found = numpy.reshape(scores["data"], scores["shape"]).tolist()
        right = self.scores[numbers]
        if numpy.shape(found) != right.shape:
            return f"{numpy.shape(found)} scores for {len(right)} texts"
        off = float(numpy.abs(numpy.asarray(found) - right).max())
        return f"scores are off by {off}" if not off <= TOLERANCE["onnx"] else None

    def _http(self, draw: random.Random) -> tuple[str, str]:
        """A hostile request that is HTTP, on a connection of its own."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        sort = draw.random()
        method, path, body = "POST", "/classify", b""
        if sort < 0.55:
            kind, body = bodies(draw)
            path = (
                INFER if kind == "fields of infer" or (kind != "fields of classify" and draw.random() < 0.5) else path
            )
        elif sort < 0.7:
            kind, path = "path", paths(draw)
            method = draw.choice(["GET", "POST"])
            body = b'{"inputs": "a"}' if method == "POST" else b""
        elif sort < 0.85:
            kind, path = "tensors as bytes", INFER
            body, headers["Inference-Header-Content-Length"] = binary(draw)
        elif sort < 0.93:
            kind, body = "method", b"{}"
            method = draw.choice(["DELETE", "PUT", "TRACE", "OPTIONS", "HEAD", "CONNECT", "BREW", "get"])
            path = draw.choice([path, INFER, "/metrics", _OPEN])
        else:
            kind, body = "wrong token", b'{"inputs": "a"}'
            headers["Authorization"] = draw.choice(
                [
                    "",
                    "Bearer",
                    "Bearer ",
                    "Bearer " + "x" * 9_000,
                    f"Basic {TOKEN}",
                    f"Bearer {TOKEN}x",
                    "Bearer \xff",
                    f"bearer  {TOKEN}",
                ]
            )
        if draw.random() < 0.05:
            headers["Content-Type"] = draw.choice(
                ["", "text/plain", "multipart/form-data", "application/json; charset=utf-16", "x" * 3_000]
            )
        connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        except http.client.InvalidURL:
            return kind, "not sent"
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, TimeoutError):
                self._blame(f"{kind}: no answer")
            return kind, type(error).__name__
        finally:
            connection.close()
        self._judge(kind, status, content, f"{method} {path[:80]} {body[:300]!r} {headers}")
        if kind == "wrong token" and status not in (400, 401):
            self._blame(f"{kind}: {status}")
        return kind, str(status)

    def _judge(self, kind: str, status: int, content: bytes, sent: str) -> None:
        if (status >= 500 and status not in _ALLOWED) or b"Traceback" in content or b'.py"' in content:
            self._blame(f"{kind}: {status} {content[:200]!r} to {sent[:600]}")

    def _raw(self, given: Raw) -> str:
        """Sends bytes and reads what comes until the server closes; a server that closes while we send is in its right."""
        found = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=HANG_S) as connection:
            try:
                for piece in given.pieces:
                    connection.sendall(piece)
                    time.sleep(given.gap_s)
                if given.ends:
                    connection.shutdown(socket.SHUT_WR)
                while chunk := connection.recv(65536):
                    found += chunk
            except TimeoutError:
                self._blame(f"{given.kind}: the connection stays open")
                return "open"
            except OSError:
                pass
        statuses = [int(part[:3]) for part in found.split(b"HTTP/1.1 ")[1:] if part[:3].isdigit()]
        for status in statuses:
            self._judge(given.kind, status, b"", repr(given.pieces[0][:300]))
        return ",".join(map(str, sorted(set(statuses)))) or "closed"


def attack(directory: Path, *, requests: int, seed: int, clients: int = 8) -> tuple[Report, str]:
    """A server over a model with an fp32 export, and what came of so many requests, a good one the last.

    Returns:
        The report, and the server's log.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "film").symlink_to(directory.resolve())
        (Path(folder) / "token").write_text(TOKEN)
        logits = logits_of(directory, "onnx", TEXTS)
        with ServerProcess(f"{folder}:onnx", *OPTIONS, "--token-file", f"{folder}/token") as server:
            report = HostileClient(server.port, logits, requests=requests, seed=seed, clients=clients).run()
            last = HostileClient(server.port, logits, requests=20, seed=seed, clients=1)
            report.wrong += last.run().wrong
    return report, server.log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    start = time.monotonic()
    report, log = attack(given.model, requests=given.requests, seed=given.seed, clients=given.clients)
    print("\n".join(report.lines()))
    print(
        f"{sum(report.counts.values()):,} requests in {time.monotonic() - start:.0f} s, the slowest {report.slowest_s:.1f} s"
    )
    print("\n".join(report.wrong[:20]) or "every good one was answered rightly, and no hostile one did harm")
    print(f"{log.count('Traceback')} tracebacks in {len(log.splitlines()):,} lines of its log")
    raise SystemExit(bool(report.wrong) or "Traceback" in log)


if __name__ == "__main__":
    main()
