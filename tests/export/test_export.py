"""ONNX graphs: the model's logits, each weight once, every product quantised and counted."""

import subprocess
import sys

import numpy
import onnx
import onnxruntime
import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, pipeline

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.onnx_session import open_session
from hf_albert_plus.engines.parity import cases, check_parity, differences, onnx_runner
from hf_albert_plus.errors import InvalidInput, ParityError, QuantisationError
from hf_albert_plus.export.graph.tracing import export_graph, save_graph
from hf_albert_plus.export.precision.int8 import quantise
from hf_albert_plus.export.precision.products import count_products, float_tables
from hf_albert_plus.export.stage import export
from hf_albert_plus.heads import HEADS, albert_plus_class
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.random_inputs import random_inputs
from tests.support.ranges import random_ranges
from tests.support.small_models import SMALL, pair_inputs, randomise, small_config

GRID = [
    {"attention_sharing": "all", "ffn_sharing": "all"},
    {"attention_sharing": "none", "ffn_sharing": "all", "embedding_size": 32},
    {"attention_sharing": "all", "ffn_sharing": "none", "hidden_act": "gelu"},
    {"attention_sharing": [0, 1, 0, 1], "ffn_sharing": 2, "type_vocab_size": 1, "num_labels": 1},
    {"attention_sharing": "none", "ffn_sharing": "none", "hidden_act": "relu", "num_labels": 3},
    {"type_vocab_size": 0, "pooler": "relu", "ffn_sharing": "reversed_cycle:2"},
    {
        "norm_type": "no_norm",
        "bottleneck_size": 16,
        "num_feedforward_networks": 3,
        "pooler": "none",
        "num_hidden_layers": 2,
    },
    {"bottleneck_size": 16, "attention_sharing": "cycle:2", "trigram_embeddings": True, "num_hidden_layers": 3},
    {
        "attention_sharing": "none",
        "block_attention_heads": [4, 1, 3, 2],
        "ffn_sharing": 2,
        "block_intermediate_sizes": [8, 40],
    },
    {"pooling": "mean", "pooler": "none", "ffn_sharing": "none"},
    {"pooling": "mean", "pooler": "tanh", "type_vocab_size": 0, "attention_sharing": 2},
    {"layer_rank": 3},
    {
        "relative_attention_buckets": 8,
        "type_vocab_size": 0,
        "attention_sharing": "none",
        "block_attention_heads": [4, 1, 3, 2],
    },
    {"relative_attention_buckets": 32, "attention_sharing": 2, "pooling": "mean", "pooler": "none", "layer_rank": 1},
    {"bottleneck_size": 48, "query_key_bottleneck": False, "trigram_embeddings": True, "ffn_sharing": "none"},
    {"bottleneck_size": 48, "norm_type": "no_norm", "pooler": "none"},
    {"layer_rank": 2, "attention_sharing": "none", "ffn_sharing": "cycle:2", "hidden_act": "gelu", "pooling": "mean"},
]


def _models():
    yield from (lambda fields=fields: AlbertPlusForSequenceClassification(small_config(**fields)) for fields in GRID)
    yield lambda: BertForSequenceClassification(BertConfig(**SMALL))


@pytest.fixture(scope="module", params=list(_models()), ids=[*(str(i) for i in range(len(GRID))), "bert"])
def exported(request, tmp_path_factory):
    model = randomise(request.param())
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    save_graph(export_graph(model), path)
    return model, path


def _expected_products(model) -> int:
    """Per layer four attention products and two a feed-forward network, with a bottleneck two ways in (one where queries and keys have
    none) and one out, and two beside each where layers differ; the projection where there is one; pooler; classifier."""
    config = model.config
    if config.model_type == "bert":
        return 6 * config.num_hidden_layers + 2
    layer = 4 + 2 * config.num_feedforward_networks + (2 + config.query_key_bottleneck if config.bottleneck_size else 0)
    layer += 12 if config.layer_rank is not None else 0
    projection = config.trigram_embeddings or config.embedding_size != config.hidden_size
    return layer * config.num_hidden_layers + projection + (config.pooler != "none") + 1


@pytest.mark.slow
def test_logits_agree_over_lengths_padding_and_pairs(exported):
    model, path = exported
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]
    assert names == ["input_ids", "attention_mask", "token_type_ids"][: len(names)]
    assert ("token_type_ids" in names) == (model.config.type_vocab_size > 1)
    for batch, length in ((1, 1), (1, 5), (3, 11), (4, 64)):
        inputs = {
            name: tensor for name, tensor in pair_inputs(120, batch=batch, length=length).items() if name in names
        }
        with torch.no_grad():
            expected = model(**inputs).logits.numpy()
        (found,) = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        numpy.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)
    facts = check_parity(differences(model, onnx_runner(path), cases(model)), what="onnx", precision="fp32")
    assert facts.max_abs_difference <= 1e-4
    assert facts.parity[0].output == "logits"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "fields"), [*((head, GRID[0]) for head in HEADS), ("ForMaskedLM", GRID[6]), ("ForMultipleChoice", GRID[6])]
)
def test_every_head_through_the_stage_and_the_engines(tmp_path, tokenizer_dir, head, fields):
    """The engines give the same outputs under the same names as the model, whatever its head."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    fields = {**fields, "vocab_size": len(tokenizer), "num_hidden_layers": 2}
    model = randomise(albert_plus_class(head)(small_config(**fields)))
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    record = export(tmp_path / "model", to=["onnx", "onnx-int8"], output=tmp_path / "out")
    facts = record.result["exports"]
    assert facts["onnx"]["max_abs_difference"] <= 1e-4
    assert facts["onnx-int8"]["quantised_products"] == facts["onnx"]["weight_products"] > 4
    inputs = random_inputs(model, batch=4, length=13)
    with torch.no_grad():
        expected = model(**inputs)
    kept = inputs["attention_mask"].bool()
    for runtime, tolerance in (("torch", 1e-6), ("onnx", 1e-4), ("onnx-int8", 1.0)):
        output = Engine.load(tmp_path / "out", runtime)(**inputs)
        assert list(output) == list(expected)
        assert runtime == "torch" or type(output).__name__ == type(expected).__name__
        for name, tensor in expected.items():
            one, other = (t[kept] if t.shape[: kept.dim()] == kept.shape else t for t in (output[name], tensor))
            assert float((one - other).abs().max()) <= tolerance, (runtime, name)


@pytest.mark.slow
def test_every_unique_tensor_is_stored_once(exported):
    model, path = exported
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    stored = sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in proto.graph.initializer)
    unique = sum(parameter.nbytes for parameter in model.parameters())
    assert stored <= unique + 2048
    assert path.stat().st_size <= unique + 1e6
    assert {opset.domain for opset in proto.opset_import} == {""}


@pytest.mark.slow
def test_axes_have_clean_names_and_no_path_of_this_machine_leaks(exported):
    _, path = exported
    proto = onnx.load(path)
    for value in proto.graph.input:
        assert [dim.dim_param for dim in value.type.tensor_type.shape.dim] == ["batch", "sequence"]
    assert proto.graph.output[0].name == "logits"
    assert proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert b"/site-packages/" not in path.read_bytes()


@pytest.mark.slow
def test_every_weight_product_is_counted_and_quantised(exported, tmp_path):
    model, path = exported
    products = count_products(onnx.load(path).graph)
    assert len(products.fp32) == products.total == _expected_products(model)
    counts = quantise(path, tmp_path / "int8.onnx", ranges=random_ranges(model, path))
    assert counts.weight_products == counts.quantised_products == _expected_products(model)
    graph = onnx.load(tmp_path / "int8.onnx").graph
    assert sum(node.op_type == "MatMulIntegerToFloat" for node in graph.node) == _expected_products(model)
    assert float_tables(graph) == []
    dims = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "MatMulIntegerToFloat":  # a scale for each column of the weight
            assert dims[node.input[3]] == dims[node.input[1]][1:]
    int8_matrices = {tensor.name for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT8}
    unique_matrices = sum(
        p.dim() == 2 for n, p in model.named_parameters() if "embeddings." not in n or "projection" in n
    )
    tables = 3
    assert len(int8_matrices) <= unique_matrices + tables + 1  # + position ids


@pytest.mark.slow
def test_int8_follows_the_model(exported, tmp_path):
    model, path = exported
    quantise(path, tmp_path / "int8.onnx", ranges=random_ranges(model, path))
    session = open_session(tmp_path / "int8.onnx")
    inputs = random_inputs(model, batch=16, length=24)
    with torch.no_grad():
        expected = model(**inputs).logits.numpy()
    (found,) = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    assert numpy.abs(found - expected).max() < 0.15 * numpy.abs(expected).max() + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 9, 24])
def test_int8_answers_a_text_alone_as_in_any_batch(exported, tmp_path, length):
    """The inputs of products are fp32, so a last bit may differ from batch to batch: a step of rounding at most."""
    model, path = exported
    if getattr(model.config, "trigram_embeddings", False):
        pytest.skip("the embedding of a token reads the next one, padding too, as MobileBERT's does")
    quantise(path, tmp_path / "int8.onnx", ranges=random_ranges(model, path))
    run = onnx_runner(tmp_path / "int8.onnx")
    inputs = random_inputs(model, batch=9, length=length)
    together = run(inputs)["logits"]
    padded = run({name: torch.nn.functional.pad(tensor, (0, 5)) for name, tensor in inputs.items()})["logits"]
    reversed_ = run({name: tensor.flip(0) for name, tensor in inputs.items()})["logits"].flip(0)
    most = 1e-3 * float(together.abs().mean())
    for row in range(9):
        tokens = int(inputs["attention_mask"][row].sum())
        alone = run({name: tensor[row : row + 1, :tokens] for name, tensor in inputs.items()})["logits"][0]
        for other in (together, padded, reversed_):
            assert float((other[row] - alone).abs().max()) <= most


@pytest.mark.slow
def test_a_product_left_in_fp32_is_an_error_that_names_it(exported, tmp_path):
    model, path = exported
    victim = count_products(onnx.load(path).graph).fp32[3]
    ranges = random_ranges(model, path)
    del ranges[victim]
    with pytest.raises(QuantisationError, match=victim) as raised:
        quantise(path, tmp_path / "int8.onnx", ranges=ranges)
    assert raised.value.missing == [victim]
    assert not (tmp_path / "int8.onnx").exists()


@pytest.mark.slow
def test_a_wrong_graph_fails_the_parity_check(exported):
    model, path = exported
    with torch.no_grad():
        model.classifier.bias += 2e-3
    try:
        found = differences(model, onnx_runner(path), cases(model))
        with pytest.raises(
            ParityError, match=r"onnx: .* at most 0.0001 .* got logits 0.00\d* \(cosine .*\) on \d"
        ) as raised:
            check_parity(found, what="onnx", precision="fp32")
        assert [facts["output"] for facts in raised.value.outputs] == ["logits"]
    finally:
        with torch.no_grad():
            model.classifier.bias -= 2e-3


@pytest.mark.slow
def test_the_model_comes_back_as_it_was(exported):
    model, _ = exported
    assert model.config._attn_implementation == "sdpa"
    assert not model.training


def test_stage_makes_a_whole_directory_and_a_counted_record(exported_dir, classifier_dir):
    from hf_albert_plus.records.record import read_record

    record = read_record(exported_dir)
    facts = record.result["exports"]["onnx-int8"]
    assert facts["quantised_products"] == facts["weight_products"] == 6 * 4 + 1 + 2
    assert record.result["exports"]["onnx"]["max_abs_difference"] <= 1e-4
    assert set(record.files) >= {
        "onnx/model.onnx",
        "onnx/model_int8.onnx",
        "model.safetensors",
        "config.json",
        "tokenizer.json",
    }
    assert (exported_dir / "model.safetensors").read_bytes() == (classifier_dir / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_only_config_weights_and_tokenizer_are_carried_along(exported_dir, tmp_path):
    import shutil

    source = shutil.copytree(exported_dir, tmp_path / "source")
    (source / "training_args.bin").write_bytes(b"pickle")
    (source / "checkpoint-9").mkdir()
    (source / "checkpoint-9" / "model.safetensors").write_bytes(b"old")
    export(source, to=["onnx"], output=tmp_path / "out")
    found = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "record.json",
        "onnx/model.onnx",
        *(
            f"{name}_albert_plus.py"
            for name in (
                "base",
                "configuration",
                "errors",
                "exits",
                "hub",
                "layers",
                "modeling",
                "pooling",
                "relative_positions",
                "sharing",
            )
        ),
    }


def test_engines_give_the_same_output_object(exported_dir):
    tokenizer = AutoTokenizer.from_pretrained(exported_dir)
    inputs = dict(tokenizer(["the film is superb .", "the plot is not very good ."], padding=True, return_tensors="pt"))
    expected = pipeline(
        "text-classification", model=str(exported_dir), tokenizer=tokenizer, function_to_apply="none", top_k=None
    )
    scores = [
        {row["label"]: row["score"] for row in rows}
        for rows in expected(["the film is superb .", "the plot is not very good ."])
    ]
    for runtime, tolerance in (("torch", 1e-5), ("onnx", 1e-4), ("onnx-int8", 0.3)):
        engine = Engine.load(exported_dir, runtime, threads=1)
        logits = engine(**inputs).logits
        for row, values in zip(scores, logits, strict=True):
            assert [row[engine.config.id2label[i]] for i in range(2)] == pytest.approx(values.tolist(), abs=tolerance)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d, t: export(d, to=["onix"], output=t / "x"), "'onix'; did you mean 'onnx'"),
        (lambda d, t: export(t, to=["onnx"], output=t / "x"), "without config.json"),
        (lambda d, t: export(d, to=["onnx"], output=d), "--out must lie outside"),
        (lambda d, t: Engine.load(d, "onnx"), "albert-plus export .* --to onnx"),
        (lambda d, t: Engine.load(d, "onnx-int4"), "did you mean 'onnx-int8'"),
        (lambda d, t: Engine.load(t / "no", "torch"), "must be a model directory"),
    ],
)
def test_wrong_calls_say_what_to_do(classifier_dir, tmp_path, call, words):
    with pytest.raises(InvalidInput, match=words):
        call(classifier_dir, tmp_path)


def test_a_broken_graph_is_named(exported_dir, tmp_path):
    import shutil

    shutil.copytree(exported_dir, tmp_path / "model")
    (tmp_path / "model" / "onnx" / "model.onnx").write_bytes(b"half")
    with pytest.raises(InvalidInput, match="must load in onnxruntime.*export it again"):
        Engine.load(tmp_path / "model", "onnx", verify=False)


@pytest.mark.slow
def test_an_encoder_without_a_head_exports_and_is_not_scored(encoder_dir, data_dir, tmp_path):
    from hf_albert_plus.eval.scoring import score_targets
    from hf_albert_plus.eval.settings import EvalSettings
    from hf_albert_plus.eval.targets import parse_targets
    from hf_albert_plus.tasks.glue import get_task

    export(encoder_dir, to=["onnx"], output=tmp_path / "x")
    assert Engine.load(tmp_path / "x", "onnx")(**pair_inputs(60)).last_hidden_state.shape == (3, 11, 32)
    for target in (str(encoder_dir), f"{tmp_path / 'x'}:onnx"):
        with pytest.raises(InvalidInput, match="must be a sequence classifier, got BertModel.*fine-tune it first"):
            score_targets(
                parse_targets([target]),
                data=str(data_dir),
                task=get_task("sst2"),
                settings=EvalSettings(max_length=16),
                threads=1,
            )


@pytest.mark.parametrize("name", ["export", "eval"])
def test_the_folders_do_not_import_under_their_bare_names(name, pytestconfig):
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=pytestconfig.rootpath, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert f"import this package as hf_albert_plus.{name}" in done.stderr
