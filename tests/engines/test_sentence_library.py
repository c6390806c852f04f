"""Exports inside the library sentence-transformers, against the same directory opened by it in torch."""

import copy
import json
import os
import pickle
import subprocess
import sys

import numpy
import pytest
import torch
from transformers import AutoTokenizer

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from tests.support.kinds import KINDS, TEXTS, make_classifier

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library, on import
library = pytest.importorskip("sentence_transformers", minversion="6")

from hf_albert_plus.engines.sentence_library import EngineCrossEncoder, EngineModule  # noqa: E402

LONG = " ".join(TEXTS * 4)
PAIRS = [(TEXTS[0], TEXTS[2]), (TEXTS[1], TEXTS[0]), ("", TEXTS[3]), (LONG, TEXTS[4]), (TEXTS[5], LONG)]
CLOSE = 1e-4
RUNTIMES = ["onnx", "openvino"]


@pytest.fixture(scope="module")
def vectors(encoder_dir, tmp_path_factory):
    out = tmp_path_factory.mktemp("library") / "out"
    settings = ExportSettings(pooling="mean", normalize=False)
    export(encoder_dir, to=["onnx", "openvino"], output=out, settings=settings)
    return out


@pytest.fixture(params=RUNTIMES)
def both(request, vectors):
    """The library on the directory in torch, and on its export."""
    prompts = {"query": "the cast ", "document": ""}
    return (
        library.SentenceTransformer(str(vectors), device="cpu", prompts=prompts),
        library.SentenceTransformer(modules=[EngineModule(vectors, request.param)], device="cpu", prompts=prompts),
    )


@pytest.mark.slow
def test_vectors_are_those_of_torch(both):
    texts = [*TEXTS, LONG, ""]
    expected, found = (model.encode(texts, convert_to_tensor=True) for model in both)
    assert torch.nn.functional.cosine_similarity(found, expected).min() >= 0.9999
    torch.testing.assert_close(found, expected, atol=CLOSE, rtol=0)
    for one, other in zip(*(model.encode(texts, output_value="token_embeddings") for model in both), strict=True):
        torch.testing.assert_close(other, one, atol=CLOSE, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"prompt": "a good "}, {"prompt_name": "query"}, {"normalize_embeddings": True}, {"truncate_dim": 8}, {"batch_size": 2},
        {"truncate_dim": 8, "normalize_embeddings": True}, {"convert_to_numpy": False}, {"convert_to_tensor": True},
    ],
    ids=str,
)  # fmt: skip
def test_every_option_of_encode_holds(both, options):
    expected, found = (model.encode(TEXTS, **options) for model in both)
    assert type(found) is type(expected)
    expected, found = (torch.stack(list(map(torch.as_tensor, each))) for each in (expected, found))
    torch.testing.assert_close(found, expected, atol=CLOSE, rtol=0)


@pytest.mark.parametrize("precision", ["int8", "uint8", "binary", "ubinary"])
def test_precisions_are_the_librarys(both, precision):
    expected, found = (model.encode(TEXTS, precision=precision) for model in both)
    assert found.dtype == expected.dtype
    apart = numpy.abs(found.astype(int) - expected.astype(int)) if "int8" in precision else found != expected
    assert apart.max() <= 1 if "int8" in precision else apart.mean() <= 0.01


def test_similarities_and_queries_are_the_librarys(both):
    for name in ("encode_query", "encode_document"):
        expected, found = (getattr(model, name)(TEXTS) for model in both)
        numpy.testing.assert_allclose(found, expected, atol=CLOSE, rtol=0)
    for name in ("similarity", "similarity_pairwise"):
        expected, found = (getattr(model, name)(model.encode(TEXTS[:3]), model.encode(TEXTS[3:])) for model in both)
        torch.testing.assert_close(found, expected, atol=CLOSE, rtol=0)
    assert both[1].get_embedding_dimension() == both[0].get_embedding_dimension()
    assert both[1].max_seq_length == both[0].max_seq_length == 64
    for model in both:
        model.max_seq_length = 8
    expected, found = (model.encode(LONG) for model in both)
    numpy.testing.assert_allclose(found, expected, atol=CLOSE, rtol=0)


def test_its_evaluators_score_an_export(both):
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    judge = EmbeddingSimilarityEvaluator(TEXTS, TEXTS[1:] + TEXTS[:1], [0.1, 0.9, 0.3, 0.5, 0.2, 0.7], write_csv=False)
    expected, found = (judge(model) for model in both)
    assert found == pytest.approx(expected, abs=CLOSE)


def test_modules_json_names_the_module(both, tmp_path):
    _, model = both
    model.save(str(tmp_path))
    with pytest.raises(ValueError, match="trust_remote_code"):
        library.SentenceTransformer(str(tmp_path), device="cpu")
    opened = library.SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=True)
    assert isinstance(opened[0], EngineModule)
    assert opened.prompts == model.prompts
    assert not (tmp_path / "model.safetensors").exists()
    numpy.testing.assert_array_equal(opened.encode(TEXTS), model.encode(TEXTS))


def test_a_copy_opens_the_files_again(vectors):
    module = EngineModule(vectors, "onnx", max_seq_length=9, threads=1)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert (other.max_seq_length, other.threads, other.runtime) == (9, 1, "onnx")
        assert other.engine is not module.engine


def test_what_is_no_encoder_of_vectors_is_refused(vectors, exported_dir, encoder_dir, tmp_path):
    with pytest.raises(InvalidInput, match="runs exports, got the runtime torch; .*SentenceTransformer"):
        EngineModule(vectors, "torch")
    with pytest.raises(InvalidInput, match="gives their vectors, got .*without sentence_embedding"):
        library.SentenceTransformer(modules=[EngineModule(exported_dir, "onnx")], device="cpu")
    with pytest.raises(InvalidInput, match="scores pairs by a classifier, got an encoder"):
        EngineCrossEncoder(vectors, "onnx")
    with pytest.raises(InvalidInput, match="from 1 to the 64 positions"):
        EngineModule(vectors, "onnx", max_seq_length=65)


@pytest.fixture(scope="module", params=["a number", "one of three"])
def scorer_dir(request, tokenizer_dir, tmp_path_factory):
    """A classifier of pairs with its exports."""
    made = tmp_path_factory.mktemp("scorer")
    make_classifier(made / "model", tokenizer_dir, **KINDS[request.param])
    export(made / "model", to=["onnx", "openvino"], output=made / "out")
    return made / "out"


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_scores_of_pairs_are_those_of_torch(scorer_dir, runtime):
    expected, found = library.CrossEncoder(str(scorer_dir), device="cpu"), EngineCrossEncoder(scorer_dir, runtime)
    assert (found.num_labels, found.max_seq_length) == (expected.num_labels, expected.max_seq_length)
    assert type(found.activation_fn) is type(expected.activation_fn)
    every = (
        {}, {"batch_size": 2}, {"activation_fn": torch.nn.Tanh()}, {"apply_softmax": True}, {"prompt": "a good "}, {"convert_to_tensor": True},
    )  # fmt: skip
    for options in every:
        one, other = (torch.as_tensor(model.predict(PAIRS, **options)) for model in (expected, found))
        torch.testing.assert_close(other, one, atol=CLOSE, rtol=0)
    one, other = (model.predict(PAIRS[0]) for model in (expected, found))
    numpy.testing.assert_allclose(other, one, atol=CLOSE, rtol=0)


@pytest.mark.parametrize("scorer_dir", ["a number"], indirect=True)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_documents_rank_as_in_torch(scorer_dir, runtime):
    documents = [*TEXTS, LONG]
    models = library.CrossEncoder(str(scorer_dir), device="cpu"), EngineCrossEncoder(scorer_dir, runtime)
    expected, found = (model.rank("the film", documents, top_k=4, return_documents=True) for model in models)
    assert [each["text"] for each in found] == [each["text"] for each in expected]
    assert [each["score"] for each in found] == pytest.approx([each["score"] for each in expected], abs=CLOSE)


@pytest.mark.parametrize("scorer_dir", ["a number"], indirect=True)
def test_a_score_in_torch_is_the_models_own(scorer_dir):
    """The library brings one score through a sigmoid, and reads the two texts as the pairs that the model was trained on."""
    from hf_albert_plus import AlbertPlusForSequenceClassification

    model = AlbertPlusForSequenceClassification.from_pretrained(scorer_dir).eval()
    encoded = AutoTokenizer.from_pretrained(scorer_dir)(*PAIRS[0], return_tensors="pt")
    with torch.no_grad():
        logit = model(**encoded).logits[0, 0]
    scores = library.CrossEncoder(str(scorer_dir), device="cpu")
    assert scores.predict(PAIRS[0]) == pytest.approx(float(logit.sigmoid()), abs=CLOSE)
    assert scores.predict(PAIRS[0], activation_fn=torch.nn.Identity()) == pytest.approx(float(logit), abs=CLOSE)


WITHOUT_PACKAGE = """
import json, sys
sys.modules["hf_albert_plus"] = None  # importing the package fails here, as where it is not installed
from sentence_transformers import CrossEncoder

directory, pairs = sys.argv[1], json.loads(sys.argv[2])
try:
    CrossEncoder(directory, device="cpu")
except ValueError as error:
    assert "trust_remote_code=True" in str(error), error
else:
    raise AssertionError("it opened without trust")
print("scores", json.dumps(CrossEncoder(directory, device="cpu", trust_remote_code=True).predict(pairs).tolist()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("scorer_dir", ["a number"], indirect=True)
def test_a_cross_encoder_opens_without_the_package(scorer_dir, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE, str(scorer_dir), json.dumps(PAIRS)],
        capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL, env={**os.environ, "HF_HOME": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("scores ")]
    expected = library.CrossEncoder(str(scorer_dir), device="cpu").predict(PAIRS)
    assert json.loads(line.removeprefix("scores ")) == pytest.approx(expected.tolist(), abs=1e-5)
