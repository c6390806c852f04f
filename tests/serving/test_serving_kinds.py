"""The server over classifiers of each kind: what it answers for several labels and for numbers, and one label as it always was."""

import json

import numpy
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.fitness import check_directory
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.repository import scan
from hf_albert_plus.serving.settings import ServeSettings
from tests.support.kinds import CLOSE, KINDS, NAMES, TEXTS, THRESHOLDS, make_classifier
from tests.support.local_server import Running

SERVED = {"one": "one of three", "several": "several, own thresholds", "number": "a number", "numbers": "numbers"}


@pytest.fixture(scope="module")
def directories(tokenizer_dir, tmp_path_factory):
    """Name of a served model -> its directory."""
    folder = tmp_path_factory.mktemp("kinds")
    for name, kind in SERVED.items():
        make_classifier(folder / name, tokenizer_dir, **KINDS[kind])
    return {name: folder / name for name in SERVED}


@pytest.fixture(scope="module")
def served(directories):
    settings = ServeSettings(cores=1)
    models = {name: {1: QueuedModel(path, "torch", settings)} for name, path in directories.items()}
    running = Running(Catalogue(models), settings, Gate())
    yield running
    running.stop()


@pytest.fixture(scope="module")
def pipelines(directories):
    """Name of a model -> all its labels with their scores, as transformers gives them."""
    found = {}
    for name, path in directories.items():
        model, tokenizer = AutoModelForSequenceClassification.from_pretrained(path), AutoTokenizer.from_pretrained(path)
        runs = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
        found[name] = runs(TEXTS, top_k=None)
    return found


@pytest.mark.parametrize("name", SERVED)
def test_scores_are_the_pipelines(served, pipelines, name):
    status, content = served.classify(model=name, inputs=TEXTS)
    assert status == 200
    for prediction, expected in zip(content["predictions"], pipelines[name], strict=True):
        scores = {each["label"]: each["score"] for each in expected}
        assert prediction["scores"] == pytest.approx(scores, abs=CLOSE)
        if name == "several":
            least = dict(zip(NAMES, THRESHOLDS, strict=True))
            assert [each["label"] for each in prediction["labels"]] == [
                each["label"] for each in expected if each["score"] >= least[each["label"]]
            ]
            assert all(each["score"] == prediction["scores"][each["label"]] for each in prediction["labels"])
        else:
            assert "labels" not in prediction
        best = expected[0] if name in ("one", "number") else {"label": None, "score": None}
        assert prediction["label"] == best["label"]
        assert prediction["score"] == (best["score"] and pytest.approx(best["score"], abs=CLOSE))
    if name == "several":
        counts = {len(each["labels"]) for each in content["predictions"]}
        assert 0 in counts
        assert len(counts) > 1


def test_one_label_is_answered_byte_for_byte_as_before(served):
    """The fields, in their order, and nothing else."""
    status, _, body = served.ask("POST", "/classify", {"model": "one", "inputs": TEXTS[0]})
    assert status == 200
    assert list(body) == ["model", "version", "predictions"]
    assert list(body["predictions"][0]) == ["label", "score", "scores", "tokens", "truncated"]
    assert list(body["predictions"][0]["scores"]) == list(NAMES)
    assert body["predictions"][0]["score"] == max(body["predictions"][0]["scores"].values())


def test_scores_may_be_of_the_best_alone(served, pipelines):
    for name in ("one", "several", "numbers"):
        content = served.classify(model=name, inputs=TEXTS, top_k=2)[1]
        for prediction, expected in zip(content["predictions"], pipelines[name], strict=True):
            assert list(prediction["scores"]) == [each["label"] for each in expected[:2]]
    whole = served.classify(model="several", inputs=TEXTS)[1]["predictions"]
    assert [each["labels"] for each in content["predictions"] if "labels" in each] == []
    best = served.classify(model="several", inputs=TEXTS, top_k=1)[1]["predictions"]
    assert [each["labels"] for each in best] == [each["labels"] for each in whole]
    status, content = served.classify(model="one", inputs="a", top_k=0)
    assert (status, content["error"]) == (422, "top_k: Input should be greater than or equal to 1")


def test_a_model_says_of_which_kind_it_is(served):
    said = {name: served.ask("GET", f"/v2/models/{name}")[2] for name in SERVED}
    kinds = {name: content["parameters"]["problem_type"] for name, content in said.items()}
    assert kinds == {name: KINDS[kind]["problem_type"] for name, kind in SERVED.items()}
    assert said["several"]["parameters"]["thresholds"] == THRESHOLDS
    assert {"name": "given", "datatype": "BOOL", "shape": [-1, 3]} in said["several"]["outputs"]
    names = {name: [output["name"] for output in content["outputs"]] for name, content in said.items()}
    assert names["one"] == ["logits", "scores", "label"]
    assert names["number"] == names["numbers"] == ["logits", "scores"]
    assert "thresholds" not in said["one"]["parameters"]
    schemas = served.ask("GET", "/openapi.json")[2]["components"]["schemas"]
    assert set(schemas["LabelScore"]["properties"]) == {"label", "score"}
    assert "labels" in schemas["Prediction"]["properties"]
    assert "labels" not in schemas["Prediction"]["required"]
    assert "top_k" in schemas["ClassifyRequest"]["properties"]


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("name", SERVED)
def test_tritons_client_gets_what_is_given(served, directories, name, binary):
    client_of = pytest.importorskip("tritonclient.http")
    client = client_of.InferenceServerClient(f"127.0.0.1:{served.port}")
    text = client_of.InferInput("text", [len(TEXTS)], "BYTES")
    text.set_data_from_numpy(numpy.array(TEXTS, dtype=object))
    names = [output["name"] for output in client.get_model_metadata(name)["outputs"]]
    wanted = [client_of.InferRequestedOutput(output, binary_data=binary) for output in names]
    answer = client.infer(name, [text], outputs=wanted)
    model = AutoModelForSequenceClassification.from_pretrained(directories[name])
    tokenizer = AutoTokenizer.from_pretrained(directories[name])
    with torch.no_grad():
        logits = model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits
    numpy.testing.assert_allclose(answer.as_numpy("logits"), logits, atol=CLOSE)
    if name == "several":
        expected = logits.sigmoid() >= torch.tensor(THRESHOLDS)
        assert answer.as_numpy("given").dtype == numpy.bool_
        assert answer.as_numpy("given").tolist() == expected.tolist()
        numpy.testing.assert_allclose(answer.as_numpy("scores"), logits.sigmoid(), atol=CLOSE)
    elif name == "one":
        found = [each.decode() if binary else each for each in answer.as_numpy("label")]
        assert found == [NAMES[best] for best in logits.argmax(-1)]
    else:
        numpy.testing.assert_allclose(answer.as_numpy("scores"), logits, atol=CLOSE)
    client.close()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"label_thresholds": [0.5]}, "a threshold for each of the 3 labels, got 1 of them"),
        ({"label_thresholds": [0.5, 0.5, 1.5]}, "that of 'spam' too, got 1.5"),
        ({"problem_type": None, "label_thresholds": [0.5] * 3}, "are of a multi_label_classification"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label must name the labels 0, 1, 2, … without a gap, got .*2.*; give every label"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "must name every label, each by another name"),
        ({"id2label": {"0": "a"}, "label_thresholds": None, "problem_type": "single_label_classification"}, "requires `num_labels > 1`.* use `problem_type=.regression"),
    ],
)  # fmt: skip
def test_a_model_whose_answers_cannot_be_is_not_served(directories, tmp_path, tokenizer_dir, fields, words):
    make_classifier(tmp_path / "model", tokenizer_dir, **KINDS["several, own thresholds"])
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **fields}))
    (model,) = scan(tmp_path / "model", runtime="torch")
    with pytest.raises(InvalidInput, match=words):
        check_directory(model, max_length=None)
