"""The folder for transformers.js: its files, what its config and its tokenizer say, and what is refused. `test_browser` opens it."""

import json

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertConfig

from hf_albert_plus.engines.artefacts import ARTEFACTS
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export import web_folder
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from hf_albert_plus.export.wanted import wanted_artefacts
from hf_albert_plus.export.web_folder import check_web, write_web_folder
from hf_albert_plus.heads import albert_plus_class
from tests.support.kinds import PAIR, TEXTS, make_classifier
from tests.support.small_models import small_config


def json_of(path):
    return json.loads(path.read_text(encoding="utf-8"))


def written(directory, model, tokenizer, *, graphs=("onnx",)):
    """The folder of a model, with a few bytes for each graph."""
    artefacts = [ARTEFACTS[name] for name in graphs]
    for artefact in artefacts:
        (directory / artefact.file).parent.mkdir(parents=True, exist_ok=True)
        (directory / artefact.file).write_bytes(artefact.name.encode())
    facts = write_web_folder(directory, model, tokenizer, artefacts=artefacts)
    return directory / "web", facts


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir):
    return AutoTokenizer.from_pretrained(tokenizer_dir)


def model_of(tokenizer, *, head="ForSequenceClassification", **fields):
    model = albert_plus_class(head)(small_config(vocab_size=len(tokenizer), num_hidden_layers=1, **fields))
    model.config.architectures = [type(model).__name__]
    return model


@pytest.mark.slow
def test_an_export_holds_the_folder_and_nothing_else_in_it(classifier_dir, tmp_path):
    record = export(classifier_dir, to=["onnx", "onnx-int8", "web"], output=tmp_path / "out")
    folder = tmp_path / "out" / "web"
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    graphs = {"onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_int8.onnx"}
    assert files == {"config.json", "tokenizer.json", "tokenizer_config.json", *graphs}
    assert record.result["exports"]["web"] == {
        "models": {
            "q8": "web/onnx/model_quantized.onnx",
            "int8": "web/onnx/model_int8.onnx",
            "fp32": "web/onnx/model.onnx",
        },
        "default": "q8",
    }
    for name, source in (("model", "model"), ("model_quantized", "model_int8"), ("model_int8", "model_int8")):
        assert (folder / "onnx" / f"{name}.onnx").samefile(tmp_path / "out" / "onnx" / f"{source}.onnx")


def test_every_dtype_lies_where_transformers_js_looks(tokenizer, tmp_path):
    folder, facts = written(
        tmp_path, model_of(tokenizer), tokenizer, graphs=("onnx", "onnx-fp16", "onnx-int8", "onnx-nbits", "onnx-qdq")
    )
    found = {path.name: path.read_text() for path in (folder / "onnx").iterdir()}
    assert found == {
        "model.onnx": "onnx",
        "model_fp16.onnx": "onnx-fp16",
        "model_int8.onnx": "onnx-int8",
        "model_quantized.onnx": "onnx-int8",
        "model_q4.onnx": "onnx-nbits",
    }
    assert facts.default == "q8"


@pytest.mark.parametrize(("graph", "dtype"), [("onnx", "fp32"), ("onnx-fp16", "fp16"), ("onnx-nbits", "q4")])
def test_a_page_that_names_no_dtype_gets_one_that_is_there(tokenizer, tmp_path, graph, dtype):
    folder, _ = written(tmp_path, model_of(tokenizer), tokenizer, graphs=(graph,))
    assert json_of(folder / "config.json")["transformers.js_config"] == {"dtype": dtype}


def test_where_there_are_no_hard_links_graphs_are_copied(tokenizer, tmp_path, monkeypatch):
    def refuse(source, target):
        raise PermissionError("no links here")

    monkeypatch.setattr(web_folder.os, "link", refuse)
    folder, _ = written(tmp_path, model_of(tokenizer), tokenizer)
    assert (folder / "onnx" / "model.onnx").read_bytes() == b"onnx"
    assert not (folder / "onnx" / "model.onnx").samefile(tmp_path / "onnx" / "model.onnx")


@pytest.mark.parametrize(
    "head", ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
)
def test_the_config_is_of_a_type_that_transformers_js_knows(tokenizer, tmp_path, head):
    labels = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}}
    several = {"problem_type": "multi_label_classification", "label_thresholds": [0.25, 0.5]}
    folder, _ = written(tmp_path, model_of(tokenizer, head=head, **labels, **several), tokenizer)
    config = json_of(folder / "config.json")
    assert config["model_type"] == "bert"
    assert config["architectures"] == [f"Bert{head}"]
    assert config["id2label"] == {"0": "no", "1": "yes"}
    assert (config["problem_type"], config["label_thresholds"]) == ("multi_label_classification", [0.25, 0.5])
    assert BertConfig.from_pretrained(folder).max_position_embeddings == 64


def test_the_tokenizer_gives_the_ids_of_the_models_own(tokenizer, tmp_path):
    folder, _ = written(tmp_path, model_of(tokenizer), tokenizer)
    plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert plain.padding is None
    assert plain.truncation is None
    for text in (*TEXTS, "Unseen Wörds, 42!"):
        assert plain.encode(text).ids == tokenizer(text)["input_ids"]
    pair = tokenizer(*PAIR, return_token_type_ids=True)
    assert plain.encode(*PAIR).ids == pair["input_ids"]
    assert plain.encode(*PAIR).type_ids == pair["token_type_ids"]


@pytest.mark.parametrize(
    ("types", "name"), [(2, "BertTokenizer"), (1, "PreTrainedTokenizer"), (0, "PreTrainedTokenizer")]
)
def test_token_types_are_given_to_models_that_read_them(tokenizer, tmp_path, types, name):
    """A pair without them would be one text to transformers.js: it fills in zeros, and says nothing."""
    folder, _ = written(tmp_path, model_of(tokenizer, type_vocab_size=types), tokenizer)
    said = json_of(folder / "tokenizer_config.json")
    assert said["tokenizer_class"] == name
    assert said["model_max_length"] == 64
    assert (said["pad_token"], said["cls_token"], said["sep_token"]) == ("[PAD]", "[CLS]", "[SEP]")


def test_alone_it_brings_the_graph_that_browsers_ask_for(classifier_dir):
    def names(*to):
        return [artefact.name for artefact in wanted_artefacts(list(to), ExportSettings(), classifier_dir)]

    assert names("web") == ["onnx-int8", "web"]
    assert names("web", "onnx") == ["onnx", "web"]
    assert names("web", "openvino") == ["onnx-int8", "openvino", "web"]


def test_other_heads_are_refused_before_anything_is_computed(tokenizer, tokenizer_dir, tmp_path):
    model = model_of(tokenizer, head="ForMultipleChoice")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(InvalidInput, match="ForQuestionAnswering, got AlbertPlusForMultipleChoice;"):
        export(tmp_path / "model", to=["web"], output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_without_a_tokenizer_is_refused(tokenizer, tmp_path):
    model_of(tokenizer).save_pretrained(tmp_path / "model")
    with pytest.raises(InvalidInput, match="writes the tokenizer beside the graphs, got none in"):
        check_web(tmp_path / "model")


def test_a_vocabulary_that_transformers_js_does_not_read_is_refused(tokenizer_dir, tmp_path):
    make_classifier(tmp_path / "model", tokenizer_dir)
    file = tmp_path / "model" / "tokenizer.json"
    content = json_of(file)
    words = {"type": "WordLevel", "vocab": content["model"]["vocab"], "unk_token": "[UNK]"}
    file.write_text(json.dumps({**content, "model": words}))
    with pytest.raises(InvalidInput, match="of the kind WordPiece, Unigram or BPE, got WordLevel in"):
        check_web(tmp_path / "model")
