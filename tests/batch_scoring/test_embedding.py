"""Vectors of the texts in files: which rows, in which order, and what is refused."""

import json

import numpy
import pyarrow
import pyarrow.parquet as pq
import pytest

from hf_albert_plus.engines.text_encoder import TextEncoder
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from tests.support.command_line import invoke
from tests.support.kinds import TEXTS


@pytest.fixture(scope="module")
def exported(encoder_dir, tmp_path_factory):
    out = tmp_path_factory.mktemp("embedding") / "out"
    export(encoder_dir, to=["onnx"], output=out, settings=ExportSettings(pooling="mean", normalize=True))
    return out


@pytest.fixture
def files(tmp_path, monkeypatch):
    """One file of each kind, with a text that is too long and rows that are copied."""
    monkeypatch.chdir(tmp_path)
    long = " ".join(TEXTS * 3)
    pq.write_table(pyarrow.table({"text": [*TEXTS, long], "id": range(len(TEXTS) + 1)}), "a.parquet")
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": text, "id": "x"}) + "\n" for text in TEXTS[:2]))
    return [*TEXTS, long]


def test_every_row_has_its_vector_in_the_order_of_the_files(exported, files, tmp_path):
    arguments = ["embed", "--input", "a.parquet", "--engine", f"{exported}:onnx", "--keep", "id=number", "--out", "out"]
    invoke(*arguments)
    table = pq.read_table("out/vectors.parquet")
    assert table.column_names == ["file", "row", "number", "vector", "tokens", "truncated"]
    assert table["row"].to_pylist() == table["number"].to_pylist() == list(range(len(files)))
    assert set(table["file"].to_pylist()) == {"a.parquet"}
    encoder = TextEncoder(exported, "onnx")
    found = numpy.array(table["vector"].to_pylist(), dtype=numpy.float32)
    alone = numpy.stack([encoder.encode(text) for text in files])
    numpy.testing.assert_allclose(found, alone, atol=1e-5, rtol=0)
    numpy.testing.assert_allclose(numpy.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert table["truncated"].to_pylist() == [False] * len(TEXTS) + [True]
    assert table["tokens"].to_pylist()[-1] == encoder.max_seq_length
    result = json.loads((tmp_path / "out" / "record.json").read_text())["result"]
    assert result == {
        "rows": len(files),
        "tokens": sum(table["tokens"].to_pylist()),
        "truncated": 1,
        "files": 1,
        "dimension": found.shape[1],
    }
    written = (tmp_path / "out" / "vectors.parquet").stat().st_mtime_ns
    invoke(*arguments)
    assert (tmp_path / "out" / "vectors.parquet").stat().st_mtime_ns == written


def test_several_files_and_kinds(exported, files):
    invoke("embed", "--input", "a.parquet", "--input", "b.jsonl", "--engine", f"{exported}:onnx", "--out", "out")
    table = pq.read_table("out/vectors.parquet")
    assert table["file"].to_pylist() == ["a.parquet"] * len(files) + ["b.jsonl"] * 2
    first = table["vector"].to_pylist()
    numpy.testing.assert_allclose(first[-2:], first[:2], atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--keep", "id=vector"], "--keep must not give two columns of the output one name, got 'vector'"),
        (["--text-column", "id"], "the column 'id' of a.parquet must hold text, got int64"),
        (["--max-length", "65"], "--max-length must be from 1 to the 64 positions of .*, got 65"),
    ],
)
def test_what_cannot_be_embedded_is_refused_before_anything_is_written(exported, files, tmp_path, arguments, rule):
    with pytest.raises(InvalidInput, match=rule):
        invoke("embed", "--input", "a.parquet", "--engine", f"{exported}:onnx", "--out", "out", *arguments)
    assert not (tmp_path / "out").exists()


def test_a_classifier_is_refused(exported_dir, files):
    with pytest.raises(InvalidInput, match="texts are encoded by a graph that gives their vectors"):
        invoke("embed", "--input", "a.parquet", "--engine", f"{exported_dir}:onnx", "--out", "out")
