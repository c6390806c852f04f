"""Vectors of texts in the graph, against a masked mean worked out by hand and against the library sentence-transformers."""

import json

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from hf_albert_plus.conversion.sentence_encoders import trained_pooling
from hf_albert_plus.conversion.sentence_modules import form_of, read_modules, write_modules
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.parity import onnx_runner
from hf_albert_plus.engines.pooled_encoder import SentenceEncoder
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.graph.tracing import export_graph, save_graph
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from hf_albert_plus.heads import albert_plus_class
from tests.support.kinds import TEXTS
from tests.support.small_models import pair_inputs, randomise, small_config

MEAN = ExportSettings(pooling="mean", normalize=True)


@pytest.fixture(scope="module")
def exported(encoder_dir, tmp_path_factory):
    """A BERT of transformers, whose pooler nobody asked for, with its mean in every graph."""
    out = tmp_path_factory.mktemp("vectors") / "out"
    return out, export(encoder_dir, to=["onnx", "onnx-int8", "openvino"], output=out, settings=MEAN)


def rows_of(directory, texts=TEXTS):
    return AutoTokenizer.from_pretrained(directory)(texts, padding=True, return_tensors="pt")


def by_hand(directory, texts=TEXTS):
    """The mean of the real tokens over its length, text by text, without padding."""
    model = AutoModel.from_pretrained(directory).eval()
    with torch.no_grad():
        means = [model(**rows_of(directory, [text])).last_hidden_state[0].mean(0) for text in texts]
    return torch.stack([mean / mean.square().sum().sqrt() for mean in means])


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnx", "openvino"])
def test_the_graph_gives_the_mean_of_the_real_tokens_with_length_1(exported, encoder_dir, runtime):
    out, _ = exported
    answer = Engine.load(out, runtime)(**rows_of(out))
    assert list(answer) == ["last_hidden_state", "sentence_embedding"]
    torch.testing.assert_close(answer.sentence_embedding, by_hand(encoder_dir), atol=1e-4, rtol=0)


def test_int8_vectors_point_where_fp32_ones_do(exported, encoder_dir):
    out, _ = exported
    vectors = Engine.load(out, "onnx-int8")(**rows_of(out)).sentence_embedding
    cosines = torch.nn.functional.cosine_similarity(vectors, by_hand(encoder_dir))
    assert float(cosines.min()) >= 0.999


@pytest.mark.parametrize("runtime", ["onnx", "onnx-int8"])
def test_a_vector_is_the_same_alone_and_beside_any_text(exported, runtime):
    out, _ = exported
    engine = Engine.load(out, runtime)
    alone = torch.cat([engine(**rows_of(out, [text])).sentence_embedding for text in TEXTS])
    together = engine(**rows_of(out, [*TEXTS, " ".join(TEXTS)])).sentence_embedding[:-1]
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


def test_what_is_compared_at_export_is_the_vector_too(exported):
    _, record = exported
    for name in ("onnx", "onnx-int8", "openvino"):
        compared = [each["output"] for each in record.result["exports"][name]["parity"]]
        assert compared == ["last_hidden_state", "sentence_embedding"]
    assert record.result["exports"]["onnx"]["tensorrt_unsupported"] == []
    assert (record.settings["pooling"], record.settings["normalize"]) == ("mean", True)


@pytest.mark.slow
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_both_ways_of_pooling_an_albert_plus(tmp_path, pooling, normalize):
    model = randomise(albert_plus_class("Model")(small_config(num_hidden_layers=1, pooling="mean", pooler="none")))
    pooled = SentenceEncoder(model, pooling=pooling, normalize=normalize).eval()
    save_graph(export_graph(pooled), tmp_path / "m.onnx")
    for batch, length in ((1, 1), (3, 11), (2, 64)):
        inputs = pair_inputs(120, batch=batch, length=length)
        with torch.no_grad():
            states_BSH = model(**inputs).last_hidden_state
        mask_BS1 = inputs["attention_mask"][:, :, None]
        expected = states_BSH[:, 0] if pooling == "cls" else (states_BSH * mask_BS1).sum(1) / mask_BS1.sum(1)
        if normalize:
            expected = expected / expected.norm(dim=1, keepdim=True)
        found = onnx_runner(tmp_path / "m.onnx")(inputs)
        torch.testing.assert_close(found["sentence_embedding"], expected, atol=1e-4, rtol=0)


@pytest.mark.filterwarnings("ignore")  # of the library, on import
@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("mean", False), ("cls", False)])
def test_sentence_transformers_reads_the_directory_alike(encoder_dir, tmp_path, pooling, normalize):
    library = pytest.importorskip("sentence_transformers")
    AutoTokenizer.from_pretrained(encoder_dir).save_pretrained(tmp_path)
    model = AutoModel.from_pretrained(encoder_dir).eval()
    model.save_pretrained(tmp_path)
    modules = form_of(pooling, normalize)
    write_modules(tmp_path, model.config, modules)
    assert read_modules(tmp_path, option="DIR") == modules
    vectors = library.SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS, convert_to_tensor=True)
    mine = SentenceEncoder(model, pooling=pooling, normalize=normalize).eval()
    with torch.no_grad():
        expected = mine(**rows_of(encoder_dir)).sentence_embedding
    torch.testing.assert_close(vectors, expected, atol=1e-5, rtol=0)


def test_the_directory_says_how_its_texts_are_read(exported):
    out, _ = exported
    modules = json.loads((out / "modules.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling", "2_Normalize"]
    assert all((out / module["path"]).is_dir() for module in modules)
    assert trained_pooling(out) == "mean"


def test_a_length_without_vectors_is_refused(encoder_dir, tmp_path):
    with pytest.raises(InvalidInput, match="--normalize is for the vectors of --pooling, got no --pooling"):
        export(encoder_dir, to=["onnx"], output=tmp_path / "out", settings=ExportSettings(normalize=True))


def test_vectors_of_a_classifier_are_refused(classifier_dir, tmp_path):
    with pytest.raises(InvalidInput, match="a bare encoder, got AlbertPlusForSequenceClassification in"):
        export(classifier_dir, to=["onnx"], output=tmp_path / "out", settings=MEAN)
