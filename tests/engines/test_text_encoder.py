"""Vectors of texts through an engine, against a masked mean worked out by hand."""

import shutil

import numpy
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from hf_albert_plus.engines.text_encoder import TextEncoder
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from tests.support.kinds import TEXTS


@pytest.fixture(scope="module")
def exported(encoder_dir, tmp_path_factory):
    out = tmp_path_factory.mktemp("encoder") / "out"
    export(encoder_dir, to=["onnx", "openvino"], output=out, settings=ExportSettings(pooling="mean"))
    return out


def means(directory, texts):
    """Of the real tokens, text by text."""
    tokenizer, model = AutoTokenizer.from_pretrained(directory), AutoModel.from_pretrained(directory).eval()
    with torch.no_grad():
        states = [model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0] for text in texts]
    return torch.stack([one.mean(0) for one in states])


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnx", "openvino"])
def test_texts_come_back_in_their_order_whatever_shares_a_batch(exported, encoder_dir, runtime):
    encoder, expected = TextEncoder(exported, runtime, cores=2), means(encoder_dir, TEXTS)
    assert encoder.get_sentence_embedding_dimension() == expected.shape[1]
    for budget in (1, 12, 512):
        found = encoder.encode(TEXTS, token_budget=budget)
        assert isinstance(found, numpy.ndarray)
        numpy.testing.assert_allclose(found, expected.numpy(), atol=1e-4, rtol=0)


def test_it_answers_as_code_for_sentence_transformers_expects(exported, encoder_dir):
    encoder, expected = TextEncoder(exported, "onnx"), means(encoder_dir, TEXTS)
    alone = encoder.encode(TEXTS[0], convert_to_tensor=True)
    torch.testing.assert_close(alone, expected[0], atol=1e-4, rtol=0)
    found = encoder.encode(TEXTS, batch_size=2, show_progress_bar=False, convert_to_numpy=False)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    unit = expected / expected.square().sum(1, keepdim=True).sqrt()
    found = encoder.encode(TEXTS, normalize_embeddings=True, convert_to_tensor=True)
    torch.testing.assert_close(found, unit, atol=1e-4, rtol=0)
    cosines = encoder.similarity(encoder.encode_query(TEXTS[:2]), encoder.encode_document(TEXTS))
    torch.testing.assert_close(cosines, unit[:2] @ unit.T, atol=1e-4, rtol=0)
    assert encoder.encode([]).shape == (0, expected.shape[1])


def test_long_texts_are_cut(exported, encoder_dir):
    encoder = TextEncoder(exported, "onnx", max_length=8)
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    long = " ".join(TEXTS)
    kept = tokenizer.decode(tokenizer(long, truncation=True, max_length=8)["input_ids"], skip_special_tokens=True)
    assert len(tokenizer(long)["input_ids"]) > 8
    numpy.testing.assert_allclose(encoder.encode(long), means(encoder_dir, [kept])[0].numpy(), atol=1e-4, rtol=0)


@pytest.mark.slow
def test_texts_are_as_long_as_the_library_reads_them(encoder_dir, tmp_path):
    """What the source says stays in its export, and holds unless told otherwise."""
    source = tmp_path / "source"
    shutil.copytree(encoder_dir, source)
    (source / "sentence_bert_config.json").write_text('{"max_seq_length": 8, "do_lower_case": true}')
    export(source, to=["onnx"], output=tmp_path / "out", settings=ExportSettings(pooling="mean"))
    assert TextEncoder(tmp_path / "out", "onnx").max_seq_length == 8
    assert TextEncoder(tmp_path / "out", "onnx", max_length=64).max_seq_length == 64
    long = " ".join(TEXTS)
    expected = TextEncoder(tmp_path / "out", "onnx", max_length=8).encode(long)
    numpy.testing.assert_array_equal(TextEncoder(tmp_path / "out", "onnx").encode(long), expected)
    (tmp_path / "out" / "sentence_bert_config.json").write_text('{"max_seq_length": 512}')
    assert TextEncoder(tmp_path / "out", "onnx").max_seq_length == 64


def test_an_engine_without_vectors_is_refused(exported_dir, exported):
    with pytest.raises(
        InvalidInput, match="gives their vectors, got .*:onnx without sentence_embedding; .*--pooling mean"
    ):
        TextEncoder(exported_dir, "onnx")
    with pytest.raises(InvalidInput, match="from 1 to the 64 positions of .*, got 65"):
        TextEncoder(exported, "onnx", max_length=65)
