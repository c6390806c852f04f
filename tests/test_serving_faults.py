"""What is wrong with one request, one model or one connection, and what it must not do to others."""

import asyncio
import concurrent.futures
import json
import select
import shutil
import socket
import time

import numpy
import onnx
import pytest
from safetensors.torch import load_file, save_file

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.serving.batcher import TokenBatcher
from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.classifier import Classifier
from hf_albert_plus.serving.guard import Gate
from hf_albert_plus.serving.settings import ServeSettings
from hf_albert_plus.serving.sharing import SharedCalls

from .conftest import invoke
from .local_server import Running

INFER = "/v2/models/film/infer"
POISON = 9


def shared_model(classifier):
    """A model as a server sees one behind its replica: small requests share calls."""
    deployments = pytest.importorskip("hf_albert_plus.serving.deployments")
    replica = deployments.ModelReplica.__new__(deployments.ModelReplica)
    replica.classifier = classifier

    class Answer:
        async def remote(self, requests):
            await asyncio.sleep(0.02)
            return await replica.answer(requests)

    class Handle:
        answer = Answer()

    return deployments.RemoteModel(Handle(), classifier.facts, replicas=1, deadline_s=5)


def poisoned(classifier, harm, *, poison=POISON):
    """Has rows with the poisonous id harm the batch that they are in, as the engine's own faults do."""
    run = classifier.engine.run

    def harmed(tensors):
        output = run(tensors)
        if (tensors["input_ids"] == poison).any():
            harm(output)
        return output

    classifier.engine.run = harmed
    return classifier


def fails(output):
    raise RuntimeError("out of memory at /secret/path")


def is_nan(output):
    output["logits"][:] = float("nan")


def is_short(output):
    output["logits"] = output["logits"][:-1]


@pytest.fixture
def running(exported_dir):
    """Starts applications over a model, and stops them."""
    started = []

    def run(model=None, **settings):
        settings = ServeSettings(**{"wait_ms": 100, "streams": 1, **settings})
        model = model or Classifier(exported_dir, "onnx", settings)
        started.append(Running(Catalogue({"film": {1: model}}), settings, Gate()))
        return started[-1]

    yield run
    for server in started:
        server.stop()


def ids_of(*rows, datatype="INT64"):
    return {"name": "input_ids", "shape": [len(rows), len(rows[0])], "datatype": datatype, "data": list(rows)}


def together(ask, requests):
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda body: ask("POST", INFER, body), requests))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ({"name": "input_ids", "shape": [1], "datatype": "BYTES", "data": ["a"]}, "input_ids must be INT64 or INT32, got BYTES"),
        ({"name": "attention_mask", "shape": [1], "datatype": "BYTES", "data": ["a"]}, "attention_mask must be INT64 or INT32"),
        ({"name": "text", "shape": [1, 1], "datatype": "INT64", "data": [5]}, "text must be BYTES, got INT64"),
        ({"name": "text_pair", "shape": [1, 1], "datatype": "INT32", "data": [5]}, "text_pair must be BYTES, got INT32"),
        ({"name": "position_ids", "shape": [1, 1], "datatype": "INT64", "data": [0]}, "got 'position_ids'"),
        ({"name": "x" * 999, "shape": [1, 1], "datatype": "INT64", "data": [0]}, f"got '{'x' * 40}…'"),
        ({"name": "input_ids", "shape": [10**300, 10**300], "datatype": "INT64", "data": [0]}, "less than 2147483648"),
    ],
)  # fmt: skip
def test_tensors_of_another_type_are_refused_before_they_share_a_call(running, exported_dir, tensor, message):
    classifier = Classifier(exported_dir, "onnx", ServeSettings(wait_ms=100, streams=1))
    server = running(shared_model(classifier))
    good = {"inputs": [ids_of([2, 8, 3])]}
    answers = together(server.ask, [good, {"inputs": [tensor]}, good, good])
    assert [status for status, _, _ in answers] == [200, 422, 200, 200]
    assert message in answers[1][2]["error"]


@pytest.mark.parametrize("harm", [fails, is_nan, is_short])
@pytest.mark.parametrize("shares", ["a batch", "a call"])
def test_a_fault_is_its_owners_alone(running, exported_dir, harm, shares):
    classifier = poisoned(Classifier(exported_dir, "onnx", ServeSettings(wait_ms=100, streams=1)), harm)
    server = running(classifier if shares == "a batch" else shared_model(classifier))
    good, bad = {"inputs": [ids_of([2, 8, 3])]}, {"inputs": [ids_of([2, POISON, 3])]}
    answers = together(server.ask, [good, good, bad, good, good])
    assert [status for status, _, _ in answers] == [200, 200, 500, 200, 200]
    assert "secret" not in answers[2][2]["error"]
    logits = [answers[place][2]["outputs"][0]["data"] for place in (0, 1, 3, 4)]
    assert logits == [logits[0]] * 4


def test_scores_that_are_no_numbers_are_an_error_and_counted(running, exported_dir):
    classifier = Classifier(exported_dir, "onnx", ServeSettings(streams=1))
    ids = classifier.tokenizer("no")["input_ids"]
    server = running(poisoned(classifier, is_nan, poison=ids[1]))
    row = numpy.array(ids).astype("<i8").tobytes()
    tensor = {
        "name": "input_ids",
        "shape": [1, len(ids)],
        "datatype": "INT64",
        "parameters": {"binary_data_size": len(row)},
    }
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    asked = [
        server.ask("POST", "/classify", {"inputs": "no"}),
        server.ask("POST", INFER, {"inputs": [ids_of(ids)]}),
        server.ask("POST", INFER, head + row, Inference_Header_Content_Length=str(len(head))),
    ]
    for status, _, content in asked:
        assert (status, content) == (500, {"error": "the model computed no finite scores for this request"})
    metrics = server.ask("GET", "/metrics")[2].decode()
    assert 'hf_albert_plus_not_finite_total{model="film",version="1"} 3.0' in metrics
    assert server.classify(inputs="a good film")[0] == 200


@pytest.mark.parametrize("answers", [lambda requests: requests[:-1], lambda requests: [*requests, "more"]])
def test_a_shared_call_that_answers_another_number_is_made_again_for_each(answers):
    async def call(requests):
        return answers(requests) if len(requests) > 1 else [requests[0].upper()]

    async def run():
        shared = SharedCalls(call, at_a_time=1)
        return await asyncio.wait_for(asyncio.gather(*(shared.submit(letter) for letter in "abc")), 5)

    assert asyncio.run(run()) == ["A", "B", "C"]


def test_a_batch_that_answers_another_number_is_computed_again_for_each():
    async def run():
        batcher = TokenBatcher(lambda rows: rows if len(rows) < 2 else rows[:-1], budget=100, wait_s=0.05, streams=1, bound=1000)  # fmt: skip
        asked = [asyncio.wait_for(batcher.submit([row], lengths=[1]), 5) for row in range(4)]
        found = await asyncio.gather(*asked)
        await batcher.close()
        return found

    assert asyncio.run(run()) == [[0], [1], [2], [3]]


@pytest.mark.parametrize("version", ["9" * 5_000, "01", "+1", "1e0", "%D9%A1", "%2F1", "..", "1%00"])
@pytest.mark.parametrize("route", ["", "/ready"])
def test_a_path_says_a_version_as_it_is_or_none(running, version, route):
    server = running()
    status, _, content = server.ask("GET", f"/v2/models/film/versions/{version}{route}")
    assert status == 404, content
    assert server.ask("POST", f"/v2/models/film/versions/{'9' * 5_000}/infer", {})[0] == 404
    assert server.ask("GET", f"/v2/models/film/versions/1{route}")[0] == 200


@pytest.fixture
def model_dir(exported_dir, tmp_path):
    """A copy to break, without the record that would tell of it."""
    shutil.copytree(exported_dir, tmp_path / "film")
    (tmp_path / "film" / "record.json").unlink()
    return tmp_path / "film"


def changed_graph(change):
    """Another model's graph: every matrix of its weights is changed."""

    def harm(directory):
        graph = onnx.load(directory / "onnx" / "model.onnx")
        for tensor in graph.graph.initializer:
            values = onnx.numpy_helper.to_array(tensor)
            if values.dtype == numpy.float32 and values.ndim == 2:
                tensor.CopyFrom(onnx.numpy_helper.from_array(numpy.ascontiguousarray(change(values)), tensor.name))
        onnx.save(graph, directory / "onnx" / "model.onnx")

    return harm


other_weights = changed_graph(lambda values: numpy.roll(values, 1, axis=0))
smaller_vocabulary = changed_graph(lambda values: values[:50] if len(values) > 100 else values)
graph_with_nan = changed_graph(lambda values: values * numpy.float32("nan"))


def weights_with_nan(directory):
    tensors = load_file(directory / "model.safetensors")
    name = next(name for name, tensor in tensors.items() if tensor.dim() == 2)
    tensors[name][-1, -1] = float("nan")
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def three_labels(directory):
    config = json.loads((directory / "config.json").read_text())
    config["id2label"], config["label2id"] = {"0": "a", "1": "b", "2": "c"}, {"a": 0, "b": 1, "c": 2}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("harm", "runtime", "message"),
    [
        (smaller_vocabulary, "onnx", "must compute"),
        (other_weights, "onnx", "must compute what the weights beside it do: outputs may differ by at most 0.0001"),
        (graph_with_nan, "onnx", "must give finite logits, got nan"),
        (weights_with_nan, "onnx", "must be finite, got NaN or infinity in"),
        (weights_with_nan, "torch", "finite"),
        (three_labels, "onnx", "must give 3 logits for a text, one for each label of its config, got shape [2, 2]"),
    ],
)  # fmt: skip
def test_a_model_that_answers_otherwise_than_its_weights_is_not_fit(model_dir, harm, runtime, message):
    from hf_albert_plus.serving.trial_process import try_model

    try_model(str(model_dir), runtime, None)
    harm(model_dir)
    with pytest.raises(InvalidInput) as refused:
        try_model(str(model_dir), runtime, None)
    assert message in str(refused.value)


def test_int8_is_tried_with_the_tolerance_of_its_export(exported_dir):
    from hf_albert_plus.serving.trial_process import try_model

    try_model(str(exported_dir), "onnx-int8", None)


def test_a_trial_tells_home_what_is_wrong_even_if_its_process_dies(model_dir, monkeypatch):
    from hf_albert_plus.serving import trial
    from hf_albert_plus.serving.repository import scan

    (served,) = scan(model_dir, runtime="onnx")
    graph_with_nan(model_dir)
    with pytest.raises(InvalidInput, match="must give finite logits, got nan"):
        trial.Trial(served, max_length=None).end()
    monkeypatch.setattr(trial, "_WORK", "tests.dies")
    with pytest.raises(InvalidInput, match=r"must open and compute on onnx, got .*tests.dies"):
        trial.Trial(served, max_length=None).end()


def write(name, content):
    return lambda directory: (directory / name).write_text(content)


def no_classifier(directory):
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "architectures": ["AlbertPlusForMaskedLM"]}))


def other_content_than_recorded(directory):
    (directory / "record.json").write_text(json.dumps({"files": {"onnx/model.onnx": {"sha256": "0" * 64}}}))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (write("config.json", "{"), "config.json must be a readable JSON file"),
        (write("config.json", "[1]"), "config.json must hold a JSON object, got list"),
        (write("config.json", "[" * 10_000), "config.json must be a readable JSON file"),
        (write("config.json", '{"model_type": "unheard-of"}'), "a model to serve must be a model directory"),
        (no_classifier, "texts are classified by sequence classifiers, got AlbertPlusForMaskedLM"),
        (write("tokenizer.json", "{"), "tokenizer.json must be a readable JSON file"),
        (write("tokenizer.json", "{}"), "config and tokenizer of"),
        (lambda directory: (directory / "tokenizer.json").unlink(), "a model directory must hold its tokenizer"),
        (lambda directory: (directory / "onnx" / "model.onnx").unlink(), "must hold onnx/model.onnx to be run by onnx, got no such file"),
        (other_content_than_recorded, "must be the file that"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_directory_is_said_before_anything_starts(model_dir, harm, message, monkeypatch):
    server = pytest.importorskip("hf_albert_plus.serving.server")

    def starts(*args, **options):
        raise AssertionError("Ray was started")

    monkeypatch.setattr(server, "ray_library", starts)
    monkeypatch.setattr(server, "join", starts)
    harm(model_dir)
    place = server.Place(port=free_port())
    found = server.Server(model_dir, runtime="onnx", settings=ServeSettings(), place=place)
    with pytest.raises(InvalidInput) as refused:
        found.start()
    assert message in str(refused.value)


def test_longer_texts_than_positions_are_said_before_anything_starts(exported_dir, monkeypatch):
    server = pytest.importorskip("hf_albert_plus.serving.server")
    monkeypatch.setattr(server, "ray_library", None)
    place = server.Place(port=free_port())
    found = server.Server(exported_dir, runtime="onnx", settings=ServeSettings(max_length=65), place=place)
    with pytest.raises(InvalidInput, match="must not exceed the 64 positions of .*, got 65; use --max-length 64"):
        found.start()


class FakeReplicas:
    """A server whose replicas are names: which are started and ended, and which models requests find."""

    def __init__(self, server, monkeypatch, folder):
        self.told, self.deleted, self.started = [], [], []
        self.server = server.Server(
            folder, runtime="onnx", settings=ServeSettings(), place=server.Place(), tell=self.told.append
        )

        class Serve:
            delete = self.deleted.append

        def run_model(model, trial):
            self.started.append(model.application)
            if (model.directory / "unfit").exists():
                raise InvalidInput("it must be fit", got="unfit", repair="mend it")
            self.server.running[model.application] = model

        monkeypatch.setattr(server, "Trial", lambda model, *, max_length: None)
        monkeypatch.setattr(server, "_ray_serve", lambda: Serve)
        monkeypatch.setattr(self.server, "_run_model", run_model)
        monkeypatch.setattr(self.server, "_model", lambda model: model)

    def versions(self):
        catalogue = self.server._catalogue
        return {name: sorted(versions) for name, versions in catalogue.models.items()}, {
            name: dict(versions) for name, versions in catalogue.refused.items()
        }


def test_a_refused_version_stays_out_until_it_changes(exported_dir, tmp_path, monkeypatch):
    server = pytest.importorskip("hf_albert_plus.serving.server")
    fake = FakeReplicas(server, monkeypatch, tmp_path)
    shutil.copytree(exported_dir, tmp_path / "film" / "1")
    assert fake.server.refresh()
    assert fake.versions() == ({"film": [1]}, {})
    shutil.copytree(exported_dir, tmp_path / "film" / "2")
    (tmp_path / "film" / "2" / "unfit").touch()
    assert fake.server.refresh()
    assert fake.versions() == ({"film": [1]}, {"film": {2: "it must be fit, got unfit; mend it"}})
    assert fake.told == ["film 2 is refused: it must be fit, got unfit; mend it"]
    shutil.copytree(exported_dir, tmp_path / "film" / "3")
    (tmp_path / "film" / "3" / "tokenizer.json").unlink()
    assert fake.server.refresh()
    assert "film/3 without" in fake.versions()[1]["film"][3] or "film/3" in fake.versions()[1]["film"][3]
    assert len(fake.started) == 2
    assert [fake.server.refresh() for _ in range(3)] == [False] * 3
    # The old one goes on as long as there is nothing fit in its place.
    shutil.rmtree(tmp_path / "film" / "1")
    fake.server.refresh()
    assert fake.versions()[0] == {"film": [1]}
    assert fake.deleted == []
    (tmp_path / "film" / "2" / "unfit").unlink()
    (tmp_path / "film" / "2" / "config.json").touch()
    assert fake.server.refresh()
    assert fake.versions()[0] == {"film": [2]}
    assert len(fake.deleted) == 1


def test_a_refused_version_is_not_ready_and_says_why(exported_dir, running):
    server = running()
    catalogue = Catalogue({"film": {1: Classifier(exported_dir, "onnx", ServeSettings())}})
    catalogue.refused = {"film": {2: "it must be fit"}, "plot": {1: "no tokenizer"}}
    server = Running(catalogue, ServeSettings(), Gate())
    try:
        assert server.ask("GET", "/v2/models/film")[2]["parameters"]["refused"] == {"2": "it must be fit"}
        assert server.ask("GET", "/v2/models/film/ready")[0] == 200
        assert server.classify(inputs="a")[1]["version"] == "1"
        status, _, content = server.ask("GET", "/v2/models/film/versions/2/ready")
        assert (status, content["ready"]) == (503, False)
        for method, path in (("GET", "/v2/models/film/versions/2"), ("POST", "/v2/models/film/versions/2/infer")):
            status, _, content = server.ask(method, path)
            assert (status, content["error"]) == (503, "film 2 does not serve: it must be fit")
        assert server.ask("GET", "/v2/models/plot")[2]["error"] == "plot 1 does not serve: no tokenizer"
        line = 'hf_albert_plus_refused_versions{model="film",reason="it must be fit",version="2"} 1.0'
        assert line in server.ask("GET", "/metrics")[2].decode()
    finally:
        server.stop()


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


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
