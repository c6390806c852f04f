"""Who may connect, for how long, and with how much."""

import select
import socket
import time

import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.serving.settings import ServeSettings
from tests.support.command_line import invoke
from tests.support.local_server import servers


@pytest.fixture
def running(exported_dir):
    with servers(exported_dir) as run:
        yield run


@pytest.mark.parametrize("token", ["", "  ", "sécret", "two\nlines"])
def test_a_token_of_nothing_is_no_token(exported_dir, monkeypatch, token):
    monkeypatch.setenv("ALBERT_PLUS_TOKEN", token)
    with pytest.raises(
        InvalidInput, match=r"ALBERT_PLUS_TOKEN must hold a token .*; write one: openssl rand -hex 32; or unset"
    ):
        invoke("serve", exported_dir)


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), ("::", True)])  # fmt: skip
@pytest.mark.parametrize("token", [None, "secret"])
def test_a_server_that_others_reach_without_a_token_says_so(exported_dir, monkeypatch, capfd, host, warned, token):
    server = pytest.importorskip("hf_albert_plus.serving.server")
    monkeypatch.delenv("ALBERT_PLUS_TOKEN", raising=False)
    if token:
        monkeypatch.setenv("ALBERT_PLUS_TOKEN", token)
    monkeypatch.setattr(server.Server, "start", lambda self: None)
    monkeypatch.setattr(server.Server, "run", lambda self: None)
    result = invoke("serve", exported_dir, "--host", host)
    said = result.output + "".join(capfd.readouterr())
    assert ("without a token" in said) == (warned and token is None)


def sent(port, *pieces, gap_s=0.0, timeout=5):
    """What comes on a connection until the server closes it, and after how long."""
    start, found = time.monotonic(), b""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                if select.select([connection], [], [], gap_s)[0]:
                    break  # an answer: whoever goes on sending may lose it
            while chunk := connection.recv(65536):
                found += chunk
        except ConnectionError:
            pass
    return found, time.monotonic() - start


HEAD = b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ([b""], b""),
        ([HEAD], b""),
        ([bytes([byte]) for byte in HEAD[:30]], b""),
        ([b"\r\n"] * 30, b""),
        ([HEAD + b"Content-Length: 20\r\n\r\n{"], b"408"),
        ([HEAD + b"Content-Length: 90\r\n\r\n", *[b" "] * 30], b"408"),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n"], b"408"),
        ([HEAD + b"Content-Length: 9000000\r\n\r\n", *[b" " * 99] * 30], b"413"),
    ],
)  # fmt: skip
def test_a_slow_client_is_not_waited_for(running, pieces, status):
    server = running(header_timeout=0.4, body_timeout=0.4)
    found, took = sent(server.port, *pieces, gap_s=0.05)
    assert found.split(b" ")[1:2] == ([status] if status else [])
    assert took < 3.5
    assert server.classify(inputs="a")[0] == 200


@pytest.mark.slow
def test_a_connection_may_be_idle_between_requests(running):
    server = running(header_timeout=0.3, body_timeout=0.3)
    body = b'{"inputs": "a"}'
    whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        for _ in range(3):
            connection.sendall(whole)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            time.sleep(0.6)


def test_whoever_ends_his_side_after_a_request_is_answered(running):
    server = running()
    body = b'{"inputs": "a"}'
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while chunk := connection.recv(65536):
            found += chunk
    assert found.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "headers", [b"X: " + b"a" * 70_000, b"".join(b"X-%d: aaaaaaaa\r\n" % number for number in range(5_000))]
)
def test_headers_have_a_size(running, headers):
    server = running()
    found, _ = sent(server.port, HEAD + headers + b"\r\nContent-Length: 0\r\n\r\n")
    assert found[:12] in (b"HTTP/1.1 400", b"")
    assert server.classify(inputs="a")[0] == 200


@pytest.mark.parametrize("settings", [{"header_timeout": 0}, {"body_timeout": -1}, {"header_timeout": float("nan")}])
def test_wrong_limits(settings):
    (name,) = settings
    with pytest.raises(InvalidInput, match=f"--{name.replace('_', '-')} must be above 0, at most 3600"):
        ServeSettings(**settings)
