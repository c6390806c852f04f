"""A real server, in one process, in several, and on Ray Serve: started, loaded, hurt, upgraded and stopped while clients go on asking."""

import contextlib
import http.client
import json
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import onnx
import psutil
import pytest

pytest.importorskip("ray.serve")

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.load.server_process import ServerProcess
from tests.support.documents import ROOT, agrees, blocks_of
from tests.support.storm import MAX_BODY, MODES, TOKEN, TOLERANCE, Storm, hurt, logits_of, wait_for_versions

pytestmark = pytest.mark.slow

TEXTS = ["a good film", "no", "the plot is bad and the cast is not good at all", "good good bad"]


class Guide:
    """docs/operations/serving.md, a piece of code at a time, in a folder of its own."""

    def __init__(self, folder, exported_dir):
        self.folder, self.exported_dir, self.port = folder, exported_dir, None
        self.blocks = [block for block in blocks_of(ROOT / "docs" / "operations" / "serving.md") if block.runs]

    def run_until(self, stop):
        """Runs the pieces up to one that begins with these words, and gives that one."""
        while self.blocks:
            block = self.blocks.pop(0)
            code = block.code.replace("demo-output/models/student-sst2", str(self.exported_dir))
            if stop is not None and code.startswith(stop):
                return code
            program = ["bash", "-euo", "pipefail", "-c"] if block.language == "bash" else [sys.executable, "-c"]
            done = subprocess.run(
                [*program, code.replace("localhost:8000", f"localhost:{self.port}")],
                cwd=self.folder, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
            if block.output is not None:
                assert agrees(done.stdout, block), f"{block.place} says\n{block.output}\n\nand it prints\n{done.stdout}"
        return None


@pytest.fixture(scope="module", params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def cluster(mode):
    if mode != "cluster":
        pytest.skip("of a cluster")


@pytest.fixture(scope="module")
def guide(mode, exported_dir, tmp_path_factory):
    return Guide(tmp_path_factory.mktemp("serving"), exported_dir)


@pytest.fixture(scope="module")
def models(guide):
    return guide.folder / "models"


@pytest.fixture(scope="module")
def server(guide, mode):
    program, verb, directory, *options = shlex.split(guide.run_until("albert-plus serve"))
    assert (program, verb, options[:2]) == ("albert-plus", "serve", ["--port", "8000"])
    # A token that the storm knows as well.
    (guide.folder / "token").write_text(TOKEN)
    given = [option if option != "token" else str(guide.folder / "token") for option in options[2:]]
    more = (*MODES[mode], "--cores", "1", "--deadline", "60", "--max-body", str(MAX_BODY))
    with ServerProcess(f"{guide.folder / directory}:onnx", *given, *more) as running:
        guide.port = running.port
        yield running


def test_only_this_machine_reaches_it(server):
    """No process of the server listens beyond loopback."""
    parent, listening = psutil.Process(server.pid), set()
    for process in (parent, *parent.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            connections = process.net_connections(kind="tcp")
            listening |= {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
    assert set() < listening <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


def gcs_processes(server):
    found = []
    for child in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name().startswith("gcs_server"):
                found.append(child)
    return found


def gcs_of(server):
    """Arguments of the process of Ray that keeps the state of the cluster."""
    (gcs,) = gcs_processes(server)
    found = gcs.cmdline()
    return dict(word.lstrip("-").split("=", 1) for word in found if "=" in word)


def private_directory_of(server):
    """The one that the server made for Ray's files."""
    words = gcs_of(server)
    directory = Path(words["session-dir"] if "session-dir" in words else words["log_dir"])
    return next(parent for parent in directory.parents if parent.name.startswith("albert-"))


def test_nobody_else_reads_its_files_or_calls_its_processes(server, cluster):
    grpc = pytest.importorskip("grpc")
    private = private_directory_of(server)
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    port = gcs_of(server)["gcs_server_port"]
    if port == "0":
        (port,) = [
            connection.laddr.port
            for child in gcs_processes(server)
            for connection in child.net_connections(kind="tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for metadata in ((), (("authorization", "Bearer wrong"),)):
            ask = channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetAllNodeInfo")
            with pytest.raises(grpc.RpcError) as refused:
                ask(b"", timeout=20, metadata=metadata)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_the_operators_guide_runs_word_for_word(server, guide, models):
    guide.run_until(None)
    assert [folder.name for folder in (models / "film").iterdir()] == ["2"]
    wait_for_versions(server, 2)


def test_a_port_that_is_taken_is_said_before_anything_starts(server, models):
    with pytest.raises(InvalidInput, match="use another --port"), ServerProcess(f"{models}:onnx", port=server.port):
        pass


def test_answers_survive_killed_processes_and_a_new_version(server, mode, models, exported_dir):
    """Every request is answered once, and rightly, whatever dies in the meantime."""
    logits = logits_of(exported_dir, "onnx", TEXTS)
    with Storm(
        server.port, TEXTS, logits, tolerance=TOLERANCE["onnx"], clients=3, may_lose=mode == "processes"
    ) as storm:
        hurt(server, models, seconds=6)
        statuses = {200, 400, 404, 405, 413, 422}
        storm.go_on_until(statuses, {"2", "3"}, at_most_s=60)
    assert storm.wrong == []
    # Of a process that dies the system resets the connections, and those that it had not accepted yet: each of three clients may be at
    # either of the two that are killed, and come back in that moment. None is lost where nothing that takes requests dies.
    assert storm.lost <= (12 if mode == "processes" else 0)
    assert set(storm.versions) == {"2", "3"}
    assert {status for _, status in storm.counts} == statuses


def test_a_broken_version_stays_out_and_says_why(server, models, exported_dir):
    (old,) = (folder.name for folder in (models / "film").iterdir())
    broken = models / "film" / "partial"
    shutil.copytree(exported_dir, broken)
    (broken / "record.json").unlink()
    graph = onnx.load(broken / "onnx" / "model.onnx")
    for tensor in graph.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.ndim == 2:
            tensor.CopyFrom(onnx.numpy_helper.from_array(numpy.roll(values, 1), tensor.name))
    onnx.save(graph, broken / "onnx" / "model.onnx")
    broken.rename(models / "film" / "99")
    limit, status = time.monotonic() + 90, 404
    while status == 404:
        assert time.monotonic() < limit
        time.sleep(0.2)
        status, content = ask(server, "GET", "/v2/models/film/versions/99/ready")
    assert (status, content["ready"]) == (503, False)
    assert "film/99/onnx/model.onnx must compute what the weights beside it do" in content["error"]
    # Of several processes each finds it out for itself, and one of them tells.
    while list(ask(server, "GET", "/v2/models/film")[1]["parameters"]["refused"]) != ["99"] or (
        "film 99 is refused" not in server.log
    ):
        assert time.monotonic() < limit
        time.sleep(0.2)
    assert ask(server, "POST", "/classify", {"inputs": TEXTS})[1]["version"] == old
    time.sleep(5)
    assert server.log.count("film 99 is refused") == 1
    shutil.rmtree(models / "film" / "99")


@contextlib.contextmanager
def asking(server, method, path, body=None):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request(method, path, json.dumps(body), headers)
        yield connection.getresponse()


def ask(server, method, path, body=None):
    with asking(server, method, path, body) as answer:
        return answer.status, json.loads(answer.read())


def test_told_to_stop_it_answers_what_it_took(server, mode):
    statuses, errors = [], []

    def ask_on():
        """Until told that it stops: whoever is told so goes elsewhere, and finds nobody here a little later."""
        while 503 not in statuses and not errors:
            try:
                with asking(server, "POST", "/classify", {"inputs": TEXTS}) as answer:
                    statuses.append(answer.status)
            except (OSError, http.client.HTTPException) as error:
                if 503 not in statuses:
                    errors.append(error)

    clients = [threading.Thread(target=ask_on) for _ in range(3)]
    for client in clients:
        client.start()
    limit = time.monotonic() + 60
    while 200 not in statuses:
        assert time.monotonic() < limit, (statuses, errors)
        time.sleep(0.05)
    private = private_directory_of(server) if mode == "cluster" else None
    assert private is None or private.is_dir()
    assert server.stop() == 0
    assert private is None or not private.exists()
    for client in clients:
        client.join(timeout=60)
        assert not client.is_alive()
    assert errors == []
    assert set(statuses) == {200, 503}
    assert statuses.index(503) > 0


def test_a_folder_with_a_sound_and_a_broken_model_serves_the_sound_one(exported_dir, tmp_path):
    shutil.copytree(exported_dir, tmp_path / "sound")
    shutil.copytree(exported_dir, tmp_path / "broken")
    (tmp_path / "broken" / "tokenizer.json").unlink()
    with ServerProcess(f"{tmp_path}:onnx", "--cores", "1") as running:
        assert ask(running, "POST", "/classify", {"inputs": "no", "model": "sound"})[0] == 200
        status, content = ask(running, "GET", "/v2/models/broken/ready")
        assert (status, content["ready"]) == (503, False)
        assert "must hold its tokenizer" in content["error"]
    shutil.rmtree(tmp_path / "sound")
    with pytest.raises(InvalidInput, match="must hold its tokenizer"), ServerProcess(f"{tmp_path}:onnx"):
        pass


# A model that comes through its trial and does not open in its replica: the error is the replica's own.
REPLICA_FAILS = """
import sys
from pathlib import Path
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.serving import server
from hf_albert_plus.serving.settings import ServeSettings
server.Trial.end = lambda self: None
try:
    server.Server(Path(sys.argv[1]), runtime="onnx", settings=ServeSettings(), hosting=server.Hosting(port=int(sys.argv[2]), cluster=server.Cluster())).start()
except InvalidInput as error:
    print("refused:", error)
"""


def test_what_a_replica_fails_with_is_what_is_told(exported_dir, tmp_path):
    shutil.copytree(exported_dir, tmp_path / "film")
    (tmp_path / "film" / "record.json").unlink()
    (tmp_path / "film" / "onnx" / "model.onnx").write_bytes(b"no graph")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-c", REPLICA_FAILS, tmp_path / "film", str(port)], capture_output=True, text=True, timeout=240
    )
    assert "refused: " in done.stdout, done.stderr
    assert "an ONNX file must load in onnxruntime, got" in done.stdout
