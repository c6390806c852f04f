"""What serves without torch, held against what transformers reads and computes."""

import json
import re
import shutil
import subprocess
import sys

import numpy
import pytest
from transformers import AutoTokenizer, BertTokenizerFast, DistilBertConfig

from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.artefacts import get_runtime
from hf_albert_plus.engines.classifier_config import answer_rule_of
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.plain_config import read_plain_config
from hf_albert_plus.engines.plain_onnx import open_plain
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.engines.text_tokens import read_plain_tokens
from hf_albert_plus.model_inputs import length_taken
from hf_albert_plus.tasks.rows import load_tokenizer

TEXTS = [
    "a good film", "", "   ", "Ünïcode, naïve CAFÉ", "电影很好", "emoji 🎬🎬 and\ttabs\nlines", "[SEP] [CLS] [MASK]", "x" * 300,
    ("one text", "another one"), ("", ""), ("long " * 60, "and " * 60), ("short", "long " * 100),
]  # fmt: skip


def test_a_config_says_the_same_without_transformers(exported_dir):
    plain, full = read_plain_config(exported_dir), load_config(exported_dir, option="it")
    assert answer_rule_of(plain) == answer_rule_of(full)
    assert length_taken(plain, exported_dir, max_length=None) == length_taken(full, exported_dir, max_length=None)
    for name in ("vocab_size", "type_vocab_size", "pad_token_id", "architectures", "model_type", "num_labels"):
        assert getattr(plain, name) == getattr(full, name)


@pytest.mark.parametrize(
    "fields",
    [
        {"vocab_size": None}, {"vocab_size": "8000"}, {"vocab_size": 0}, {"max_position_embeddings": True}, {"id2label": {"0": "a", "2": "b"}},
        {"id2label": {}}, {"id2label": None, "num_labels": "2"}, {"id2label": ["a"]}, {"id2label": {"0": 1}}, {"id2label": {"x": "a"}}, {"label2id": {"a": 1, "b": 0}},
        {"num_labels": 7, "id2label": {"0": "a", "1": "b"}}, {"problem_type": "none"}, {"architectures": None}, {"architectures": ["BertForMaskedLM"]}, {"architectures": ["AlbertPlusTwinModel"]}, {"architectures": 5}, {"architectures": {}}, {"pad_token_id": -1},
        {"pad_token_id": 10**9}, {"model_type": 5}, {"type_vocab_size": None},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_config_does_not_say_plainly_is_left_to_transformers(exported_dir, tmp_path, fields):
    content = json.loads((exported_dir / "config.json").read_text())
    content = {name: value for name, value in {**content, **fields}.items() if name not in fields or value is not None}
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert read_plain_config(tmp_path) is None


@pytest.mark.parametrize("head", ["Model", "ForSequenceClassification"])
def test_a_width_is_read_under_the_name_that_an_architecture_has_for_it(tmp_path, head):
    """DistilBERT calls it `dim`; of a classifier nobody asks."""
    DistilBertConfig(
        architectures=[f"DistilBert{head}"], dim=48, vocab_size=100, max_position_embeddings=32
    ).save_pretrained(tmp_path)
    plain = read_plain_config(tmp_path)
    assert plain.hidden_size == load_config(tmp_path, option="it").hidden_size == 48
    content = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({name: content[name] for name in content if name != "dim"}))
    assert (read_plain_config(tmp_path) is None) == (head == "Model")


def rows_of(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("longest", [8, 64])
def test_texts_have_the_tokens_that_transformers_gives_them(exported_dir, longest):
    config = load_config(exported_dir, option="it")
    tokens, tokenizer = read_plain_tokens(exported_dir, config, longest=longest), load_tokenizer(exported_dir, config)
    for text in TEXTS:
        columns = [[text]] if isinstance(text, str) else [[each] for each in text]
        (expected,) = rows_of(tokenizer(*columns))
        assert tokens.whole([text]) == [expected]
        assert tokens.cut([text]) == rows_of(tokenizer(*columns, truncation=True, max_length=longest))
    rows = tokens.cut(TEXTS)
    padded = tokens.padding.pad(rows, tokenizer.model_input_names)
    expected = tokenizer.pad(rows, return_tensors="np")
    for name, values in padded.items():
        numpy.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize("side", ["left", "right"])
def test_sides_of_padding_and_cutting_are_those_of_the_tokenizer(exported_dir, tmp_path, side):
    tokenizer = AutoTokenizer.from_pretrained(exported_dir, padding_side=side, truncation_side=side)
    tokenizer.save_pretrained(tmp_path)
    config = load_config(exported_dir, option="it")
    tokens = read_plain_tokens(tmp_path, config, longest=8)
    expected = AutoTokenizer.from_pretrained(tmp_path)
    assert tokens.padding.side == side
    for text in ("good " * 30, "no"):
        assert tokens.cut([text])[0]["input_ids"] == expected(text, truncation=True, max_length=8)["input_ids"]


def test_a_tokenizer_whose_files_disagree_is_left_to_transformers(exported_dir, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(exported_dir)
    BertTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer).save_pretrained(tmp_path)
    config, said = load_config(exported_dir, option="it"), tmp_path / "tokenizer_config.json"
    content = json.loads(said.read_text())
    normaliser = json.loads((tmp_path / "tokenizer.json").read_text())["normalizer"]
    said.write_text(json.dumps({**content, "do_lower_case": normaliser["lowercase"]}))
    assert read_plain_tokens(tmp_path, config, longest=8) is not None
    said.write_text(json.dumps({**content, "do_lower_case": not normaliser["lowercase"]}))
    assert read_plain_tokens(tmp_path, config, longest=8) is None


@pytest.mark.parametrize("runtime", ["onnx", "onnx-int8"])
def test_logits_are_those_of_the_whole_engine_bit_for_bit(exported_dir, runtime):
    plain = open_plain(exported_dir, get_runtime(runtime), threads=1)
    whole = Engine.load(exported_dir, runtime, threads=1)
    ids = numpy.arange(60).reshape(3, 20) % plain.config.vocab_size
    arrays = {"input_ids": ids, "attention_mask": numpy.ones_like(ids), "token_type_ids": numpy.zeros_like(ids)}
    arrays = {name: arrays[name] for name in plain.inputs}
    numpy.testing.assert_array_equal(plain.output("logits", arrays), whole.output("logits", arrays))
    assert plain.inputs == whole.inputs


WITHOUT = """
import sys
for name in ("torch", "transformers"):
    sys.modules[name] = None
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.serving import application, server, trial_process
trial_process.try_model(sys.argv[1], "onnx-int8", None)
classifier = TextClassifier(sys.argv[1], "onnx-int8", cores=1, max_length=None)
print(classifier.classify(["a good film", ("a", "b")]))
"""


def test_a_process_that_serves_needs_neither_torch_nor_transformers(exported_dir):
    done = subprocess.run([sys.executable, "-c", WITHOUT, exported_dir], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = TextClassifier(exported_dir, "onnx-int8", cores=1, max_length=None)
    assert done.stdout.strip() == str(found.classify(["a good film", ("a", "b")]))


ENCODES = """
import sys
for name in ("torch", "transformers"):
    sys.modules[name] = None
from hf_albert_plus.engines.text_encoder import TextEncoder
from hf_albert_plus.serving import application, trial_process
trial_process.try_model(sys.argv[1], "onnx-int8", None)
print(TextEncoder(sys.argv[1], "onnx-int8", cores=1).encode(["a good film"], normalize_embeddings=True).tolist())
"""


def test_an_encoder_needs_neither_as_well(vectors_dir):
    done = subprocess.run([sys.executable, "-c", ENCODES, vectors_dir], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = Engine.load(vectors_dir, "onnx-int8", threads=1)(
        **AutoTokenizer.from_pretrained(vectors_dir)("a good film", return_tensors="pt")
    )
    numpy.testing.assert_allclose(json.loads(done.stdout), expected.sentence_embedding.numpy(), atol=1e-5)


def test_what_an_export_compared_is_compared_again_only_where_it_is_another(exported_dir, tmp_path):
    from hf_albert_plus.serving.vouching import was_compared

    directory = tmp_path / "model"
    shutil.copytree(exported_dir, directory)
    runtime = get_runtime("onnx-int8")
    assert was_compared(directory, runtime)
    assert not was_compared(directory, get_runtime("torch"))
    for name in ("model.safetensors", "config.json", "onnx/model_int8.onnx"):
        content = (directory / name).read_bytes()
        (directory / name).write_bytes(content + b" ")
        assert not was_compared(directory, runtime)
        (directory / name).write_bytes(content)
    assert was_compared(directory, runtime)
    (directory / "record.json").unlink()
    assert not was_compared(directory, runtime)
    (directory / "model.safetensors").unlink()
    assert was_compared(directory, runtime)


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["record.json", "tokenizer_config.json", "onnx/model_int8.onnx"])
def test_what_needs_torch_says_so_where_there_is_none(exported_dir, tmp_path, harm):
    shutil.copytree(exported_dir, tmp_path / "model")
    (tmp_path / "model" / harm).unlink()
    runtime = "onnx-int8" if harm != "onnx/model_int8.onnx" else "torch"
    code = WITHOUT.replace("onnx-int8", runtime)
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "model"], capture_output=True, text=True)
    assert re.search(r"this needs (torch|transformers), got no such library .*install it: pip install", done.stderr), (
        done.stderr
    )
