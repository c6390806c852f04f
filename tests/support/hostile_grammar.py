"""What a hostile client sends: bodies, paths and raw bytes, drawn from a grammar."""

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_BODY = 100_000
TOKEN = "of-the-hostile-client"
TEXTS = ["a good film", "no", "the plot is bad and the cast is not good at all", "good good bad", "a bad, bad day"]
INFER = "/v2/models/film/infer"
# Share of raw requests that take their time.
_SLOW = 0.004


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


def deep(draw: random.Random) -> bytes:
    depth = draw.choice([100, 10_000])
    opening, closing = draw.choice([(b"[", b"]"), (b'{"a":', b"}")])
    core = draw.choice([b"", b"1"])
    return opening * depth + core + (closing * depth if draw.random() < 0.5 else b"")


def values(draw: random.Random) -> Any:
    """Something that is no text."""
    numbers: list[Any] = [0, -1, 5, 1e308, -(2**63), 2**64, 10**400, True, None]
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
