"""Batch scoring on Ray: the run is killed midway, and a node, and every row is scored once in the end."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy
import psutil
import pyarrow
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.text_encoder import TextEncoder
from tests.support.processes import kill_all
from tests.support.ray_clusters import LOOPBACK, starting_cluster

pytestmark = pytest.mark.slow

pytest.importorskip("ray.data")
ROWS, PART = 6000, 50
PARTS = ROWS // PART


@pytest.fixture(scope="module")
def texts():
    words = ["a", "good", "film", "with", "bad", "plot", "and", "the", "cast", "is", "not", "great"]
    return [" ".join(words[(row + place) % 12] for place in range(row % 50)) for row in range(ROWS)]


@pytest.fixture
def begin(exported_dir, texts, tmp_path):
    """Starts a verb over the texts; the same again goes on with it."""
    pq.write_table(pyarrow.table({"text": texts}), tmp_path / "in.parquet", row_group_size=300)

    def begin(*words, verb="score", engine=exported_dir):
        command = [
            sys.executable, "-m", "hf_albert_plus", verb, "--input", tmp_path / "in.parquet", "--engine", f"{engine}:onnx",
            "--output", tmp_path / "out", "--keep", "text=same", "--part-rows", PART, "--cores", 1, "--json", *words,
        ]  # fmt: skip
        with (tmp_path / "log.txt").open("a") as log:
            return subprocess.Popen([*map(str, command)], env=LOOPBACK, stdout=subprocess.PIPE, stderr=log, text=True)

    return begin


@pytest.fixture
def killed():
    """Processes to be gone at the end, whatever happens."""
    processes = []
    yield processes.append
    for process in processes:
        kill_all(process)


def parts_of(directory, name="scores"):
    folder = directory / "out" / name
    return [path for path in folder.iterdir() if path.suffix == ".parquet"] if folder.is_dir() else []


def wait_until(condition, process):
    limit = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, "it ended too soon"
        assert time.monotonic() < limit, "it takes too long"
        time.sleep(0.02)


def workers_of(node):
    """Its processes that score."""
    found = []
    for process in node.children(recursive=True):
        try:
            if "MapWorker" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.fixture
def cluster():
    """A cluster that starts meanwhile; called, it gives its address and the process of its second node."""
    with starting_cluster() as found:
        yield found


def test_a_killed_run_goes_on_elsewhere_where_a_node_is_killed_too(
    begin, killed, cluster, texts, exported_dir, tmp_path
):
    """No row is lost, and none is there twice: the run is killed on this machine, and gone on with on a cluster."""
    run = begin()
    killed(run)
    wait_until(lambda: len(parts_of(tmp_path)) > 3, run)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    there = len(parts_of(tmp_path))
    assert there < PARTS

    address, node = cluster()
    again = begin("--address", address)
    killed(again)
    wait_until(lambda: workers_of(node) and len(parts_of(tmp_path)) > there + 3, again)
    for process in (*node.children(recursive=True), node):
        process.kill()
    assert len(parts_of(tmp_path)) < PARTS

    answer, _ = again.communicate(timeout=400)
    assert again.returncode == 0, (tmp_path / "log.txt").read_text()
    result = json.loads(answer)["result"]
    assert result["rows"] == ROWS
    assert 0 < result["rows_of_this_run"] <= ROWS - there * PART
    rows = pq.read_table(tmp_path / "out" / "scores").to_pylist()
    assert [row["row"] for row in rows] == list(range(ROWS))
    assert [row["same"] for row in rows] == texts
    assert len(list((tmp_path / "out" / "scores").iterdir())) == PARTS
    engine, tokenizer = Engine.load(exported_dir, "onnx"), AutoTokenizer.from_pretrained(exported_dir)
    for row in rows[::37]:
        encoded = tokenizer(row["same"], truncation=True, max_length=64, return_tensors="pt")
        numpy.testing.assert_allclose(row["scores"], engine(**encoded).logits.softmax(-1)[0], atol=1e-5)


def test_a_killed_run_of_vectors_goes_on(begin, killed, texts, vectors_dir, tmp_path):
    run = begin(verb="embed", engine=vectors_dir)
    killed(run)
    wait_until(lambda: len(parts_of(tmp_path, "vectors")) > 3, run)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    there = len(parts_of(tmp_path, "vectors"))
    assert there < PARTS
    again = begin(verb="embed", engine=vectors_dir)
    killed(again)
    answer, _ = again.communicate(timeout=400)
    assert again.returncode == 0, (tmp_path / "log.txt").read_text()
    result = json.loads(answer)["result"]
    assert (result["rows"], result["dimension"]) == (ROWS, 32)
    assert 0 < result["rows_of_this_run"] <= ROWS - there * PART
    table = pq.read_table(tmp_path / "out" / "vectors")
    assert table["row"].to_pylist() == list(range(ROWS))
    assert table["same"].to_pylist() == texts
    assert table.schema.field("vector").type == pyarrow.list_(pyarrow.float32(), 32)
    found = numpy.array(table["vector"].to_pylist(), dtype=numpy.float32)
    numpy.testing.assert_allclose(found, TextEncoder(vectors_dir, "onnx").encode(texts), atol=1e-5)
