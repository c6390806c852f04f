"""Static int8: QDQ graphs and NNCF, calibrated on examples."""

import numpy
import onnx
import pytest

from hf_albert_plus.engines.parity import cases, differences, onnx_runner
from hf_albert_plus.engines.unsigned_weights import saturates
from hf_albert_plus.errors import InvalidInput, QuantisationError
from hf_albert_plus.export.openvino_ir import count_openvino_products, quantise_openvino
from hf_albert_plus.export.precision.input_ranges import find_ranges
from hf_albert_plus.export.precision.int8 import quantise
from hf_albert_plus.export.precision.products import count_products
from hf_albert_plus.export.real_examples import as_arrays, task_examples, text_examples
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from tests.support.graphs import exported_graph

GRID = [
    {},
    {"attention_sharing": "none", "ffn_sharing": "none", "hidden_act": "gelu"},
    {"attention_sharing": "cycle:2", "type_vocab_size": 0, "embedding_size": 32},
]


@pytest.fixture(scope="module", params=range(len(GRID)))
def graph(request, tmp_path_factory):
    fields = {"num_hidden_layers": 3, **GRID[request.param]}
    path = tmp_path_factory.mktemp("qdq") / "m.onnx"
    model = exported_graph(path, **fields)
    random = numpy.random.default_rng(0)
    examples = [
        {
            "input_ids": random.integers(5, 120, length).tolist(),
            "attention_mask": [1] * length,
            "token_type_ids": [0] * length,
        }
        for length in (5, 9, 17, 33, 12, 3)
    ]
    return model, path, examples


@pytest.mark.slow
def test_every_weight_product_lies_between_quantise_and_dequantise(graph, tmp_path):
    model, path, examples = graph
    names = count_products(onnx.load(path).graph).fp32
    ranges = find_ranges(path, [as_arrays(example) for example in examples])
    counts = quantise(path, tmp_path / "q.onnx", ranges=ranges, form="qdq", passes=())
    proto = onnx.load(tmp_path / "q.onnx")
    assert counts.quantised_products == counts.weight_products == len(names)
    assert {opset.domain for opset in proto.opset_import if opset.domain} == set()
    producers = {output: node for node in proto.graph.node for output in node.output}
    stored = {tensor.name: tensor for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        if node.name in names:
            for name in node.input:
                assert producers[name].op_type == "DequantizeLinear"
            scales, weight = (stored[producers[node.input[1]].input[place]] for place in (1, 0))
            assert list(scales.dims) == list(weight.dims)[1:]  # one for each column
        if node.op_type in {"QuantizeLinear", "DequantizeLinear"} and len(node.input) == 3:
            assert not onnx.numpy_helper.to_array(stored[node.input[2]]).any()  # symmetric
    int8 = [tensor.name for tensor in proto.graph.initializer if tensor.data_type == 3 and len(tensor.dims) == 2]
    unique = {node.input[1] for node in onnx.load(path).graph.node if node.name in names}
    assert len(int8) == len(unique)  # each shared weight once
    found = differences(model, onnx_runner(tmp_path / "q.onnx"), cases(model))
    if not saturates():  # else the products are wrong, whatever the graph says
        assert found[0].cosine >= 0.99


def test_products_can_be_kept(graph, tmp_path):
    _, path, examples = graph
    names = count_products(onnx.load(path).graph).fp32
    ranges = find_ranges(path, [as_arrays(example) for example in examples])
    counts = quantise(path, tmp_path / "q.onnx", ranges=ranges, form="qdq", keep_fp32=names[:2], passes=())
    assert list(counts.kept_fp32) == sorted(names[:2])
    assert counts.quantised_products == len(names) - 2


@pytest.mark.slow
def test_nncf_stores_shared_weights_once(graph, tmp_path):
    model, path, examples = graph
    counts = quantise_openvino(path, tmp_path / "o.xml", examples=examples)
    names = count_products(onnx.load(path).graph).fp32
    assert counts.quantised_products == counts.weight_products == len(names)
    weights = sum(p.numel() for n, p in model.named_parameters() if p.dim() == 2 and "embeddings." not in n)
    tables = sum(p.nbytes for n, p in model.named_parameters() if "embeddings." in n)
    vectors = sum(p.nbytes for p in model.parameters() if p.dim() == 1)
    assert (tmp_path / "o.bin").stat().st_size <= weights + tables + 6 * vectors + 20_000


@pytest.mark.slow
def test_a_product_that_nncf_passes_over_is_an_error(graph, tmp_path, monkeypatch):
    import nncf

    _, path, examples = graph
    plain = nncf.quantize
    scope = nncf.IgnoredScope(types=["MatMul"])
    monkeypatch.setattr(nncf, "quantize", lambda *args, **options: plain(*args, **{**options, "ignored_scope": scope}))
    with pytest.raises(QuantisationError, match="got 0; nothing was written"):
        quantise_openvino(path, tmp_path / "o.xml", examples=examples)
    assert not (tmp_path / "o.xml").exists()


@pytest.mark.slow
def test_counting_tells_stored_types_apart(graph):
    import openvino

    _, path, _ = graph
    names, floating = count_openvino_products(openvino.convert_model(path))
    assert len(names) == len(floating) == count_products(onnx.load(path).graph).total


def test_examples_are_real_rows(classifier_dir, data_dir, tmp_path):
    from hf_albert_plus.config_files import load_config

    config = load_config(classifier_dir, option="t")
    rows = task_examples(classifier_dir, config, data=str(data_dir), task="mrpc", count=7, max_length=20)
    assert len(rows) == 7
    assert all(set(row) == {"input_ids", "attention_mask", "token_type_ids"} for row in rows)
    assert any(1 in row["token_type_ids"] for row in rows)
    assert rows == task_examples(classifier_dir, config, data=str(data_dir), task="mrpc", count=7, max_length=20)
    texts = tmp_path / "texts.tsv"
    texts.write_text("the film is good .\n\nthe film\tthe plot\n", encoding="utf-8")
    single, pair = text_examples(classifier_dir, config, texts=texts, count=5)
    assert 1 not in single["token_type_ids"]
    assert 1 in pair["token_type_ids"]


@pytest.mark.parametrize(
    ("settings", "to", "words"),
    [
        (
            {},
            "onnx-qdq",
            "onnx-qdq is calibrated on real examples, got none; add --data FOLDER --task NAME, or --texts",
        ),
        ({}, "openvino-int8", "openvino-int8 is calibrated"),
        ({"data": "x"}, "onnx-qdq", "--data and --task go together"),
        ({"max_drop": 1.0}, "onnx-int8", "--max-drop is judged by a task's score, got no task"),
        ({"data": "x", "task": "sst2", "max_drop": -1.0}, "onnx-int8", "between 0 and 100 points, got -1"),
        ({"examples": 0}, "onnx", "--examples must be at least 1, got 0"),
        ({"tensorrt_from": "onnx-int8"}, "tensorrt", "--tensorrt-from must be a typed graph, got 'onnx-int8'"),
    ],
)
def test_settings_that_cannot_be_are_refused(classifier_dir, tmp_path, settings, to, words):
    with pytest.raises(InvalidInput, match=words):
        export(classifier_dir, to=[to], output=tmp_path / "x", settings=ExportSettings(**settings))
    assert not (tmp_path / "x").exists()


def test_a_file_of_texts_that_is_none_is_refused(classifier_dir, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n", encoding="utf-8")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for name, words in (
        ("no.txt", "--texts must be a text file"),
        ("empty.txt", "at least one line"),
        ("binary.txt", "text file"),
    ):
        with pytest.raises(InvalidInput, match=words):
            export(
                classifier_dir, to=["onnx-qdq"], output=tmp_path / "x", settings=ExportSettings(texts=tmp_path / name)
            )
