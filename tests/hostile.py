"""Hostile requests at a real server, drawn from a grammar, beside good ones whose answers are known before.

python -m tests.hostile MODEL_DIR --requests 10000 --seed 0
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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from hf_albert_plus.eval.server_process import ServerProcess

from .storm import TOLERANCE, logits_of

MAX_BODY = 100_000
TOKEN = "of-the-hostile-client"
# Seconds that the server gives headers and bodies, and after which a request that is not answered hangs.
HEADER_TIMEOUT, BODY_TIMEOUT, HANG_S = 2, 2, 10
OPTIONS = ("--streams", "1", "--deadline", "60", "--max-body", str(MAX_BODY), "--header-timeout", str(HEADER_TIMEOUT), "--body-timeout", str(BODY_TIMEOUT))  # fmt: skip
TEXTS = ["a good film", "no", "the plot is bad and the cast is not good at all", "good good bad", "a bad, bad day"]
_OPEN = "/v2/health/live"
_INFER = "/v2/models/film/infer"
_SLOW = 0.004
_GOOD = 0.4
# Of the server's own fault, where they are no promise: it stops, or has no time.
_ALLOWED = {503, 504}


@dataclass
class Raw:
    """Bytes for a socket of their own.

    Attributes:
        pieces: sent one after the other.
        gap_s: between two of them.
        ends: whether the client says that it sends no more.
    """

    kind: str
    pieces: list[bytes]
    gap_s: float = 0.0
    ends: bool = False


@dataclass
class Report:
    """What came of the requests."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def lines(self) -> list[str]:
        return [f"{count:8,}  {outcome:>9}  {kind}" for (kind, outcome), count in sorted(self.counts.items())]


def deep(draw: random.Random) -> bytes:
    depth = draw.choice([100, 10_000])
    opening, closing = draw.choice([(b"[", b"]"), (b'{"a":', b"}")])
    core = draw.choice([b"", b"1"])
    return opening * depth + core + (closing * depth if draw.random() < 0.5 else b"")


def values(draw: random.Random) -> Any:
    """Something that is no text."""
    numbers = [0, -1, 5, 1e308, -(2**63), 2**64, 10**400, True, None]
    odd = [
        "",
        "\0",
        "\ud800",
        "\udfff a",
        "é\u202e",
        "²",
        "x" * 20_000,
        {},
        [],
        [[]],
        {"text": 5},
        {"text": "a", "text_pair": []},
    ]
    return draw.choice(numbers + odd)


def tensor(draw: random.Random) -> dict[str, Any]:
    """An input that is often wrong in one or several of its fields."""
    name = draw.choice(
        ["text", "text_pair", "input_ids", "attention_mask", "token_type_ids", "logits", "x" * 5_000, "\0"]
    )
    size = draw.choice([1, 1, 2, 3])
    datatype = draw.choice(["BYTES", "INT64", "INT32", "INT64", "FP32", "BOOL", "bytes", 5])
    data = draw.choice(
        [
            ["a"] * size,
            [1] * size,
            [[1, 2]] * size,
            [[1], [1, 2]],
            [-1] * size,
            [2**31] * size,
            [10**30],
            [values(draw)],
            "a",
            None,
        ]
    )
    shape = draw.choice(
        [
            [size],
            [size, 1],
            [1, size],
            [size, 2],
            [0],
            [-1],
            [2**62, 2**62],
            [10**300],
            [],
            [1] * 9,
            "1",
            [1.5],
            [True],
            None,
        ]
    )
    found = {"name": name, "shape": shape, "datatype": datatype, "data": data}
    if draw.random() < 0.2:
        found["parameters"] = draw.choice(
            [{"binary_data_size": draw.choice([0, 5, -5, 2**63, 10**40, "5"])}, {"binary_data": True}, 5, []]
        )
    if draw.random() < 0.15:
        found[draw.choice(list(found))] = values(draw)
    if draw.random() < 0.1:
        del found[draw.choice(list(found))]
    return found


def infer_body(draw: random.Random) -> bytes:
    body: dict[str, Any] = {"inputs": [tensor(draw) for _ in range(draw.choice([1, 1, 2, 3, 9]))]}
    if draw.random() < 0.2:
        body["outputs"] = [{"name": draw.choice(["logits", "scores", "label", "none", 5])}]
    if draw.random() < 0.2:
        body[draw.choice(["inputs", "outputs", "id", "parameters"])] = values(draw)
    return json.dumps(body).encode()


def classify_body(draw: random.Random) -> bytes:
    body: dict[str, Any] = {"inputs": draw.choice([values(draw), [values(draw)], ["a", values(draw)], "a"])}
    for name in ("model", "version", "truncate", "other"):
        if draw.random() < 0.3:
            body[name] = values(draw)
    return json.dumps(body).encode()


def garbled(draw: random.Random) -> bytes:
    body = bytearray(json.dumps({"inputs": TEXTS}).encode())
    for _ in range(draw.choice([1, 3, 20])):
        place = draw.randrange(len(body))
        body[place : place + draw.choice([0, 1, 5])] = draw.randbytes(draw.choice([0, 1, 3]))
    return bytes(body)


def bodies(draw: random.Random) -> tuple[str, bytes]:
    kinds: list[tuple[str, Callable[[random.Random], bytes]]] = [
        ("fields of infer", infer_body), ("fields of infer", infer_body), ("fields of infer", infer_body), ("fields of classify", classify_body),
        ("garbled JSON", garbled), ("deep JSON", deep),
        ("huge number", lambda draw: b'{"inputs": ' + b"9" * draw.choice([400, 5_000]) + draw.choice([b"}", b"e999}"])),
        ("too large", lambda draw: b'{"inputs": "' + b"a" * (MAX_BODY + draw.choice([1, 10_000])) + b'"}'),
        ("NUL bytes", lambda draw: b'{"inputs": "a\0b"}'), ("no UTF-8", lambda draw: b'{"inputs": "\xff\xfe"}'), ("empty", lambda draw: b""),
    ]  # fmt: skip
    kind, make = draw.choice(kinds)
    return kind, make(draw)


def paths(draw: random.Random) -> str:
    digits = "9" * draw.choice([20, 5_000])
    part = draw.choice(
        [
            digits,
            "%2F..%2F",
            "..",
            ".",
            "%00",
            "%D9%A3",
            "%C2%B2",
            "%FF",
            "-1",
            "01",
            "+1",
            "1e0",
            "%0d%0aX:1",
            "1%2F..%2F1",
            "a" * 9_000,
            " ".replace(" ", "%20"),
        ]
    )
    return draw.choice(
        [f"/v2/models/{part}", f"/v2/models/film/versions/{part}", f"/v2/models/film/versions/{part}/infer", f"/v2/models/film/versions/{part}/ready",
         f"/v2/models/{part}/versions/1/infer", f"/{part}", f"/classify/{part}", f"//{part}", f"/classify?x={part}", "*", f"http://other/{part}", "/openapi.json", "/docs/../metrics"]
    )  # fmt: skip


def binary(draw: random.Random) -> tuple[bytes, str]:
    """A body with tensors as bytes behind its JSON, and what its header says of the length of that."""
    blob = draw.choice(
        [
            struct.pack("<I", 1) + b"a",
            struct.pack("<I", 2**32 - 1) + b"a",
            b"\xff" * 7,
            b"",
            struct.pack("<I", 1) + b"\xff",
            struct.pack("<qq", 1, 2),
            struct.pack("<qq", -1, 2**62),
        ]
    )
    size = draw.choice([len(blob), len(blob), 0, len(blob) + 1, max(0, len(blob) - 1), -1, 2**63])
    name, datatype, shape = draw.choice(
        [
            ("text", "BYTES", [1]),
            ("input_ids", "INT64", [1, 2]),
            ("input_ids", "INT32", [2, 2]),
            ("text", "INT64", [1, 2]),
            ("input_ids", "BYTES", [1]),
        ]
    )
    given = {"name": name, "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": size}}
    head = json.dumps({"inputs": [given]}).encode()
    said = draw.choice(
        [len(head), len(head), len(head), len(head) - 1, len(head) + 1, 0, -1, 10**9, "9" * 5_000, "x", ""]
    )
    return head + blob, str(said)


def raw(draw: random.Random) -> Raw:
    """What http.client would not send."""
    lines = [
        b"POST /classify HTTP/1.1",
        b"Host: x",
        b"Content-Type: application/json",
        f"Authorization: Bearer {TOKEN}".encode(),
    ]
    body = json.dumps({"inputs": "a"}).encode()

    def sent(*more: bytes, content: bytes = body) -> bytes:
        return b"\r\n".join([*lines, *more, b"", content])

    whole = sent(b"Content-Length: %d" % len(body))
    half = b"%x\r\n%s\r\n" % (len(body), body)
    if draw.random() < _SLOW:
        return draw.choice(
            [
                Raw("slow headers", [whole[place : place + 1] for place in range(60)], gap_s=0.1),
                Raw("slow body", [sent(b"Content-Length: 90"), *[b" "] * 60], gap_s=0.1),
                Raw("silence", [b""]),
                Raw("blank lines", [b"\r\n"] * 60, gap_s=0.1),
                Raw("half a body", [sent(b"Content-Length: 1000")]),
                Raw("half a chunk", [sent(b"Transfer-Encoding: chunked", content=b"ff\r\n" + body)]),
                Raw("slow body without a token", [whole.replace(TOKEN.encode(), b"no").replace(b"Length: %d" % len(body), b"Length: 999"), *[b" "] * 60], gap_s=0.1),
            ]
        )  # fmt: skip
    return draw.choice(
        [
            Raw("no HTTP", [draw.randbytes(draw.choice([1, 100, 70_000])) + b"\r\n\r\n"], ends=True),
            Raw("TLS", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + draw.randbytes(500)], ends=True),
            Raw("garbage after a request", [whole + draw.randbytes(200) + b"\r\n\r\n"], ends=True),
            Raw("requests one behind the other", [whole * 20], ends=True),
            Raw("request cut in its headers", [whole[: draw.randrange(1, 90)]], ends=True),
            Raw("body cut short", [sent(b"Content-Length: %d" % (len(body) + draw.choice([1, 1000])))], ends=True),
            Raw("chunk cut short", [sent(b"Transfer-Encoding: chunked", content=half[: draw.randrange(1, len(half))])], ends=True),
            Raw("chunk of a wrong size", [sent(b"Transfer-Encoding: chunked", content=draw.choice([b"zz\r\n", b"-5\r\n", b"f" * 30 + b"\r\n"]) + body)], ends=True),
            Raw("length that lies", [sent(b"Content-Length: %b" % draw.choice([b"-1", b"1", b"x", b"9" * 5_000, b"1e3", b"0"]))], ends=True),
            Raw("two lengths", [sent(b"Content-Length: 3", b"Content-Length: %d" % len(body))], ends=True),
            Raw("length and chunks", [sent(b"Content-Length: 3", b"Transfer-Encoding: chunked", content=half + b"0\r\n\r\n")], ends=True),
            Raw("large header", [sent(b"X: " + b"a" * draw.choice([70_000, 300_000]), b"Content-Length: %d" % len(body))], ends=True),
            Raw("many headers", [sent(*[b"X-%d: a" % number for number in range(draw.choice([1_000, 9_000]))], b"Content-Length: %d" % len(body))], ends=True),
            Raw("odd header", [sent(draw.choice([b"X: \xff\x00", b"X\0: a", b": a", b"X : a", b"\r\n"]), b"Content-Length: %d" % len(body))], ends=True),
            Raw("upgrade", [sent(b"Connection: upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: eA==", b"Sec-WebSocket-Version: 13", b"Content-Length: 0", content=b"")], ends=True),
            Raw("expects", [sent(b"Expect: 100-continue", b"Content-Length: %d" % len(body))], ends=True),
            Raw("half-closed", [whole], ends=True),
            Raw("long path", [b"GET /" + b"9" * 80_000 + b" HTTP/1.1\r\n\r\n"], ends=True),
        ]
    )  # fmt: skip


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
        connection = self._connection()
        while self._takes_one():
            start, sort = time.monotonic(), draw.random()
            allowed_s = HANG_S
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
        connection.close()

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
            kind, path, bytes_of = "good infer", _INFER, draw.random() < 0.5
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
                _INFER if kind == "fields of infer" or (kind != "fields of classify" and draw.random() < 0.5) else path
            )
        elif sort < 0.7:
            kind, path = "path", paths(draw)
            method = draw.choice(["GET", "POST"])
            body = b'{"inputs": "a"}' if method == "POST" else b""
        elif sort < 0.85:
            kind, path = "tensors as bytes", _INFER
            body, headers["Inference-Header-Content-Length"] = binary(draw)
        elif sort < 0.93:
            kind, body = "method", b"{}"
            method = draw.choice(["DELETE", "PUT", "TRACE", "OPTIONS", "HEAD", "CONNECT", "BREW", "get"])
            path = draw.choice([path, _INFER, "/metrics", _OPEN])
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
