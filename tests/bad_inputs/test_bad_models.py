"""Model directories that somebody changed, broke or forged: each is refused with what to repair, before anything is made of it."""

import importlib
import json
import shutil
import struct
import sys
import time

import onnx
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_albert_plus.checkpoints import copy_model, load_classifier, open_as_trained
from hf_albert_plus.compression.quantisation.packed_weights import read_packed
from hf_albert_plus.compression.quantisation.scheme import read_scheme
from hf_albert_plus.compression.settings import CalibrateSettings, PruneSettings, QatSettings
from hf_albert_plus.config_building import build_config, measure, parse_layers, parse_settings
from hf_albert_plus.config_files import load_config
from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from hf_albert_plus.conversion.stage import convert
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.stage import export
from hf_albert_plus.tasks.rows import fits_positions, load_tokenizer
from tests.support.command_line import invoke

LEFT_OUT = object()
DEEP = "[" * 100_000
FORGED = {"AutoConfig": "forged.Config", "AutoModel": "forged.Model", "AutoModelForSequenceClassification": "forged.M"}


def fields(file="config.json", **values):
    """Sets fields of a JSON file."""

    def change(directory):
        content = {**json.loads((directory / file).read_text()), **values}
        kept = {name: value for name, value in content.items() if value is not LEFT_OUT}
        (directory / file).write_text(json.dumps(kept))

    return change


def content(file, data):
    return lambda directory: (directory / file).write_bytes(data.encode() if isinstance(data, str) else data)


def removed(*files):
    def change(directory):
        for file in files:
            (directory / file).unlink(missing_ok=True)

    return change


def cut(file):
    return lambda directory: (directory / file).write_bytes((directory / file).read_bytes()[:-100])


def weights(change_tensors):
    def change(directory):
        tensors = load_file(directory / "model.safetensors")
        save_file(change_tensors(tensors), directory / "model.safetensors", metadata={"format": "pt"})

    return change


def with_value(value, weight="classifier.weight"):
    def change(tensors):
        tensors[weight][0, 0] = value
        return tensors

    return weights(change)


def vocabulary(change_words):
    def change(directory):
        document = json.loads((directory / "tokenizer.json").read_text())
        change_words(document["model"]["vocab"])
        (directory / "tokenizer.json").write_text(json.dumps(document))

    return change


def index(text):
    def change(directory):
        (directory / "model.safetensors").unlink()
        (directory / "model.safetensors.index.json").write_text(text)

    return change


@pytest.fixture
def directory(classifier_dir, tmp_path):
    return shutil.copytree(classifier_dir, tmp_path / "model")


@pytest.fixture(scope="module")
def bert_dir(tmp_path_factory, encoder_dir):
    """A classifier of an architecture of transformers."""
    from transformers import AutoTokenizer, BertForSequenceClassification

    source = tmp_path_factory.mktemp("classifier")
    BertForSequenceClassification.from_pretrained(encoder_dir).save_pretrained(source)
    AutoTokenizer.from_pretrained(encoder_dir).save_pretrained(source)
    return source


CONFIGS = [
    (content("config.json", "[]"), "config.json"),
    (content("config.json", "{}"), "must be a model directory"),
    (content("config.json", "{nope"), "must be a JSON file"),
    (content("config.json", b"\xff\xfe"), "must be a JSON file"),
    (content("config.json", '{"a": ' + DEEP), "nests too deeply"),
    (removed("config.json"), "config.json"),
    (fields(architectures=[1]), "architectures.0"),
    (fields(architectures="x"), "architectures"),
    (fields(architectures=["Nothing"]), "got Nothing"),
    (fields(id2label=[1, 2]), "id2label"),
    (fields(id2label={"0": "a", "2": "b"}), "id2label .* without a gap"),
    (fields(id2label={"a": "b"}), "'a'"),
    (fields(id2label={"0": 1, "1": 2}), "id2label"),
    (fields(num_labels=10**9, id2label=LEFT_OUT, label2id=LEFT_OUT), "num_labels must be from 1 to 65536, got 1000000000"),
    (fields(num_labels="x"), "num_labels"),
    (fields(model_type="vit"), "ViT"),
    (fields(model_type="t5"), "must be a model directory|weights"),
    (fields(model_type="gpt2"), "weights|built"),
    (fields(model_type="unheard-of", auto_map=LEFT_OUT), "unheard-of"),
    (fields(model_type="unheard-of", auto_map=FORGED), "custom code"),
    (fields(auto_map=["x"]), "auto_map"),
    (fields(quantization_config={"quant_method": "bitsandbytes"}), "got quantization_config"),
    (fields(pad_token_id=10**9), r"pad_token_id .*got 1000000000"),
    (fields(pad_token_id="x"), "pad_token_id"),
    (fields(num_attention_heads=5), "5"),
    (fields(num_attention_heads=0), "num_attention_heads must be from 1"),
    (fields(dtype="weird"), "weird"),
    (fields(dtype="int8"), "dtype must be one of floating point, got torch.int8"),
    (fields(dtype=3), "dtype"),
    (fields(num_hidden_layers=-1), "num_hidden_layers must be from 1 to 1000, got -1"),
    (fields(num_hidden_layers=10**7), "num_hidden_layers must be from 1 to 1000, got 10000000"),
    (fields(num_hidden_layers="x"), "num_hidden_layers"),
    (fields(num_hidden_layers=None), "num_hidden_layers"),
    (fields(hidden_size=10**12), "hidden_size must be from 1 to 16384, got 1000000000000"),
    (fields(hidden_size=8192, num_attention_heads=64), "weights of the sizes in its config"),
    (fields(vocab_size=10**12), "vocab_size must be from 1"),
    (fields(vocab_size=10**7), "weights of the sizes in its config"),
    (fields(vocab_size="x"), "vocab_size"),
    (fields(max_position_embeddings=10**12), "max_position_embeddings must be from 1"),
    (fields(type_vocab_size=-1), "type_vocab_size must be from 0"),
    (fields(hidden_size=64), r"sizes in its config, got \["),
    (fields(hidden_act="nope"), "nope"),
    (fields(hidden_dropout_prob=7), "7"),
    (fields(layer_norm_eps="x"), "layer_norm_eps"),
    (fields(problem_type="weird"), "problem_type"),
    (fields(chunk_size_feed_forward=7), "chunk_size_feed_forward must be 0"),
    (fields(save_pretrained="x"), "'save_pretrained'"),
    (lambda d: content("config.json", (d / "config.json").read_text().replace("32", "NaN", 1))(d), "NaN"),
]  # fmt: skip


@pytest.fixture(scope="module")
def opened_before(classifier_dir, bert_dir, tmp_path_factory):
    """The libraries that opening a directory imports are imported: they are no part of what a refusal takes."""
    for number, source in enumerate((classifier_dir, bert_dir)):
        open_as_trained(source, option="DIR")
        t5 = shutil.copytree(source, tmp_path_factory.mktemp("opened") / f"{number}")
        fields(model_type="t5")(t5)
        with pytest.raises(InvalidInput):
            open_as_trained(t5, option="DIR")


@pytest.mark.slow
@pytest.mark.usefixtures("opened_before")
@pytest.mark.parametrize(("change", "words"), CONFIGS)
@pytest.mark.parametrize("family", ["ours", "bert"])
def test_a_config_is_refused_by_its_field(directory, bert_dir, family, change, words, capsys):
    if family == "bert":
        shutil.rmtree(directory)
        shutil.copytree(bert_dir, directory)
    change(directory)
    (directory / "forged.py").write_text("print('this code was run')")
    start = time.thread_time()
    with pytest.raises(InvalidInput, match=words):
        open_as_trained(directory, option="DIR")
    assert time.thread_time() - start < 3
    assert "this code was run" not in capsys.readouterr().out


WEIGHTS = [
    (removed("model.safetensors"), "must hold its weights as safetensors"),
    (content("model.safetensors", b""), "must hold its weights as safetensors"),
    (cut("model.safetensors"), "must hold its weights as safetensors"),
    (content("model.safetensors", b"garbage" * 100), "must hold its weights as safetensors"),
    (content("model.safetensors", struct.pack("<Q", 2**62) + b"{}"), "must hold its weights as safetensors"),
    (content("model.safetensors", struct.pack("<Q", 2) + b"[]"), "must hold its weights as safetensors"),
    (with_value(float("nan")), "weights must be finite, got NaN in classifier.weight of"),
    (with_value(float("inf")), "weights must be finite, got infinity in classifier.weight of"),
    (weights(lambda t: {**t, "classifier.weight": t["classifier.weight"].to(torch.int8)}), "floating point.* got I8"),
    (weights(lambda t: {**t, "classifier.weight": torch.zeros(5, 5)}), r"sizes in its config, got \[5, 5\] of classifier"),
    (weights(lambda t: {n: v for n, v in t.items() if "classifier" not in n}), "2 missing"),
    (weights(lambda t: {"other": torch.zeros(3)}), "missing|sizes"),
    (index("[]"), "index of weights"),
    (index('{"metadata": {}, "weight_map": 3}'), "index of weights"),
    (index('{"metadata": {}, "weight_map": {}}'), "must name files beside it, got none"),
    (index('{"weight_map": {"a": "b"}}'), "index of weights"),
    (index('{"metadata": {}, "weight_map": {"a": "../../etc/passwd"}}'), "got ../../etc/passwd"),
    (index('{"metadata": {}, "weight_map": {"a": "b.safetensors"}}'), "must hold its weights as safetensors"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), WEIGHTS)
def test_weights_are_refused_by_what_is_wrong(directory, change, words):
    change(directory)
    with pytest.raises(InvalidInput, match=words):
        load_classifier(directory, option="--model")


TOKENIZERS = [
    (content("tokenizer.json", "{}"), "must hold its tokenizer"),
    (content("tokenizer.json", "[]"), "must hold its tokenizer"),
    (content("tokenizer.json", '{"a": ' + DEEP), "must hold its tokenizer"),
    (cut("tokenizer.json"), "must hold its tokenizer"),
    (removed("tokenizer.json"), "must hold its tokenizer"),
    (content("tokenizer_config.json", "[]"), "must hold its tokenizer"),
    (content("tokenizer_config.json", "garbage"), "must hold its tokenizer"),
    (vocabulary(lambda words: words.update(zzz=10**6)), "at most vocab_size .* got 1000001"),
    (vocabulary(lambda words: words.clear()), "must hold its tokenizer"),
    (fields("tokenizer_config.json", pad_token=None), "must have a padding token, got none"),
    (fields("tokenizer_config.json", pad_token=[3]), "must hold its tokenizer"),
    (fields("tokenizer_config.json", model_max_length="x"), "model_max_length 'x'"),
    (fields("tokenizer_config.json", padding_side="up"), "must hold its tokenizer"),
    (fields("tokenizer_config.json", added_tokens_decoder={"x": 3}), "must hold its tokenizer"),
]


@pytest.mark.parametrize(("change", "words"), TOKENIZERS)
def test_tokenizers_are_refused_by_what_is_wrong(directory, change, words):
    change(directory)
    config = load_config(directory, option="DIR")
    with pytest.raises(InvalidInput, match=words):
        load_tokenizer(directory, config)


@pytest.mark.parametrize("names", [["pixels"], [], ["input_ids"], "x"])
def test_a_tokenizer_gives_what_the_model_reads_whatever_its_file_says(directory, names):
    fields("tokenizer_config.json", model_input_names=names)(directory)
    tokenizer = load_tokenizer(directory, load_config(directory, option="DIR"))
    assert set(tokenizer("a text")) == {"input_ids", "attention_mask", "token_type_ids"}


VERBS = {
    "finetune": ["finetune", "--model", "DIR", "--out", "OUT", "--epochs", 0.1],
    "distill": ["distill", "--teacher", "DIR", "--out", "OUT", "--epochs", 0.1],
    "prune": ["prune", "--model", "DIR", "--out", "OUT"],
    "sparsify": ["sparsify", "--model", "DIR", "--out", "OUT"],
    "qat": ["qat", "--model", "DIR", "--out", "OUT"],
    "calibrate": ["calibrate", "--model", "DIR", "--out", "OUT"],
    "augment": ["augment", "--word-vectors", "DIR", "--copies", 1, "--out", "OUT"],
    "eval": ["eval", "DIR"],
    "export": ["export", "DIR", "--to", "onnx-fp16", "--out", "OUT"],
    "convert": ["convert", "DIR", "--to", "albert", "--out", "OUT"],
    "bench": ["bench", "DIR", "--baseline", "DIR", "--shapes", "1x8"],
}
WORDS = "albert_plus.embeddings.word_embeddings.weight"
FAULTS = {
    "config": (content("config.json", "[]"), "config.json"),
    "layers": (fields(num_hidden_layers=10**7), "10000000"),
    "weights": (with_value(float("nan"), weight=WORDS), "got NaN in .*word_embeddings.weight"),
    "tokenizer": (content("tokenizer.json", "[]"), "must hold its tokenizer"),
}


# A bench reads tokens without a text.
@pytest.mark.slow
@pytest.mark.parametrize(("verb", "fault"), [(v, f) for v in VERBS for f in FAULTS if (v, f) != ("bench", "tokenizer")])
def test_every_verb_refuses_a_bad_directory(directory, data_dir, tmp_path, verb, fault):
    change, words = FAULTS[fault]
    change(directory)
    places = {"DIR": directory, "OUT": tmp_path / "out"}
    of_task = [] if verb in ("export", "convert", "bench") else ["--data", data_dir, "--task", "sst2"]
    of_task += ["--max-length", 32] if of_task and verb != "augment" else []
    if verb == "calibrate" and fault == "tokenizer":
        fields(exit_layers=[1], exit_head="shared")(directory)
    with pytest.raises(InvalidInput, match=words):
        invoke(*[places.get(word, word) for word in VERBS[verb]], *of_task)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("to", ["onnx", "onnx-fp16", "onnx-int8"])
def test_no_export_of_weights_that_are_no_numbers(directory, tmp_path, to):
    with_value(float("nan"))(directory)
    with pytest.raises(InvalidInput, match="weights must be finite, got NaN in classifier.weight"):
        export(directory, to=[to], output=tmp_path / "out")


def test_a_changed_directory_needs_its_record_removed(exported_dir, tmp_path):
    source = shutil.copytree(exported_dir, tmp_path / "model")
    fields(classifier_dropout_prob=0.3)(source)
    with pytest.raises(InvalidInput, match=r"config.json must be the file that .* got other content; .*remove"):
        convert(str(source), to="albert", output=tmp_path / "out")
    with pytest.raises(InvalidInput, match=r"config.json must be the file that .* got other content; .*remove"):
        export(source, to=["onnx"], output=tmp_path / "out")
    (source / "record.json").unlink()
    convert(str(source), to="albert", output=tmp_path / "out")


def test_a_copy_has_our_code_and_no_other(directory, tmp_path, capsys):
    package = {path.name: path.read_text() for path in directory.glob("*.py")}
    assert "modeling_albert_plus.py" in package
    (directory / "modeling_albert_plus.py").write_text("altered = True")
    (directory / "forged.py").write_text("forged = True")
    ours = json.loads((directory / "config.json").read_text())["auto_map"]
    fields(auto_map={**ours, "AutoModelForCausalLM": "forged.Model"})(directory)
    fields("tokenizer_config.json", auto_map={"AutoTokenizer": ["forged.T", None]})(directory)
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_model(directory, copy)
    assert {path.name: path.read_text() for path in copy.glob("*.py")} == package
    assert json.loads((copy / "config.json").read_text())["auto_map"] == ours
    assert "auto_map" not in json.loads((copy / "tokenizer_config.json").read_text())
    assert capsys.readouterr().err.count("is not copied") == 2


def test_without_an_auto_map_no_code_is_copied(bert_dir, tmp_path):
    source = shutil.copytree(bert_dir, tmp_path / "model")
    (source / "modeling_albert_plus.py").write_text("forged = True")
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_model(source, copy)
    assert not list(copy.glob("*.py"))


def test_foreign_code_is_not_handed_on(directory, bert_dir, tmp_path):
    fields(auto_map=FORGED)(directory)
    assert "forged" not in str(load_config(directory, option="DIR").auto_map)
    source = shutil.copytree(bert_dir, tmp_path / "bert")
    fields(auto_map=FORGED)(source)
    load_classifier(source, option="DIR").save_pretrained(tmp_path / "saved")
    assert "forged" not in (tmp_path / "saved" / "config.json").read_text()


def of_more_labels(directory):
    fields(id2label={"0": "a", "1": "b", "2": "c"}, label2id={"a": 0, "b": 1, "c": 2})(directory)


def of_more_words(directory):
    fields(vocab_size=json.loads((directory / "config.json").read_text())["vocab_size"] + 7)(directory)


def renamed_input(directory):
    graph = onnx.load(directory / "onnx/model.onnx")
    for node in graph.graph.node:
        node.input[:] = ["words" if name == "input_ids" else name for name in node.input]
    graph.graph.input[0].name = "words"
    onnx.save(graph, directory / "onnx/model.onnx")


def data_elsewhere(directory):
    (directory.parent / "outside.bin").write_bytes(b"\0" * 1_000_000)
    graph = onnx.load(directory / "onnx/model.onnx")
    tensor = max(graph.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    place = {"location": "../../outside.bin", "offset": "0", "length": str(len(tensor.raw_data))}
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for name, value in place.items():
        tensor.external_data.add(key=name, value=value)
    (directory / "onnx/model.onnx").write_bytes(graph.SerializeToString())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (content("onnx/model.onnx", b""), "must load in onnxruntime"),
        (content("onnx/model.onnx", b"garbage"), "must load in onnxruntime"),
        (cut("onnx/model.onnx"), "must load in onnxruntime"),
        (of_more_labels, "2 values in logits where config.json has 3"),
        (of_more_words, "a graph that does not run"),
        (fields(architectures=["AlbertPlusForMaskedLM"]), "2 values in logits where config.json has"),
        (fields(architectures=["AlbertPlusForQuestionAnswering"]), "to logits"),
        (renamed_input, "words"),
        (data_elsewhere, "escapes model directory"),
    ],
)
def test_a_graph_of_another_model_is_refused_when_it_is_opened(exported_dir, tmp_path, change, words):
    source = shutil.copytree(exported_dir, tmp_path / "model")
    (source / "record.json").unlink()
    change(source)
    with pytest.raises(InvalidInput, match=words):
        Engine.load(source, "onnx")


def test_threads_have_a_bound(classifier_dir):
    with pytest.raises(InvalidInput, match="threads must be from 1 to 1024, got 1000000000"):
        Engine.load(classifier_dir, threads=10**9)


GRID = {"bits": 8, "groups": None}


@pytest.mark.parametrize(
    "scheme",
    [
        [],
        {},
        {"weights": 3, "tables": {}, "products": {}},
        {"weights": {"a": {"bits": "8"}}, "tables": {}, "products": {}},
        {"weights": {"a": {**GRID, "bits": 7}}, "tables": {}, "products": {}},
        {"weights": {"a": {**GRID, "groups": -1}}, "tables": {}, "products": {}},
        {"weights": {"a": GRID}, "tables": {}, "products": {"a": {"module": "b", "amax": 1.0}}},
        {"weights": {"a": GRID}, "tables": {}, "products": {"a": {"module": "a", "amax": -1.0}}},
    ],
)
def test_a_scheme_of_another_shape_is_refused(tmp_path, scheme):
    (tmp_path / "quantisation.json").write_text(json.dumps(scheme))
    with pytest.raises(InvalidInput, match=r"quantisation.json .*albert-plus qat"):
        read_scheme(tmp_path)


@pytest.mark.parametrize("facts", ["{", "[]", '{"w": {}}', '{"w": {"bits": 4, "groups": null, "columns": 9}}', '{"v": {"bits": 4, "groups": null, "columns": 2}}'])  # fmt: skip
def test_packed_weights_of_another_shape_are_refused(tmp_path, facts):
    parts = {
        "levels": torch.zeros(3, 1, dtype=torch.uint8),
        "scale": torch.ones(3),
        "zero": torch.zeros(3, dtype=torch.uint8),
    }
    save_file({f"w.{name}": tensor for name, tensor in parts.items()}, tmp_path / "packed", metadata={"packed": facts})
    with pytest.raises(InvalidInput, match="packed"):
        read_packed(tmp_path / "packed")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PruneSettings(epochs=1, batch_size=8, heads=float("nan")), "--heads .* got nan"),
        (lambda: PruneSettings(epochs=1, batch_size=8, columns=2), "--columns .* got 2"),
        (lambda: QatSettings(epochs=1, batch_size=8, bits=(4, 8), budget=float("inf")), "--budget .* got inf"),
        (lambda: QatSettings(epochs=1, batch_size=8, draws=10**9), "--draws .* got 1000000000"),
        (lambda: CalibrateSettings(max_drop=float("inf")), "--max-drop .* got inf"),
        (lambda: CalibrateSettings(exit_cost=float("nan")), "--exit-cost .* got nan"),
        (lambda: measure(AlbertPlusConfig(), length=0), "--length must be at least 1, got 0"),
        (lambda: parse_settings(["a=NaN"]), "NaN is no number"),
        (lambda: parse_settings(["a=1e999"]), "1e999"),
        (lambda: parse_settings([f"a={DEEP}"]), "nests too deeply"),
        (lambda: parse_layers("1" * 5000), "--layers must be numbers"),
        (lambda: build_config({"hidden_size": 16384, "num_hidden_layers": 1000, "num_attention_heads": 64, "ffn_sharing": "none",
                               "intermediate_size": 65536}), "must fit into the .* of memory"),
        (lambda: build_config({"num_hidden_layers": 10**12}), "num_hidden_layers must be from 1 to 1000"),
        (lambda: build_config({"id2label": {"0": "a", "5": "b"}}), "id2label"),
        (lambda: build_config({"problem_type": "weird"}), "problem_type .*'weird'"),
    ],
)  # fmt: skip
def test_numbers_that_nothing_has_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


@pytest.mark.parametrize("length", [0, -1, 65])
def test_lengths_have_room_for_words_and_positions(classifier_dir, length):
    with pytest.raises(InvalidInput, match=f"--max-length must .* got {length}"):
        fits_positions(load_config(classifier_dir, option="DIR"), length)


def test_roberta_counts_its_positions_from_past_the_padding():
    from transformers import RobertaConfig

    fits_positions(RobertaConfig(max_position_embeddings=514), 512)
    with pytest.raises(InvalidInput, match="the model's 512 positions, got 513"):
        fits_positions(RobertaConfig(max_position_embeddings=514), 513)


def test_columns_left_are_a_multiple_of_what_there_is(classifier_dir, data_dir, tmp_path):
    with pytest.raises(InvalidInput, match="--multiple-of must not exceed the 48 columns that there are, got 1000000"):
        invoke("prune", "--model", classifier_dir, "--data", data_dir, "--task", "sst2", "--out", tmp_path / "out", "--multiple-of", 10**6)  # fmt: skip


@pytest.mark.parametrize("module", ["neighbours", "served"])
def test_what_asks_a_server_names_the_libraries_that_it_lacks(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "httptools", None)
    for name in ("clients", "asked_server", module):
        monkeypatch.delitem(sys.modules, f"hf_albert_plus.eval.load.{name}", raising=False)
    with pytest.raises(InvalidInput, match=r"this needs httptools, got no such library .*hf-albert-plus\[serve\]"):
        importlib.import_module(f"hf_albert_plus.eval.load.{module}")
