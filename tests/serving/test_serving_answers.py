"""The server over a model of spans: answers and characters of any context as the model itself gives them, and the protocol's tensors."""

import numpy
import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.settings import ServeSettings
from tests.support.kinds import CLOSE, KINDS, make_classifier
from tests.support.local_server import Running
from tests.support.questions import ASKED, make_answerer
from tests.support.taggers import make_tagger


@pytest.fixture(scope="module")
def directory(tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("answerer")
    make_answerer(directory, tokenizer_dir, no_answer_threshold=1.0, longest_answer=6)
    return directory


@pytest.fixture(scope="module")
def served(directory, tokenizer_dir, tmp_path_factory):
    settings = ServeSettings(cores=1)
    texts, tags, always = (tmp_path_factory.mktemp(name) for name in ("texts", "tags", "always"))
    make_classifier(texts, tokenizer_dir, **KINDS["one of three"])
    make_tagger(tags, tokenizer_dir)
    make_answerer(always, tokenizer_dir)
    paths = {"answers": directory, "texts": texts, "tags": tags, "always": always}
    running = Running(
        Catalogue({name: {1: QueuedModel(path, "torch", settings)} for name, path in paths.items()}),
        settings,
        Gate(),
    )
    yield running
    running.stop()


@pytest.fixture(scope="module")
def spans(directory):
    return TextClassifier(directory, "torch", cores=1, max_length=None).answer(ASKED).spans


def body_of(asked):
    return [{"question": question, "context": context} for question, context in asked]


def answer(served, model="answers", **body):
    status, _, content = served.ask("POST", "/answer", {"model": model, **body})
    return status, content


def test_answers_are_the_models_best_spans(served, spans):
    status, content = answer(served, inputs=body_of(ASKED))
    assert status == 200
    assert len({span.margin <= 1.0 for span in spans}) == 2, "some have an answer, and some none"
    for (_, context), span, said in zip(ASKED, spans, content["predictions"], strict=True):
        assert said["margin"] == pytest.approx(span.margin, abs=CLOSE)
        assert said["no_answer_score"] == pytest.approx(span.no_answer_score, abs=CLOSE)
        if span.margin <= 1.0:
            assert (said["answer"], said["start"], said["end"]) == (span.text, span.start, span.end)
            assert context[said["start"] : said["end"]] == said["answer"]
            assert said["score"] == pytest.approx(span.score, abs=CLOSE)
        else:
            assert (said["answer"], said["start"], said["end"]) == (None, None, None)
            assert said["score"] == said["no_answer_score"]
        assert not said["truncated"]


def test_a_request_may_choose_the_threshold(served, spans):
    lowest, highest = (pick(span.margin for span in spans) for pick in (min, max))
    for threshold, given in ((lowest - 1, False), (highest + 1, True)):
        _, content = answer(served, inputs=body_of(ASKED), threshold=threshold)
        assert {each["answer"] is not None for each in content["predictions"]} == {given}


def test_a_model_without_a_threshold_always_answers(served):
    _, content = answer(served, model="always", inputs=body_of(ASKED))
    assert all(each["answer"] for each in content["predictions"])
    assert {each["no_answer_score"] for each in content["predictions"]} == {0.0}
    status, content = answer(served, model="always", inputs=body_of(ASKED[:1]), threshold=0.0)
    assert status == 422
    assert "threshold is of models that may give no answer" in content["error"]


def test_a_question_is_answered_alike_alone_and_among_others(served):
    _, together = answer(served, inputs=body_of(ASKED))
    for asked, said in zip(body_of(ASKED), together["predictions"], strict=True):
        (alone,) = answer(served, inputs=asked)[1]["predictions"]
        assert (alone["answer"], alone["start"]) == (said["answer"], said["start"])
        assert alone["score"] == pytest.approx(said["score"], abs=CLOSE)


def test_windows_of_a_context_are_bounded(served):
    long = {"question": "who sold the lamp ?", "context": "the sailor sold the lamp . " * 40_000}
    assert len(long["context"]) > 1_000_000
    for context, said in (
        (long["context"], "more than 524288 characters"),
        ("the sailor sold the lamp . " * 3000, "and 128 are read at most"),
    ):
        status, content = answer(served, inputs={**long, "context": context})
        assert status == 422
        assert said in content["error"]
        assert '"truncate": true' in content["error"]
    (said,) = answer(served, inputs={**long, "context": context}, truncate=True)[1]["predictions"]
    assert said["truncated"]
    assert said["tokens"] <= 128 * 64


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/answer", {"model": "texts", "inputs": {"question": "a", "context": "b"}}, "texts gives texts labels, and questions no answer: ask /classify"),
        ("/answer", {"model": "tags", "inputs": {"question": "a", "context": "b"}}, "tags gives each word a tag, and questions no answer: ask /tag"),
        ("/classify", {"model": "answers", "inputs": "a"}, "answers gives questions a span of their context, and texts no label: ask /answer"),
        ("/tag", {"model": "answers", "inputs": "a"}, "and words no tag: ask /answer"),
        ("/answer", {"model": "answers", "inputs": "a"}, "must be an object with question and context, or a list of these"),
        ("/answer", {"model": "answers", "inputs": []}, "inputs"),
        ("/answer", {"model": "answers", "inputs": {"question": "a"}}, "context"),
        ("/answer", {"model": "answers", "inputs": {"question": "", "context": "b"}}, "question"),
        ("/answer", {"model": "answers", "inputs": [{"question": "a", "context": " "}]}, "a context must have words, got an empty one in text 0"),
        ("/answer", {"model": "answers", "inputs": {"question": "who " * 70, "context": "the doctor found the car ."}}, "must leave room for 8 tokens of its context within 64 tokens, got text 0, "),
        ("/answer", {"model": "answers", "inputs": {"question": "a", "context": "b"}, "threshold": "high"}, "threshold"),
    ],
)  # fmt: skip
def test_what_is_asked_wrongly_is_refused(served, path, body, said):
    status, _, content = served.ask("POST", path, body)
    assert status == 422
    assert said in content["error"]


@pytest.mark.parametrize("binary", [True, False])
def test_the_protocol_gives_answers_and_logits(served, directory, spans, binary):
    client_of = pytest.importorskip("tritonclient.http")
    client = client_of.InferenceServerClient(f"127.0.0.1:{served.port}")
    metadata = client.get_model_metadata("answers")
    assert {each["name"]: each["shape"] for each in metadata["outputs"]} == {
        "answer": [-1], "start": [-1], "end": [-1], "score": [-1], "no_answer_score": [-1], "start_logits": [-1, -1], "end_logits": [-1, -1],
    }  # fmt: skip
    columns = []
    for name, values in zip(("text", "text_pair"), zip(*ASKED, strict=True), strict=True):
        columns.append(client_of.InferInput(name, [len(ASKED)], "BYTES"))
        columns[-1].set_data_from_numpy(numpy.array(values, dtype=object))
    wanted = [client_of.InferRequestedOutput(each["name"], binary_data=binary) for each in metadata["outputs"][:5]]
    said = client.infer("answers", columns, outputs=wanted)
    given = [span if span.margin <= 1.0 else None for span in spans]
    texts = [each.decode() if isinstance(each, bytes) else each for each in said.as_numpy("answer")]
    assert texts == ["" if span is None else span.text for span in given]
    places = zip(said.as_numpy("start").tolist(), said.as_numpy("end").tolist(), strict=True)
    assert list(places) == [(-1, -1) if span is None else (span.start, span.end) for span in given]
    always = client.infer("answers", columns, parameters={"threshold": 1e6})
    assert always.as_numpy("start").tolist() == [span.start for span in spans]
    tokenizer = AutoTokenizer.from_pretrained(directory)
    encoded = tokenizer(*(list(each) for each in zip(*ASKED[:4], strict=True)), padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = AutoModelForQuestionAnswering.from_pretrained(directory)(**encoded)
    mask = encoded["attention_mask"].bool()
    tensors = []
    for name in encoded:
        tensors.append(client_of.InferInput(name, list(mask.shape), "INT64"))
        tensors[-1].set_data_from_numpy(encoded[name].numpy(), binary_data=binary)
    of_ids = client.infer("answers", tensors)
    for name in ("start_logits", "end_logits"):
        numpy.testing.assert_allclose(of_ids.as_numpy(name)[mask], expected[name][mask], atol=CLOSE)
        assert (of_ids.as_numpy(name)[~mask] == 0).all()
    client.close()


def test_texts_without_contexts_are_refused_by_the_protocol(served):
    body = {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["who ?"]}]}
    status, _, content = served.ask("POST", "/v2/models/answers/infer", body)
    assert status == 422
    assert "a question is asked of a context" in content["error"]


def test_the_pages_describe_it(served):
    described = served.ask("GET", "/openapi.json")[2]
    assert {"AnswerRequest", "AnswerResponse", "Question", "Answer"} <= set(described["components"]["schemas"])
    said = served.ask("GET", "/v2/models/answers")[2]["parameters"]
    assert (said["problem_type"], said["longest_answer"], said["no_answer_threshold"]) == ("question_answering", 6, 1.0)
