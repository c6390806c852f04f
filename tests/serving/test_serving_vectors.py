"""The server over encoders: vectors of texts in our own form and in OpenAI's, against sentence-transformers, and the protocol's tensors."""

import base64
import json
import shutil

import numpy
import pytest
import requests
from transformers import AutoTokenizer

from hf_albert_plus.engines.text_encoder import TextEncoder
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.load.server_process import ServerProcess
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.fitness import check_directory
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.repository import scan
from hf_albert_plus.serving.settings import ServeSettings
from hf_albert_plus.serving.weights_comparison import check_as_weights
from tests.support.kinds import CLOSE, TEXTS
from tests.support.local_server import Running
from tests.support.replicas import behind_a_replica
from tests.support.storm import MODES, TOKEN
from tests.support.taggers import make_tagger

WIDTH, PREFIXES = 32, [8, 16, 32]


def write_config(directory, **fields):
    config = directory / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **fields}))


@pytest.fixture(scope="module")
def prefixed_dir(vectors_dir, tmp_path_factory):
    """The encoder as one that says it was trained for prefixes."""
    directory = tmp_path_factory.mktemp("prefixed") / "model"
    shutil.copytree(vectors_dir, directory)
    write_config(directory, matryoshka_dims=PREFIXES)
    return directory


@pytest.fixture(scope="module", params=["embedded", "cluster"])
def served(request, vectors_dir, prefixed_dir, exported_dir, tokenizer_dir, tmp_path_factory):
    """Encoders on several engines beside a classifier and a tagger, in the server's process or behind replicas."""
    settings, tagger = ServeSettings(max_items=8, cores=1, deadline_s=30), tmp_path_factory.mktemp("tagger")
    make_tagger(tagger, tokenizer_dir)
    opened = {
        "vectors": QueuedModel(vectors_dir, "onnx", settings),
        "int8": QueuedModel(vectors_dir, "onnx-int8", settings),
        "weights": QueuedModel(vectors_dir, "torch", settings),
        "prefixed": QueuedModel(prefixed_dir, "onnx", settings),
        "film": QueuedModel(exported_dir, "onnx", settings),
        "tags": QueuedModel(tagger, "torch", settings),
    }
    if request.param == "cluster":
        opened = {name: behind_a_replica(model, deadline_s=30) for name, model in opened.items()}
    running = Running(Catalogue({name: {1: model} for name, model in opened.items()}), settings, Gate())
    yield running
    running.stop()


def embed(served, model="vectors", **body):
    status, _, content = served.ask("POST", "/embed", {"model": model, **body})
    assert status == 200, content
    return numpy.array([each["vector"] for each in content["predictions"]], dtype=numpy.float32)


def openai(served, model="vectors", **body):
    """By a client that knows nothing of ours."""
    answer = requests.post(f"http://127.0.0.1:{served.port}/v1/embeddings", json={"model": model, **body}, timeout=60)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("name", ["vectors", "weights"])
def test_vectors_are_those_of_sentence_transformers(served, vectors_dir, name):
    library = pytest.importorskip("sentence_transformers")
    expected = library.SentenceTransformer(str(vectors_dir), device="cpu").encode(TEXTS)
    numpy.testing.assert_allclose(embed(served, name, inputs=TEXTS), expected, atol=CLOSE)
    status, _, content = served.ask("POST", "/embed", {"model": name, "inputs": TEXTS[0]})
    assert status == 200
    assert list(content) == ["model", "version", "predictions"]
    (prediction,) = content["predictions"]
    assert list(prediction) == ["vector", "tokens", "truncated"]
    assert (content["model"], content["version"], prediction["truncated"]) == (name, "1", False)
    assert prediction["tokens"] == len(AutoTokenizer.from_pretrained(vectors_dir)(TEXTS[0])["input_ids"])


def test_openais_form_has_the_same_numbers_as_floats_and_as_base64(served, vectors_dir):
    expected = embed(served, inputs=TEXTS)
    status, floats = openai(served, input=TEXTS)
    assert status == 200
    assert list(floats) == ["object", "data", "model", "usage"]
    assert (floats["object"], floats["model"]) == ("list", "vectors")
    assert [each["index"] for each in floats["data"]] == list(range(len(TEXTS)))
    assert {each["object"] for each in floats["data"]} == {"embedding"}
    numbers = numpy.array([each["embedding"] for each in floats["data"]], dtype=numpy.float32)
    numpy.testing.assert_allclose(numbers, expected, atol=1e-6)
    tokenizer = AutoTokenizer.from_pretrained(vectors_dir)
    tokens = sum(len(row) for row in tokenizer(TEXTS)["input_ids"])
    assert floats["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    for text in (TEXTS[2], TEXTS[:1]):
        status, alone = openai(served, input=text, user="somebody")
        of_floats = numpy.array(alone["data"][0]["embedding"], dtype=numpy.float32)
        status, packed = openai(served, input=text, encoding_format="base64", dimensions=WIDTH)
        assert (status, len(packed["data"])) == (200, 1)
        decoded = numpy.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), dtype="<f4")
        numpy.testing.assert_array_equal(decoded, of_floats)


@pytest.mark.parametrize("name", ["vectors", "int8", "weights"])
def test_a_text_has_the_same_vector_alone_and_beside_others(served, name):
    together = embed(served, name, inputs=[*TEXTS, "good " * 20])
    for text, beside in zip(TEXTS, together, strict=False):
        numpy.testing.assert_allclose(embed(served, name, inputs=text)[0], beside, atol=1e-5)
    numpy.testing.assert_allclose(numpy.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_int8_is_near_fp32(served):
    cosines = (embed(served, "int8", inputs=TEXTS) * embed(served, inputs=TEXTS)).sum(axis=1)
    assert cosines.min() > 0.99


def test_shorter_vectors_are_prefixes_of_length_1_where_the_model_has_them(served):
    whole = embed(served, "prefixed", inputs=TEXTS)
    for width in PREFIXES:
        expected = whole[:, :width] / numpy.linalg.norm(whole[:, :width], axis=1, keepdims=True)
        numpy.testing.assert_allclose(embed(served, "prefixed", inputs=TEXTS, dimensions=width), expected, atol=1e-6)
        _, content = openai(served, "prefixed", input=TEXTS, dimensions=width)
        found = [each["embedding"] for each in content["data"]]
        numpy.testing.assert_allclose(numpy.array(found), expected, atol=1e-6)
    numpy.testing.assert_array_equal(embed(served, inputs=TEXTS[0], dimensions=WIDTH), embed(served, inputs=TEXTS[0]))


LONG = "good " * 100


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/classify", {"model": "vectors", "inputs": "a"}, 422, "vectors gives texts vectors, and texts no label: ask /embed"),
        ("/tag", {"model": "vectors", "inputs": "a"}, 422, "vectors gives texts vectors, and words no tag: ask /embed"),
        ("/embed", {"model": "film", "inputs": "a"}, 422, "film gives texts labels, and texts no vector: ask /classify"),
        ("/v1/embeddings", {"model": "film", "input": "a"}, 422, "film gives texts labels, and texts no vector: ask /classify"),
        ("/embed", {"model": "tags", "inputs": "a"}, 422, "tags gives each word a tag, and texts no vector: ask /tag"),
        ("/v1/embeddings", {"model": "vectors", "input": [1, 2]}, 422, "token ids are not taken here"),
        ("/v1/embeddings", {"model": "vectors", "input": [[1, 2], [3]]}, 422, "token ids are not taken here"),
        ("/v1/embeddings", {"model": "vectors", "input": []}, 422, "input: List should have at least 1 item"),
        ("/v1/embeddings", {"model": "vectors", "input": {"text": "a"}}, 422, "input must be a text or a list of texts"),
        ("/v1/embeddings", {"model": "vectors"}, 422, "input: Field required"),
        ("/v1/embeddings", {"model": "vectors", "input": "a", "encoding_format": "int8"}, 422, "Input should be 'float' or 'base64'"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": "a"}, 404, "no model of that name; there is film, int8"),
        ("/v1/embeddings", {"input": "a"}, 404, "several models are served, so a request must name one"),
        ("/v1/embeddings", {"model": "vectors", "input": "a", "dimensions": 8}, 422,
         "vectors has vectors of 32 numbers, and was not trained for shorter ones: leave it out"),
        ("/v1/embeddings", {"model": "prefixed", "input": "a", "dimensions": 9}, 422,
         "prefixed has vectors of 32 numbers and prefixes of 8, 16: use one of these"),
        ("/embed", {"model": "prefixed", "inputs": "a", "dimensions": 64}, 422, "prefixes of 8, 16"),
        ("/embed", {"model": "prefixed", "inputs": "a", "dimensions": 0}, 422, "dimensions: Input should be greater than or equal to 1"),
        ("/embed", {"model": "vectors", "inputs": {"text": "a", "text_pair": "b"}}, 422, "inputs must be a text or a list of texts"),
        ("/embed", {"model": "vectors", "inputs": ["a"], "top_k": 1}, 422, "top_k: Extra inputs are not permitted"),
        ("/embed", {"model": "vectors", "inputs": LONG}, 422, "the model takes at most 64: shorten it, or send \"truncate\": true"),
        ("/v1/embeddings", {"model": "vectors", "input": LONG}, 422, "the model takes at most 64: shorten it, or send \"truncate\": true"),
        ("/embed", {"model": "vectors", "inputs": ["a"] * 9}, 413, "inputs has 9 texts; a request may have 8"),
        ("/v1/embeddings", b"{", 400, "the body must be JSON"),
        ("/embed", rb'{"model": "vectors", "inputs": "\ud800"}', 422, "half of a surrogate pair"),
    ],
)  # fmt: skip
def test_what_is_asked_wrongly_is_refused(served, path, body, status, said):
    found, _, content = served.ask("POST", path, body)
    assert (found, said in content["error"]) == (status, True), content


def test_long_texts_are_cut_where_asked(served, vectors_dir):
    status, _, content = served.ask("POST", "/embed", {"model": "vectors", "inputs": [LONG, "no"], "truncate": True})
    assert [(each["tokens"], each["truncated"]) for each in content["predictions"]] == [(64, True), (3, False)]
    cut = TextEncoder(vectors_dir, "onnx").encode(LONG)
    numpy.testing.assert_allclose(content["predictions"][0]["vector"], cut, atol=1e-5)
    status, content = openai(served, input=LONG, truncate=True)
    assert (status, content["usage"]["total_tokens"]) == (200, 64)


@pytest.mark.parametrize("binary", [True, False])
def test_the_protocol_gives_the_vector(served, vectors_dir, binary):
    client_of = pytest.importorskip("tritonclient.http")
    client = client_of.InferenceServerClient(f"127.0.0.1:{served.port}")
    said = client.get_model_metadata("prefixed")
    assert said["outputs"] == [{"name": "sentence_embedding", "datatype": "FP32", "shape": [-1, WIDTH]}]
    assert [each["name"] for each in said["inputs"]] == ["text", "input_ids", "attention_mask", "token_type_ids"]
    assert {name: said["parameters"][name] for name in ("matryoshka_dims", "normalized", "max_length")} == {
        "matryoshka_dims": [8, 16], "normalized": True, "max_length": 64,
    }  # fmt: skip
    text = client_of.InferInput("text", [len(TEXTS)], "BYTES")
    text.set_data_from_numpy(numpy.array(TEXTS, dtype=object))
    wanted = [client_of.InferRequestedOutput("sentence_embedding", binary_data=binary)]
    encoded = AutoTokenizer.from_pretrained(vectors_dir)(TEXTS, padding=True, return_tensors="np")
    tensors = []
    for name, values in encoded.items():
        tensors.append(client_of.InferInput(name, list(values.shape), "INT64"))
        tensors[-1].set_data_from_numpy(values.astype(numpy.int64), binary_data=binary)
    for given in ([text], tensors):
        found = client.infer("vectors", given, outputs=wanted).as_numpy("sentence_embedding")
        numpy.testing.assert_allclose(found, embed(served, inputs=TEXTS), atol=1e-5)
    client.close()


def test_pairs_and_other_outputs_are_refused_by_the_protocol(served):
    path, text = "/v2/models/vectors/infer", {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"]}
    status, _, content = served.ask("POST", path, {"inputs": [text, {**text, "name": "text_pair"}]})
    assert (status, content["error"]) == (422, "this model reads texts one by one: send no pairs")
    status, _, content = served.ask("POST", path, {"inputs": [text], "outputs": [{"name": "logits"}]})
    assert (status, content["error"]) == (422, "vectors has no output 'logits'; it has sentence_embedding")


def test_requests_and_texts_are_counted(served):
    def counts():
        lines = served.ask("GET", "/metrics")[2].decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    before = counts()
    openai(served, input=TEXTS)
    openai(served, input=[1])
    after = counts()
    for name, more in (
        ('hf_albert_plus_requests_total{route="/v1/embeddings",status="200"}', 1),
        ('hf_albert_plus_requests_total{route="/v1/embeddings",status="422"}', 1),
        ('hf_albert_plus_texts_total{model="vectors",version="1"}', len(TEXTS)),
    ):
        assert after[name] - before.get(name, 0) == more


def test_vectors_that_are_no_numbers_are_an_error(vectors_dir):
    model = QueuedModel(vectors_dir, "onnx", ServeSettings(cores=1))
    output_of = model.engine.output
    model.engine.output = lambda name, arrays: output_of(name, arrays) * numpy.nan
    running = Running(Catalogue({"vectors": {1: model}}), ServeSettings(), Gate())
    status, _, content = running.ask("POST", "/embed", {"inputs": "a"})
    running.stop()
    assert (status, content["error"]) == (500, "the model computed no finite vectors for this request")


@pytest.mark.parametrize(
    ("dims", "said"),
    [([16, 8], "got \\[16, 8\\]"), ([8, 64], "got \\[8, 64\\]"), ("8", "got 8"), ([8.0], "got \\[8.0\\]")],
)
def test_prefixes_that_cannot_be_are_refused_before_anything_starts(vectors_dir, tmp_path, dims, said):
    shutil.copytree(vectors_dir, tmp_path / "model")
    write_config(tmp_path / "model", matryoshka_dims=dims)
    (model,) = scan(tmp_path / "model", runtime="onnx")
    with pytest.raises(InvalidInput, match=f"matryoshka_dims of config.json must be .* {said}"):
        check_directory(model, max_length=None)


@pytest.mark.slow
def test_an_encoder_that_says_nothing_of_its_vectors_is_not_served(encoder_dir, vectors_dir, tmp_path):
    """In torch that is known at once; a graph says it when it is opened."""
    (model,) = scan(encoder_dir, runtime="torch")
    rule = "gives their vectors, got .*:{} without sentence_embedding; .*albert-plus export DIR --pooling mean"
    with pytest.raises(InvalidInput, match=rule.format("torch")):
        check_directory(model, max_length=None)
    export(encoder_dir, to=["onnx"], output=tmp_path / "plain")
    with pytest.raises(InvalidInput, match=rule.format("onnx")):
        QueuedModel(tmp_path / "plain", "onnx", ServeSettings(cores=1))


@pytest.mark.slow
def test_a_graph_of_other_vectors_than_its_weights_give_is_found(encoder_dir, vectors_dir, tmp_path):
    check_as_weights(vectors_dir, TextEncoder(vectors_dir, "onnx", cores=1).engine.runtime)
    export(encoder_dir, to=["onnx"], output=tmp_path / "first", settings=ExportSettings(pooling="cls"))
    shutil.copytree(vectors_dir, tmp_path / "mixed")
    shutil.copy(tmp_path / "first" / "onnx" / "model.onnx", tmp_path / "mixed" / "onnx" / "model.onnx")
    (tmp_path / "mixed" / "record.json").unlink()
    runtime = TextEncoder(tmp_path / "mixed", "onnx", cores=1).engine.runtime
    with pytest.raises(InvalidInput, match="must compute what the weights beside it do.* sentence_embedding differ by"):
        check_as_weights(tmp_path / "mixed", runtime)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_server_of_its_own_answers_in_every_mode(vectors_dir, tmp_path, mode):
    if mode == "cluster":
        pytest.importorskip("ray.serve")
    (tmp_path / "token").write_text(TOKEN)
    expected = TextEncoder(vectors_dir, "onnx-int8").encode(TEXTS)
    options = (*MODES[mode], "--cores", "1", "--deadline", "60", "--token-file", str(tmp_path / "token"))
    with ServerProcess(str(vectors_dir), *options) as running:
        place, bearer = f"http://127.0.0.1:{running.port}", {"Authorization": f"Bearer {TOKEN}"}
        body = {"model": vectors_dir.name, "input": TEXTS, "encoding_format": "base64"}
        assert requests.post(f"{place}/v1/embeddings", json=body, timeout=60).status_code == 401
        assert requests.get(f"{place}/v2/models/{vectors_dir.name}/ready", headers=bearer, timeout=60).json()["ready"]
        for _ in range(4):
            content = requests.post(f"{place}/v1/embeddings", json=body, headers=bearer, timeout=60).json()
            packed = [base64.b64decode(each["embedding"]) for each in content["data"]]
            numpy.testing.assert_allclose([numpy.frombuffer(each, dtype="<f4") for each in packed], expected, atol=1e-5)
        answer = requests.post(f"{place}/classify", json={"inputs": "a"}, headers=bearer, timeout=60)
        assert (answer.status_code, "ask /embed" in answer.json()["error"]) == (422, True)
