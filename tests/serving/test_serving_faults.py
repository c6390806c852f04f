"""What is wrong with one request, and what it must not do to others."""

import asyncio
import concurrent.futures
import json

import numpy
import pytest

from hf_albert_plus.serving.batcher import TokenBatcher
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.settings import ServeSettings
from hf_albert_plus.serving.shared_calls import SharedCalls
from tests.support.local_server import servers
from tests.support.replicas import behind_a_replica

INFER = "/v2/models/film/infer"
POISON = 9


@pytest.fixture
def running(exported_dir):
    with servers(exported_dir) as run:
        yield run


def poisoned(classifier, harm, *, poison=POISON):
    """Has rows with the poisonous id harm the batch that they are in, as the engine's own faults do."""
    output_of = classifier.engine.output

    def harmed(name, arrays):
        logits = output_of(name, arrays)
        return harm(logits) if (arrays["input_ids"] == poison).any() else logits

    classifier.engine.output = harmed
    return classifier


def fails(logits):
    raise RuntimeError("out of memory at /secret/path")


def is_nan(logits):
    return logits * numpy.nan


def is_short(logits):
    return logits[:-1]


def ids_of(*rows, datatype="INT64"):
    return {"name": "input_ids", "shape": [len(rows), len(rows[0])], "datatype": datatype, "data": list(rows)}


def together(ask, requests):
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda body: ask("POST", INFER, body), requests))


@pytest.mark.slow
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
    classifier = QueuedModel(exported_dir, "onnx", ServeSettings(wait_ms=100, cores=1))
    server = running(behind_a_replica(classifier, slowness_s=0.02))
    good = {"inputs": [ids_of([2, 8, 3])]}
    answers = together(server.ask, [good, {"inputs": [tensor]}, good, good])
    assert [status for status, _, _ in answers] == [200, 422, 200, 200]
    assert message in answers[1][2]["error"]


@pytest.mark.slow
@pytest.mark.parametrize("harm", [fails, is_nan, is_short])
@pytest.mark.parametrize("shares", ["a batch", "a call"])
def test_a_fault_is_its_owners_alone(running, exported_dir, harm, shares):
    classifier = poisoned(QueuedModel(exported_dir, "onnx", ServeSettings(wait_ms=100, cores=1)), harm)
    server = running(classifier if shares == "a batch" else behind_a_replica(classifier, slowness_s=0.02))
    good, bad = {"inputs": [ids_of([2, 8, 3])]}, {"inputs": [ids_of([2, POISON, 3])]}
    answers = together(server.ask, [good, good, bad, good, good])
    assert [status for status, _, _ in answers] == [200, 200, 500, 200, 200]
    assert "secret" not in answers[2][2]["error"]
    logits = [answers[place][2]["outputs"][0]["data"] for place in (0, 1, 3, 4)]
    assert logits == [logits[0]] * 4


def test_scores_that_are_no_numbers_are_an_error_and_counted(running, exported_dir):
    classifier = QueuedModel(exported_dir, "onnx", ServeSettings(cores=1))
    ids = classifier.model.tokens.whole(["no"])[0]["input_ids"]
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
        assert (status, content) == (500, {"error": "the model computed no finite logits for this request"})
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


@pytest.mark.slow
@pytest.mark.parametrize("version", ["9" * 5_000, "01", "+1", "1e0", "%D9%A1", "%2F1", "..", "1%00"])
@pytest.mark.parametrize("route", ["", "/ready"])
def test_a_path_says_a_version_as_it_is_or_none(running, version, route):
    server = running()
    status, _, content = server.ask("GET", f"/v2/models/film/versions/{version}{route}")
    assert status == 404, content
    assert server.ask("POST", f"/v2/models/film/versions/{'9' * 5_000}/infer", {})[0] == 404
    assert server.ask("GET", f"/v2/models/film/versions/1{route}")[0] == 200
