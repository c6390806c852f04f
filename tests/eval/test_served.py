"""The bench of a server: its load generator against a server whose pace is known, and its ratio against one in this process."""

import contextlib
import http.server
import socket
import threading
import time

import numpy
import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.load import served
from hf_albert_plus.eval.load.clients import Clients
from hf_albert_plus.eval.load.traffic import Traffic
from hf_albert_plus.eval.settings import ServedSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.tasks.glue import get_task
from tests.support.local_server import InProcess

PACE_S = 0.05


class Slow(http.server.BaseHTTPRequestHandler):
    """Answers every request after the same time, one after the other."""

    protocol_version = "HTTP/1.1"
    turn = threading.Lock()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.turn:
            time.sleep(PACE_S)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def slow_port():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def test_replies_keep_the_order_of_their_requests(slow_port):
    clients = Clients("127.0.0.1", slow_port, count=3)
    bodies = [str(number).encode() for number in range(7)]
    assert [reply.json() for reply in clients.closed_loop(bodies)] == list(range(7))
    clients.close()


def test_connections_that_were_closed_for_being_idle_are_opened_again():
    closed = []

    class Impatient(Slow):
        timeout = 2 * PACE_S

    class Server(http.server.ThreadingHTTPServer):
        def shutdown_request(self, request):
            super().shutdown_request(request)
            closed.append(request)

    server = Server(("127.0.0.1", 0), Impatient)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with contextlib.ExitStack() as stack:
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        clients = Clients("127.0.0.1", server.server_address[1], count=2)
        stack.callback(clients.close)
        limit = time.monotonic() + 30
        while len(closed) < 2:
            assert time.monotonic() < limit
            time.sleep(PACE_S)
        replies = clients.open_loop([b"0", b"1", b"2", b"3"], [0.0, 0.0, 10 * PACE_S, 10 * PACE_S])
        assert [reply.json() for reply in replies] == [0, 1, 2, 3]


def test_an_open_loop_counts_the_wait_of_requests_that_are_sent_late(slow_port):
    """All four are due at once at a server that answers one at a time: the last waits for the others, whoever sends it."""
    clients = Clients("127.0.0.1", slow_port, count=1)
    found = [reply.ms for reply in clients.open_loop([b"1"] * 4, [0.0] * 4)]
    clients.close()
    numpy.testing.assert_array_less([PACE_S * 1e3 * number for number in (0.99, 1.99, 2.99, 3.99)], found)


def test_no_server_is_said_so():
    with pytest.raises(InvalidInput, match="the server must answer, got http://127.0.0.1:1/classify"):
        Clients("127.0.0.1", 1, count=1)


def test_a_server_that_goes_away_is_said_so():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        clients = Clients("127.0.0.1", listening.getsockname()[1], count=1)
        accepted, _ = listening.accept()
        threading.Timer(0.2, accepted.close).start()
        with pytest.raises(InvalidInput, match="the server must answer"):
            clients.closed_loop([b"1"])
        clients.close()


@pytest.mark.slow
def test_a_server_is_compared_with_its_engine(monkeypatch, exported_dir, data_dir, short_benches):
    monkeypatch.setattr(served, "ServerProcess", InProcess)
    monkeypatch.setattr(served, "_BLOCK", 32)
    monkeypatch.setattr(served, "_ROUNDS", 3)
    traffic = Traffic(data=str(data_dir), task=get_task("mrpc"), max_length=32)
    settings = ServedSettings(texts=8, clients=2, seconds=1)
    document = served.bench_served(parse_target(f"{exported_dir}:onnx"), traffic, settings)
    assert document["label_agreement"] == 1
    assert document["cpu_split"] == {"client": 1}
    assert document["throughput"][served.SERVED]["speedup"] > 0
    assert document["throughput"][served.BARE]["speedup"] == 1
    assert document["one_at_a_time"]["samples"] >= 20
    assert document["engine_alone"]["p50_ms"] > 0
    assert document["peers"] == {}
    assert document["half_pace"]["p99_ms"] >= document["half_pace"]["p50_ms"]


@pytest.mark.slow
def test_peers_are_asked_for_what_they_take(exported_dir, data_dir, tmp_path):
    traffic = Traffic(data=str(data_dir), task=get_task("mrpc"), max_length=32)
    with pytest.raises(InvalidInput, match="--peers are asked for single texts, got a task of pairs"):
        served.bench_served(parse_target(f"{exported_dir}:onnx"), traffic, ServedSettings(seconds=1), peers=tmp_path)
    traffic = Traffic(data=str(data_dir), task=get_task("sst2"), max_length=32)
    with pytest.raises(InvalidInput, match="--peers run a graph in onnxruntime, got torch"):
        served.bench_served(parse_target(str(exported_dir)), traffic, ServedSettings(seconds=1), peers=tmp_path)
    assert list(tmp_path.iterdir()) == []
