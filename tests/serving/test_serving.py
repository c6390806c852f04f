"""The server without its cluster, over real sockets: what requests may hold, and what they are answered."""

import asyncio
import http.client
import json
import time

import numpy
import pytest
import torch
from transformers import AutoTokenizer

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.text_answers import AnswerRule
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.refusals import Unusable
from hf_albert_plus.serving.repository import scan
from hf_albert_plus.serving.settings import ServeSettings
from hf_albert_plus.serving.shared_calls import SharedCalls
from tests.support.local_server import Running
from tests.support.replicas import behind_a_replica

TEXTS = ["a good film", "no", "the plot is bad and the cast is not good at all"]


@pytest.fixture(scope="module")
def settings():
    return ServeSettings(max_body=20_000, max_items=8, deadline_s=5, cores=2)


@pytest.fixture(scope="module", params=["embedded", "cluster"])
def served(request, exported_dir, settings):
    """Two versions of a model, one of them int8, in the server's process or behind replicas, and the gate before them."""
    gate = Gate()
    models = {
        1: QueuedModel(exported_dir, "onnx-int8", settings),
        2: QueuedModel(exported_dir, "onnx", settings),
    }
    if request.param == "cluster":
        models = {version: behind_a_replica(model) for version, model in models.items()}
    running = Running(Catalogue({"film": models}), settings, gate)
    running.gate = gate
    yield running
    running.stop()


def expected(exported_dir, texts):
    engine, tokenizer = Engine.load(exported_dir, "onnx"), AutoTokenizer.from_pretrained(exported_dir)
    return engine(**tokenizer(texts, padding=True, return_tensors="pt")).logits.softmax(-1).numpy()


def test_texts_and_pairs_get_their_scores(served, exported_dir):
    status, content = served.classify(inputs=TEXTS)
    assert status == 200
    assert (content["model"], content["version"]) == ("film", "2")
    labels = list(content["predictions"][0]["scores"])
    found = numpy.array([[one["scores"][label] for label in labels] for one in content["predictions"]])
    scores = expected(exported_dir, TEXTS)
    numpy.testing.assert_allclose(found, scores, atol=1e-5)
    assert [one["label"] for one in content["predictions"]] == [labels[place] for place in scores.argmax(-1)]
    status, content = served.classify(inputs=[{"text": TEXTS[0], "text_pair": TEXTS[1]}, TEXTS[2]])
    tokenizer = AutoTokenizer.from_pretrained(exported_dir)
    assert content["predictions"][0]["tokens"] == len(tokenizer(TEXTS[0], TEXTS[1])["input_ids"])
    single = served.classify(inputs=TEXTS[2], version="1")[1]
    assert single["version"] == "1"
    assert len(single["predictions"]) == 1


def test_long_texts_are_refused_or_cut(served, exported_dir):
    long = "good " * 100
    status, content = served.classify(inputs=["no", long])
    assert status == 422
    tokens = len(AutoTokenizer.from_pretrained(exported_dir)(long)["input_ids"])
    assert content["error"].startswith(f"text 1 has {tokens} tokens, and the model takes at most 64")
    status, content = served.classify(inputs=["no", long], truncate=True)
    assert [(one["tokens"], one["truncated"]) for one in content["predictions"]] == [(3, False), (64, True)]
    assert served.classify(inputs="a" * 10_000)[0] == 422
    assert served.classify(inputs="a" * 10_000, truncate=True)[1]["predictions"][0]["truncated"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{bad", 400, "the body must be JSON"),
        (b"[" * 9_000, 400, ""),
        (b'{"inputs": NaN}', 422, "inputs must be a text, an object with text and text_pair, or a list"),
        (b'{"inputs": "\\ud800"}', 422, "half of a surrogate pair"),
        ({"inputs": 5}, 422, "inputs must be a text"),
        ({"inputs": ["a", 5]}, 422, "inputs.1 must be a text"),
        ({"inputs": []}, 422, "at least 1 item"),
        ({"inputs": {"text": "a", "path": "/etc/passwd"}}, 422, "inputs.path: Extra inputs"),
        ({"texts": "a"}, 422, "inputs: Field required"),
        ({"inputs": "a", "truncate": "yes"}, 422, "truncate: Input should be a valid boolean"),
        ({"inputs": ["a"] * 9}, 413, "inputs has 9 texts; a request may have 8"),
        (b'"' + b"x" * 200_000 + b'"', 413, "a request may have 20000 bytes"),
        ({"inputs": "a", "model": "../film"}, 404, "no model of that name; there is film"),
        ({"inputs": "a", "version": "3"}, 404, "film has no such version; it has 1, 2"),
        ({"inputs": "a", "version": "²"}, 404, "no such version"),
    ],
)  # fmt: skip
def test_bad_requests_are_told_what_is_wrong(served, body, status, message):
    found, _, content = served.ask("POST", "/classify", body)
    assert found == status
    assert message in content["error"]
    assert "Traceback" not in content["error"]
    assert served.classify(inputs="a good film")[0] == 200


def test_a_body_without_a_length_is_counted(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    connection.request(
        "POST", "/classify", iter([b"x" * 5_000] * 10), encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
    )
    answer = connection.getresponse()
    assert answer.status == 413
    assert "20000 bytes" in json.loads(answer.read())["error"]
    connection.close()


def test_whoever_has_no_token_is_not_let_in(served):
    served.gate.token = "secret"
    try:
        assert served.ask("POST", "/classify", {"inputs": "a"})[:1] == (401,)
        assert served.ask("GET", "/docs")[0] == 401
        assert (
            served.ask("POST", "/classify", {"inputs": "a"}, Authorization="Bearer wrong")[1]["www-authenticate"]
            == "Bearer"
        )
        assert served.ask("POST", "/classify", {"inputs": "a"}, Authorization="Bearer secret")[0] == 200
        assert served.ask("GET", "/v2/health/ready")[0] == 200
    finally:
        served.gate.token = None


def test_a_stopping_server_takes_nothing_new(served):
    served.gate.is_draining = True
    try:
        status, headers, content = served.ask("POST", "/classify", {"inputs": "a"})
        assert (status, headers["retry-after"]) == (503, "1")
        assert "stopping" in content["error"]
        assert served.ask("GET", "/v2/health/ready")[0] == 503
        assert served.ask("GET", "/v2/health/live")[0] == 200
    finally:
        served.gate.is_draining = False


def test_requests_are_counted_for_prometheus(served):
    def value(line):
        text = served.ask("GET", "/metrics")[2].decode()
        return sum(float(each.rpartition(" ")[2]) for each in text.splitlines() if each.startswith(line))

    good, bad = ('hf_albert_plus_requests_total{route="/classify",status="%d"}' % code for code in (200, 422))  # noqa: UP031
    texts = 'hf_albert_plus_texts_total{model="film",version="2"}'
    before = [value(line) for line in (good, bad, texts)]
    served.classify(inputs=["a", "b"])
    served.classify(inputs=[])
    assert [value(line) for line in (good, bad, texts)] == [before[0] + 1, before[1] + 1, before[2] + 2]


def test_tritons_client_is_understood(served, exported_dir):
    """tritonclient's own requests: texts and ids, as bytes and as JSON."""
    client_of = pytest.importorskip("tritonclient.http")
    client = client_of.InferenceServerClient(f"127.0.0.1:{served.port}")
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("film", "1")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    metadata = client.get_model_metadata("film")
    assert metadata["versions"] == ["1", "2"]
    scores = expected(exported_dir, TEXTS)
    text = client_of.InferInput("text", [len(TEXTS)], "BYTES")
    text.set_data_from_numpy(numpy.array(TEXTS, dtype=object))
    answer = client.infer("film", [text], request_id="7")
    numpy.testing.assert_allclose(answer.as_numpy("scores"), scores, atol=1e-5)
    assert [one.decode() for one in answer.as_numpy("label")] == [
        metadata["parameters"]["labels"][i] for i in scores.argmax(-1)
    ]
    assert answer.get_response()["id"] == "7"
    tokenizer = AutoTokenizer.from_pretrained(exported_dir)
    encoded = tokenizer(TEXTS, padding=True, return_tensors="np")
    for binary in (True, False):
        inputs = []
        for name in ("input_ids", "attention_mask", "token_type_ids"):
            values = encoded[name].astype(numpy.int64)
            inputs.append(client_of.InferInput(name, list(values.shape), "INT64"))
            inputs[-1].set_data_from_numpy(values, binary_data=binary)
        wanted = [client_of.InferRequestedOutput("scores", binary_data=binary)]
        found = client.infer("film", inputs, outputs=wanted).as_numpy("scores")
        numpy.testing.assert_allclose(found, scores, atol=1e-5)
    from tritonclient.utils import InferenceServerException

    with pytest.raises(InferenceServerException, match="no model of that name"):
        client.infer("other", [text])


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ({"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a"]}, "text has shape [2] and 1 elements"),
        ({"name": "text", "shape": [1], "datatype": "BYTES", "data": [5]}, "its data must be strings"),
        ({"name": "text", "shape": [-1, -1], "datatype": "BYTES", "data": ["a"]}, "inputs.0.shape.0"),
        ({"name": "input_ids", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.0]}, "should be 'BYTES', 'INT64' or 'INT32'"),
        ({"name": "input_ids", "shape": [1, 2], "datatype": "INT64", "data": [1, True]}, "whole numbers"),
        ({"name": "input_ids", "shape": [1, 1], "datatype": "INT64", "data": [2**40]}, "whole numbers below 2^31"),
        ({"name": "input_ids", "shape": [1, 2], "datatype": "INT64", "data": [1, 99_999]}, "input_ids must lie between 0 and"),
        ({"name": "input_ids", "shape": [1, 65], "datatype": "INT64", "data": [1] * 65}, "at most 64 tokens"),
        ({"name": "input_ids", "shape": [2], "datatype": "INT64", "data": [1, 2]}, "shape [rows, tokens]"),
        ({"name": "attention_mask", "shape": [1, 2], "datatype": "INT64", "data": [1, 1]}, "no input_ids"),
        ({"name": "input_ids", "shape": [9, 1], "datatype": "INT64", "data": [1] * 9}, "a request may have 8"),
        ({"name": "text", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 5}}, "5 bytes behind the JSON"),
    ],
)  # fmt: skip
def test_tensors_that_are_none(served, tensor, message):
    status, _, content = served.ask("POST", "/v2/models/film/infer", {"inputs": [tensor]})
    assert status in (413, 422)
    assert message in content["error"]


def test_padding_has_its_side(served):
    ids = {"name": "input_ids", "shape": [2, 3], "datatype": "INT64", "data": [[2, 9, 3], [2, 3, 0]]}
    for mask, status in (([[1, 1, 1], [1, 1, 0]], 200), ([[1, 1, 1], [0, 1, 1]], 422), ([[1, 1, 1], [0, 0, 0]], 422)):
        tensors = [ids, {"name": "attention_mask", "shape": [2, 3], "datatype": "INT64", "data": mask}]
        assert served.ask("POST", "/v2/models/film/infer", {"inputs": tensors})[0] == status


def test_an_answer_that_takes_too_long_is_not_waited_for(exported_dir):
    settings = ServeSettings(deadline_s=0.2)
    model = QueuedModel(exported_dir, "onnx", settings)
    model._batcher.run = lambda rows: time.sleep(1) or [numpy.zeros(2)] * len(rows)
    running = Running(Catalogue({"slow": {1: model}}), settings, Gate())
    status, headers, content = running.ask("POST", "/classify", {"inputs": "a"})
    assert (status, headers["retry-after"]) == (504, "1")
    assert "no answer within 0.2 s" in content["error"]
    running.stop()


def test_an_error_of_the_servers_own_is_none_of_the_clients(exported_dir):
    settings = ServeSettings()
    model = QueuedModel(exported_dir, "onnx", settings)

    def fails(rows):
        raise RuntimeError("/secret/path")

    model._batcher.run = fails
    running = Running(Catalogue({"broken": {1: model}}), settings, Gate())
    status, _, content = running.ask("POST", "/classify", {"inputs": "a"})
    assert (status, content) == (500, {"error": "the server failed at this; its log says why"})
    running.stop()


@pytest.mark.parametrize("kind", ["single_label_classification", "multi_label_classification", "regression"])
def test_scores_are_torchs(kind):
    logits = numpy.array([[2.0, -1.0, 0.5], [1e4, 0.0, -1e4]], dtype=numpy.float32)
    found = AnswerRule(("a", "b", "c"), kind).scores(logits)
    of = {"single": lambda x: x.softmax(-1), "multi_": torch.sigmoid, "regres": lambda x: x}[kind[:6]]
    numpy.testing.assert_allclose(found, of(torch.from_numpy(logits)).numpy(), atol=1e-6)


def test_what_a_folder_holds(exported_dir, tmp_path):
    for place in ("film/1", "film/12", "plot", "empty", "film/new", ".hidden", "next.partial"):
        (tmp_path / place).mkdir(parents=True)
    for place in ("film/1", "film/12", "plot", "film/new", "next.partial"):
        (tmp_path / place / "config.json").write_text("{}")
        (tmp_path / place / "model.safetensors").write_text("")
    (tmp_path / "film/12/onnx").mkdir()
    (tmp_path / "film/12/onnx/model_int8.onnx").write_text("")
    (tmp_path / "pick/onnx").mkdir(parents=True)
    (tmp_path / "pick/config.json").write_text("{}")
    (tmp_path / "pick/onnx/model_exits_int8.onnx").write_text("")
    found = scan(tmp_path)
    assert [(one.name, one.version, one.runtime) for one in found] == [
        ("film", 1, "torch"),
        ("film", 12, "onnx-int8"),
        ("pick", 1, "onnx-int8-exits"),
        ("plot", 1, "torch"),
    ]
    assert [one.application for one in scan(tmp_path)] == [one.application for one in found]
    (tmp_path / "plot/model.safetensors").write_text("other")
    assert [one.application for one in scan(tmp_path)][:3] == [one.application for one in found][:3]
    assert scan(tmp_path)[3].application != found[3].application
    assert scan(exported_dir, runtime="onnx")[0].runtime == "onnx"
    with pytest.raises(InvalidInput, match="must hold onnx/model.onnx to be run by onnx"):
        scan(tmp_path, runtime="onnx")
    with pytest.raises(InvalidInput, match="must be a model, or hold some"):
        scan(tmp_path / "empty")
    with pytest.raises(InvalidInput, match="must be a directory"):
        scan(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"token_budget": 0}, "--token-budget must be at least 1"),
        ({"wait_ms": -1}, "--wait-ms must be from 0 to 1000"),
        ({"deadline_s": 0}, "--deadline-s must be above 0"),
        ({"max_body": 10}, "--max-body must be at least 1024 bytes"),
    ],
)
def test_wrong_settings(given, message):
    with pytest.raises(InvalidInput, match=message):
        ServeSettings(**given)


def test_small_requests_share_a_call_while_others_are_under_way():
    calls, gate = [], asyncio.Event()

    async def call(requests):
        calls.append(requests)
        await gate.wait()
        if "broken" in requests:
            raise OSError("broken")
        return [Unusable(request) if request == "refused" else request.upper() for request in requests]

    async def run():
        shared = SharedCalls(call, at_a_time=2)
        first = [asyncio.create_task(shared.submit(request)) for request in ("a", "b")]
        await asyncio.sleep(0)
        later = [asyncio.create_task(shared.submit(request)) for request in ("c", "refused", "gone", "d")]
        await asyncio.sleep(0)
        later[2].cancel()
        gate.set()
        found = await asyncio.gather(*first, *later, return_exceptions=True)
        broken = await asyncio.gather(shared.submit("broken"), return_exceptions=True)
        return found, broken, await shared.submit("e")

    found, (broken,), last = asyncio.run(run())
    assert calls == [["a"], ["b"], ["c", "refused", "d"], ["broken"], ["e"]]
    assert [found[place] for place in (0, 1, 2, 5)] == ["A", "B", "C", "D"]
    assert isinstance(found[3], Unusable)
    assert isinstance(found[4], asyncio.CancelledError)
    assert isinstance(broken, OSError)
    assert last == "E"
