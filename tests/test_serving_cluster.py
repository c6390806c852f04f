"""A real server on Ray Serve, as a process: started, loaded, hurt, upgraded and stopped while clients go on asking."""

import http.client
import json
import re
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray.serve")

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.server_process import ServerProcess

from .storm import MAX_BODY, TOKEN, TOLERANCE, Storm, hurt, logits_of, wait_for_versions

pytestmark = pytest.mark.slow

TEXTS = ["a good film", "no", "the plot is bad and the cast is not good at all", "good good bad"]


class Guide:
    """docs/serving.md, a piece of code at a time, in a folder of its own."""

    def __init__(self, folder, exported_dir):
        text = (Path(__file__).parent.parent / "docs" / "serving.md").read_text()
        self.folder, self.exported_dir, self.port = folder, exported_dir, None
        self.blocks = re.findall(r"```(bash|python)\n(.*?)```", text, flags=re.DOTALL)

    def run_until(self, stop):
        """Runs the pieces up to one that begins with these words, and gives that one."""
        while self.blocks:
            language, code = self.blocks.pop(0)
            code = code.replace("demo-output/models/student-sst2", str(self.exported_dir))
            if stop is not None and code.startswith(stop):
                return code
            program = ["bash", "-euo", "pipefail", "-c"] if language == "bash" else [sys.executable, "-c"]
            done = subprocess.run(
                [*program, code.replace("localhost:8000", f"localhost:{self.port}")],
                cwd=self.folder, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
        return None


@pytest.fixture(scope="module")
def guide(exported_dir, tmp_path_factory):
    return Guide(tmp_path_factory.mktemp("serving"), exported_dir)


@pytest.fixture(scope="module")
def models(guide):
    return guide.folder / "models"


@pytest.fixture(scope="module")
def server(guide):
    assert guide.blocks.pop(0)[1].startswith("pip install")
    program, verb, directory, *options = shlex.split(guide.run_until("albert-plus serve"))
    assert (program, verb, options[:2]) == ("albert-plus", "serve", ["--port", "8000"])
    # A token that the storm knows as well.
    (guide.folder / "token").write_text(TOKEN)
    given = [option if option != "token" else str(guide.folder / "token") for option in options[2:]]
    more = ("--streams", "1", "--replicas", "2", "--deadline", "60", "--max-body", str(MAX_BODY))
    with ServerProcess(f"{guide.folder / directory}:onnx", *given, *more) as running:
        guide.port = running.port
        yield running


def test_only_this_machine_reaches_it(server):
    """No process of the server listens beyond loopback."""
    listening = {
        connection.laddr.ip
        for process in (psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True))
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


def test_the_operators_guide_runs_word_for_word(server, guide, models):
    guide.run_until(None)
    assert [folder.name for folder in (models / "film").iterdir()] == ["2"]
    wait_for_versions(server, 2)


def test_a_port_that_is_taken_is_said_before_anything_starts(server, models):
    with pytest.raises(InvalidInput, match="use another --port"), ServerProcess(f"{models}:onnx", port=server.port):
        pass


def test_answers_survive_killed_replicas_and_a_new_version(server, models, exported_dir):
    """Every request is answered once, and rightly, whatever dies in the meantime."""
    logits = logits_of(exported_dir, "onnx", TEXTS)
    with Storm(server.port, TEXTS, logits, tolerance=TOLERANCE["onnx"], clients=3) as storm:
        hurt(server, models, seconds=6)
    assert storm.wrong == []
    assert set(storm.versions) == {"2", "3"}
    assert {status for _, status in storm.counts} == {200, 400, 404, 405, 413, 422}


def test_told_to_stop_it_answers_what_it_took(server):
    statuses = []

    def ask_on():
        """Until told that it stops: whoever is told so goes elsewhere."""
        while not statuses.count(503):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            body = json.dumps({"inputs": TEXTS})
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
            connection.request("POST", "/classify", body, headers)
            statuses.append(connection.getresponse().status)
            connection.close()

    clients = [threading.Thread(target=ask_on) for _ in range(3)]
    for client in clients:
        client.start()
    time.sleep(1)
    assert server.stop() == 0
    for client in clients:
        client.join(timeout=30)
    assert set(statuses) == {200, 503}
    assert statuses.index(503) > 0
