"""Graphs that are opened by their file names, as optimum's classes do."""

import shutil

import pytest
import torch
from transformers import AutoTokenizer, pipeline

from hf_albert_plus.engines import engine as engines
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput
from tests.support.kinds import TEXTS


def answers(engine, directory):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    return pipeline("text-classification", model=engine, tokenizer=tokenizer, device="cpu")(TEXTS)


@pytest.mark.parametrize(
    ("file_name", "runtime"),
    [
        (None, "onnx"),
        ("model.onnx", "onnx"),
        ("model_int8.onnx", "onnx-int8"),
        ("onnx/model_int8.onnx", "onnx-int8"),
    ],
)
def test_a_file_name_opens_its_runtime(exported_dir, file_name, runtime):
    opened = Engine.from_pretrained(exported_dir, file_name=file_name, threads=1)
    assert (opened.runtime.name, opened.file.parent.name) == (runtime, "onnx")
    assert answers(opened, exported_dir) == answers(Engine.load(exported_dir, runtime, threads=1), exported_dir)


def test_what_the_graph_needs_comes_from_the_hub(exported_dir, tmp_path, monkeypatch):
    def fetched(source, name):
        assert source == "user/student"
        if not (exported_dir / name).is_file():
            return None
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        return shutil.copyfile(exported_dir / name, tmp_path / name)

    monkeypatch.setattr(engines, "optional_file", fetched)
    opened = Engine.from_pretrained("user/student", file_name="model_int8.onnx")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "config.json",
        "record.json",
        "model_int8.onnx",
    }
    inputs = AutoTokenizer.from_pretrained(exported_dir)(TEXTS, padding=True, return_tensors="pt")
    torch.testing.assert_close(opened(**inputs).logits, Engine.load(exported_dir, "onnx-int8")(**inputs).logits)


def test_names_that_open_nothing(exported_dir):
    with pytest.raises(InvalidInput, match="one that an export has, got 'model_quantized.onnx'; "):
        Engine.from_pretrained(exported_dir, file_name="model_quantized.onnx")
    with pytest.raises(InvalidInput, match="needs .*openvino_model.xml, got no such file; make it: albert-plus export"):
        Engine.from_pretrained(exported_dir, file_name="openvino_model.xml")
    with pytest.raises(InvalidInput, match="in a model directory or on the Hub, got nobody/nothing"):
        Engine.from_pretrained("nobody/nothing")
