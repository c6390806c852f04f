"""What a server must bear besides requests: connections that do nothing, readers that take a byte a second, bodies that are bombs or never end,
and, as a process, a disk that is full and a stop while a model is swapped."""

import concurrent.futures
import contextlib
import gzip
import http.client
import json
import os
import shutil
import signal
import socket
import sys
import time

import pytest

from tests.support.local_server import servers
from tests.support.processes import running as running_process

IDLE = 1000


@pytest.fixture
def running(exported_dir):
    with servers(exported_dir) as run:
        yield run


def asked(port, body, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("POST", "/classify", body, {"Content-Type": "application/json", **named})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_a_thousand_idle_connections_hold_up_nobody(running):
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    # Both ends are this process's.
    count = min(IDLE, (limit - 200) // 2)
    server = running()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert server.classify(inputs="a good film")[0] == 200
    assert count > 100


@pytest.mark.slow
def test_slow_readers_and_writers_hold_no_worker(running):
    """Eight that read a byte of a large answer now and then, eight that write one of a request, and everybody else is answered."""
    server = running()
    body = json.dumps({"inputs": ["a good film"] * 500}).encode()
    head = b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(socket.socket()) for _ in range(8)]
        for reader in readers:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(head + body)
        writers = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(8)]
        for place in range(10):
            for writer in writers:
                writer.sendall(head[place : place + 1])
            for reader in readers:
                reader.recv(1)
            assert server.classify(inputs="no")[0] == 200
            time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip"])
def test_a_body_that_is_packed_is_never_unpacked(running, encoding):
    """100 MB of text are 100 kB of gzip: a server that unpacked them would hold them."""
    bomb = gzip.compress(b'{"inputs": "' + b"a" * 100_000_000 + b'"}', compresslevel=1)
    status, content = asked(running().port, bomb[:100_000], Content_Encoding=encoding)
    assert status == 400
    assert "the body must be JSON" in content["error"]


def test_a_body_that_never_ends_is_cut_off(running):
    server = running(max_body=20_000)

    def endless():
        while True:
            yield b"a" * 1000

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    with contextlib.suppress(OSError):  # the server closes, while more is sent
        connection.request("POST", "/classify", endless(), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
        assert connection.getresponse().status == 413
    connection.close()
    assert server.classify(inputs="no")[0] == 200


def test_a_request_of_many_texts_and_one_of_one_are_answered_together(running):
    server = running(wait_ms=0)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        long = pool.submit(server.classify, inputs=["the plot is bad and the cast is not good at all"] * 1000)
        time.sleep(0.05)
        assert server.classify(inputs="no")[0] == 200
        assert not long.done() or long.result()[0] == 200
        assert len(long.result()[1]["predictions"]) == 1000


@contextlib.contextmanager
def started(directory, *options, log):
    """A server as a process that writes its log to a file, and its port; it is gone at the end of the block."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    words = [sys.executable, "-m", "hf_albert_plus", "serve", f"{directory}:onnx", "--port", str(port), *options]
    with running_process(words, stdout=log, stderr=log) as process:
        limit, status = time.monotonic() + 240, None
        while status != 200:
            assert process.poll() is None, "it ended before it answered"
            assert time.monotonic() < limit, "it did not start"
            time.sleep(0.1)
            with contextlib.suppress(OSError, http.client.HTTPException):
                status = asked(port, b'{"inputs": "no"}')[0]
        yield process, port


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_for_its_log_stops_no_server(exported_dir, tmp_path):
    shutil.copytree(exported_dir, tmp_path / "film" / "1")
    with open("/dev/full", "wb") as log, started(tmp_path, log=log) as (process, port):
        (tmp_path / "film" / "2").mkdir()
        shutil.copy(exported_dir / "config.json", tmp_path / "film" / "2")
        time.sleep(5)
        assert asked(port, b'{"inputs": "no"}')[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--processes", "2")], ids=["one process", "two"])
def test_told_to_stop_while_a_model_is_swapped_it_answers_what_it_took(exported_dir, tmp_path, options):
    shutil.copytree(exported_dir, tmp_path / "film" / "1")
    statuses = []

    def ask_on(port):
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                statuses.append(asked(port, b'{"inputs": "no"}')[0])

    # The server goes first at the end of the block: without it the threads end.
    with (
        open(tmp_path / "log", "wb") as log,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
        started(tmp_path, *options, log=log) as (process, port),
    ):
        for _ in range(2):
            pool.submit(ask_on, port)
        shutil.copytree(exported_dir, tmp_path / "next")
        (tmp_path / "next").rename(tmp_path / "film" / "2")
        shutil.rmtree(tmp_path / "film" / "1")
        # The directory is looked at every two seconds, and a trial takes one.
        time.sleep(2.5)
        limit = time.monotonic() + 60
        while 200 not in statuses:
            assert time.monotonic() < limit, statuses
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0
    assert set(statuses) <= {200, 503}
    assert 200 in statuses
    assert "Traceback" not in (tmp_path / "log").read_text()
