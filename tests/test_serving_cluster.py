"""A real server on Ray Serve, as a process: started, loaded, hurt, upgraded and stopped while clients go on asking."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import psutil
import pytest

pytest.importorskip("ray.serve")
TEXT = "a good film"


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def processes_of(parent, name):
    """Its descendants with this in their command lines."""
    found = []
    for process in psutil.Process(parent.pid).children(recursive=True):
        try:
            if name in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


class Clients:
    """Several that ask without a pause, and keep what they are answered."""

    def __init__(self, url, count=3):
        self.url, self.answers, self.stopped = url, [], threading.Event()
        self.threads = [threading.Thread(target=self._ask_on, daemon=True) for _ in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stopped.set()
        for thread in self.threads:
            thread.join(timeout=30)

    def _ask_on(self):
        """Until told to stop, or told by the server that it stops: whoever is told so goes elsewhere."""
        while not self.stopped.is_set():
            self.answers.append(ask(self.url, inputs=[TEXT, "no"]))
            if self.answers[-1][0] == 503:
                return


def ask(url, **body):
    """Status and content."""
    request = urllib.request.Request(f"{url}/classify", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.fixture(scope="module")
def models(exported_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "film").mkdir()
    shutil.copytree(exported_dir, folder / "film" / "1")
    return folder


@pytest.fixture(scope="module")
def server(models):
    port = free_port()
    words = ["serve", f"{models}:onnx", "--port", str(port), "--streams", "1", "--replicas", "2", "--deadline", "60"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hf_albert_plus", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("ready:"):
            break
    assert process.poll() is None, "".join(lines)
    reader = threading.Thread(target=process.stderr.read, daemon=True)
    reader.start()
    process.url = f"http://127.0.0.1:{port}"
    yield process
    process.kill()
    process.wait()
    reader.join()
    process.stderr.close()


def test_only_this_machine_reaches_it(server):
    """No process of the server listens beyond loopback."""
    listening = {
        connection.laddr.ip
        for process in (psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True))
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


def test_answers_survive_killed_replicas_and_a_new_version(server, models):
    """Every request is answered once, and rightly, whatever dies in the meantime."""
    status, before = ask(server.url, inputs=[TEXT, "no"])
    assert status == 200
    assert before["version"] == "1"
    with Clients(server.url) as clients:
        for _ in range(2):
            time.sleep(1)
            processes_of(server, "ray::ServeReplica:film")[0].send_signal(signal.SIGKILL)
        shutil.copytree(models / "film" / "1", models / "film" / "2.partial")
        os.rename(models / "film" / "2.partial", models / "film" / "2")
        limit = time.monotonic() + 90
        while ask(server.url, inputs=TEXT)[1]["version"] != "2":
            assert time.monotonic() < limit
            time.sleep(0.2)
        shutil.rmtree(models / "film" / "1")
        while ask(server.url, inputs=TEXT, version="1")[0] != 404:
            assert time.monotonic() < limit
            time.sleep(0.2)
    assert {status for status, _ in clients.answers} == {200}
    assert {content["version"] for _, content in clients.answers} == {"1", "2"}
    for _, content in clients.answers:
        for one, other in zip(content["predictions"], before["predictions"], strict=True):
            assert one["label"] == other["label"]
            assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)


def test_told_to_stop_it_answers_what_it_took(server):
    with Clients(server.url) as clients:
        time.sleep(1)
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=90) == 0
    statuses = [status for status, _ in clients.answers]
    assert set(statuses) == {200, 503}
    assert statuses.count(503) == len(clients.threads)
