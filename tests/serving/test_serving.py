"""The server without its cluster, over real sockets: what requests may hold, what they are answered, and how they share batches."""

import asyncio
import http.client
import json
import threading
import time

import numpy
import pytest
import torch
from transformers import AutoTokenizer

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.text_answers import AnswerRule
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.serving.batcher import TokenBatcher
from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.classifier import QueuedClassifier
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.refusals import Overloaded, Unusable
from hf_albert_plus.serving.repository import scan
from hf_albert_plus.serving.settings import ServeSettings
from hf_albert_plus.serving.shared_calls import SharedCalls
from tests.support.local_server import Running
from tests.support.replicas import behind_a_replica

TEXTS = ["a good film", "no", "the plot is bad and the cast is not good at all"]


@pytest.fixture(scope="module")
def settings():
    return ServeSettings(max_body=20_000, max_items=8, deadline_s=5, streams=2)


@pytest.fixture(scope="module", params=["embedded", "cluster"])
def served(request, exported_dir, settings):
    """Two versions of a model, one of them int8, in the server's process or behind replicas, and the gate before them."""
    gate = Gate()
    models = {
        1: QueuedClassifier(exported_dir, "onnx-int8", settings),
        2: QueuedClassifier(exported_dir, "onnx", settings),
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
    model = QueuedClassifier(exported_dir, "onnx", settings)
    model._batcher.run = lambda rows: time.sleep(1) or [numpy.zeros(2)] * len(rows)
    running = Running(Catalogue({"slow": {1: model}}), settings, Gate())
    status, headers, content = running.ask("POST", "/classify", {"inputs": "a"})
    assert (status, headers["retry-after"]) == (504, "1")
    assert "no answer within 0.2 s" in content["error"]
    running.stop()


def test_an_error_of_the_servers_own_is_none_of_the_clients(exported_dir):
    settings = ServeSettings()
    model = QueuedClassifier(exported_dir, "onnx", settings)

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


def batched(run, requests, *, gap=0.0, **settings):
    """What each request is answered, and the batches that were made."""
    batches = []

    def noted(rows):
        batches.append(list(rows))
        return run(rows)

    async def all_of_them():
        batcher = TokenBatcher(noted, **{"budget": 100, "wait_s": 0.05, "streams": 1, "bound": 10**6, **settings})

        async def one(number, rows):
            await asyncio.sleep(gap * number)
            return await batcher.submit(rows, lengths=[row[1] for row in rows])

        answers = await asyncio.gather(*(one(n, rows) for n, rows in enumerate(requests)), return_exceptions=True)
        await batcher.close()
        return answers

    return asyncio.run(all_of_them()), batches


def double(rows):
    return [2 * value for value, _ in rows]


def test_requests_share_batches_and_get_their_own_answers():
    generator = numpy.random.default_rng(0)
    requests = [
        [(int(v), int(n)) for v, n in generator.integers(1, 60, (int(size), 2))]
        for size in generator.integers(1, 30, 40)
    ]
    answers, batches = batched(double, requests, streams=3, budget=200)
    assert answers == [[2 * value for value, _ in rows] for rows in requests]
    assert all(len(rows) * max(length for _, length in rows) <= 200 for rows in batches)
    assert len(batches) < sum(len(rows) for rows in requests)
    assert sorted(row for rows in batches for row in rows) == sorted(row for rows in requests for row in rows)


def test_a_batch_waits_for_its_deadline_and_no_longer():
    requests = [[(number, 10)] for number in range(3)]
    assert len(batched(double, requests, wait_s=0.2)[1]) == 1
    start = time.monotonic()
    answers, batches = batched(double, requests, wait_s=0.05, gap=0.15)
    assert len(batches) == 3
    assert answers == [[0], [2], [4]]
    assert time.monotonic() - start < 1
    # A full batch does not wait.
    start = time.monotonic()
    batched(double, [[(1, 50), (2, 50)]], wait_s=5)
    assert time.monotonic() - start < 1


def test_what_fails_fails_alone():
    def run(rows):
        if any(value == 7 for value, _ in rows):
            raise ValueError("seven")
        return double(rows)

    answers, _ = batched(run, [[(1, 90)], [(7, 90)], [(3, 90)]])
    assert answers[0] == [2]
    assert isinstance(answers[1], ValueError)
    assert answers[2] == [6]


def test_more_than_may_wait_is_refused_with_a_time_to_come_back():
    answers, batches = batched(lambda rows: time.sleep(0.05) or double(rows), [[(n, 60)] for n in range(10)], bound=200)
    refused = [answer for answer in answers if isinstance(answer, Overloaded)]
    assert 0 < len(refused) < 10
    assert all(error.retry_after_s > 0 for error in refused)
    assert len(batches) == 10 - len(refused)


def test_whoever_leaves_takes_the_rows_along():
    ran = []

    async def leave():
        batcher = TokenBatcher(
            lambda rows: ran.extend(rows) or time.sleep(0.1) or double(rows), budget=10, wait_s=0, streams=1, bound=1000
        )
        first = asyncio.create_task(batcher.submit([(1, 10)], lengths=[10]))
        second = asyncio.create_task(batcher.submit([(2, 10)], lengths=[10]))
        third = asyncio.create_task(batcher.submit([(3, 10)], lengths=[10]))
        await asyncio.sleep(0.03)
        second.cancel()
        assert await first == [2]
        assert await third == [6]
        assert batcher.waiting_tokens == 0
        await batcher.close()

    asyncio.run(leave())
    assert ran == [(1, 10), (3, 10)]


def test_what_a_folder_holds(exported_dir, tmp_path):
    for place in ("film/1", "film/12", "plot", "empty", "film/new", ".hidden", "next.partial"):
        (tmp_path / place).mkdir(parents=True)
    for place in ("film/1", "film/12", "plot", "film/new", "next.partial"):
        (tmp_path / place / "config.json").write_text("{}")
        (tmp_path / place / "model.safetensors").write_text("")
    (tmp_path / "film/12/onnx").mkdir()
    (tmp_path / "film/12/onnx/model_int8.onnx").write_text("")
    found = scan(tmp_path)
    assert [(one.name, one.version, one.runtime) for one in found] == [
        ("film", 1, "torch"),
        ("film", 12, "onnx-int8"),
        ("plot", 1, "torch"),
    ]
    assert [one.application for one in scan(tmp_path)] == [one.application for one in found]
    (tmp_path / "plot/model.safetensors").write_text("other")
    assert [one.application for one in scan(tmp_path)][:2] == [one.application for one in found][:2]
    assert scan(tmp_path)[2].application != found[2].application
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


def test_equal_requests_in_several_batches_are_all_answered():
    """Some rows of a request are answered while others wait behind those of an equal one: which is which must not hang on what is in
    them."""
    kinds = [list(range(count)) for count in (24, 21, 19, 23, 22)]
    draw = numpy.random.default_rng(0)

    def compute(batch):
        time.sleep(0.0005)
        return [numpy.arange(2) + row for row in batch]

    async def run():
        batcher = TokenBatcher(compute, budget=32, wait_s=0.005, streams=2, bound=10**6)
        for _ in range(30):
            chosen = [kinds[number] for number in draw.integers(len(kinds), size=16)]
            asked = [batcher.submit(rows, lengths=[1 + 5 * row % 13 for row in rows]) for rows in chosen]
            for rows, answers in zip(chosen, await asyncio.wait_for(asyncio.gather(*asked), 10), strict=True):
                numpy.testing.assert_array_equal(answers, [[row, row + 1] for row in rows])
        await batcher.close()

    asyncio.run(run())


def test_a_batcher_without_threads_is_broken():
    async def run():
        batcher = TokenBatcher(lambda rows: rows, budget=8, wait_s=0.0, streams=1, bound=100)
        assert await batcher.submit([1], lengths=[1]) == [1]
        before = batcher.is_broken
        batcher._pool.shutdown()
        with pytest.raises(RuntimeError):
            await asyncio.wait_for(batcher.submit([1], lengths=[1]), 5)
        return before, batcher.is_broken

    assert asyncio.run(run()) == (False, True)


def order_of(requests, **settings):
    """Numbers of requests in the order in which they are answered, by one stream whose first batch takes a while."""
    order, held = [], threading.Event()

    def run(rows):
        held.wait(5)
        return rows

    async def ask():
        batcher = TokenBatcher(run, **{"budget": 100, "wait_s": 0.0, "streams": 1, "bound": 10**6, **settings})

        async def one(number, lengths):
            await batcher.submit([number] * len(lengths), lengths=lengths)
            order.append(number)

        tasks = []
        for number, lengths in enumerate(requests):
            tasks.append(asyncio.create_task(one(number, lengths)))
            await asyncio.sleep(0.01)
        held.set()
        await asyncio.gather(*tasks)
        await batcher.close()

    asyncio.run(ask())
    return order


def test_a_request_of_many_texts_does_not_hold_up_one_that_comes_after_it():
    # 0 holds the stream; 1 has 100,000 tokens, some seconds at the pace that is assumed before one is measured; 2 and 3 are short.
    assert order_of([[10], [100] * 1000, [10], [10]]) == [0, 2, 3, 1]


def test_what_waits_is_overtaken_only_by_what_would_have_been_done_sooner():
    """Turns are moments: a request of 2,000 tokens has 0.1 s at 20,000 tokens a second, and what comes later than that comes after it."""
    late = [[50]] * 30
    order = order_of([[10], [100] * 20, *late])
    assert 5 < order.index(1) < 25
    assert [number for number in order if number != 1] == [0, *range(2, 32)]


def test_what_would_be_mostly_padding_waits_for_company_of_its_kind():
    batches = []

    async def ask():
        batcher = TokenBatcher(
            lambda rows: batches.append(sorted(rows)) or time.sleep(0.05) or rows,
            budget=4000, wait_s=0.0, streams=1, bound=10**6, call_tokens=4,
        )  # fmt: skip
        lengths = [5, 500, 6, 503, 7, 8]
        first = asyncio.create_task(batcher.submit([0], lengths=[9]))
        await asyncio.sleep(0.01)
        await asyncio.gather(first, *(batcher.submit([length], lengths=[length]) for length in lengths))
        await batcher.close()

    asyncio.run(ask())
    assert batches[0] == [0]
    assert sorted(batches[1:]) == [[5, 6, 7, 8], [500, 503]]


def test_a_lone_text_does_not_wait_for_company():
    async def ask():
        batcher = TokenBatcher(
            lambda rows: rows, budget=512, wait_s=ServeSettings().wait_ms / 1e3, streams=2, bound=512
        )
        await batcher.submit([1], lengths=[8])
        start = time.perf_counter()
        for _ in range(50):
            await batcher.submit([1], lengths=[8])
        return (time.perf_counter() - start) / 50

    # Measured times are no test; two milliseconds were the wait that there was.
    assert ServeSettings().wait_ms == 0
    assert asyncio.run(ask()) < 0.05
