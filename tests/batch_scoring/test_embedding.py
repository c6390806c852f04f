"""Vectors of the texts in files: which rows, in which order, what a stopped run goes on with, and what is refused."""

import json

import numpy
import pyarrow
import pyarrow.parquet as pq
import pytest
from transformers import AutoModel, AutoTokenizer

from hf_albert_plus.batch_scoring.distribution import WorkerPool
from hf_albert_plus.batch_scoring.embedding import embed
from hf_albert_plus.batch_scoring.settings import ScoreSettings
from hf_albert_plus.engines.text_encoder import TextEncoder
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.stage import export
from tests.support.command_line import invoke
from tests.support.kinds import TEXTS

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """One file of each kind, with a text that is too long and rows that are copied."""
    monkeypatch.chdir(tmp_path)
    long = " ".join(TEXTS * 3)
    pq.write_table(pyarrow.table({"text": [*TEXTS, long], "label": range(len(TEXTS) + 1)}), "a.parquet")
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": text, "label": "x"}) + "\n" for text in TEXTS[:2]))
    return [*TEXTS, long]


def vectors_of(folder):
    return numpy.array(pq.read_table(folder)["vector"].to_pylist(), dtype=numpy.float32)


def test_every_row_has_its_vector_in_the_order_of_the_files(vectors_dir, encoder_dir, files, tmp_path):
    """Against transformers' own model, a text at a time."""
    arguments = ["embed", "--input", "a.parquet", "--engine", f"{vectors_dir}:onnx", "--keep", "label", "--out", "out"]
    invoke(*arguments, "--part-rows", "2")
    table = pq.read_table("out/vectors")
    assert table.column_names == ["file", "row", "label", "vector", "tokens", "truncated"]
    assert table.schema.field("vector").type == pyarrow.list_(pyarrow.float32(), 32)
    assert table["row"].to_pylist() == table["label"].to_pylist() == list(range(len(files)))
    assert set(table["file"].to_pylist()) == {"a.parquet"}
    model, tokenizer = AutoModel.from_pretrained(encoder_dir).eval(), AutoTokenizer.from_pretrained(encoder_dir)
    for text, found in zip(files, vectors_of("out/vectors"), strict=True):
        encoded = tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
        mean = model(**encoded).last_hidden_state[0].detach().mean(0).numpy()
        numpy.testing.assert_allclose(found, mean / numpy.linalg.norm(mean), atol=1e-4)
    assert table["truncated"].to_pylist() == [False] * len(TEXTS) + [True]
    assert table["tokens"].to_pylist()[-1] == 64
    result = json.loads((tmp_path / "out" / "record.json").read_text())["result"]
    assert {name: result[name] for name in result if name != "sentences_per_s"} == {
        "rows": len(files),
        "tokens": sum(table["tokens"].to_pylist()),
        "truncated": 1,
        "files": 1,
        "parts": -(-len(files) // 2),
        "rows_of_this_run": len(files),
        "dimension": 32,
    }
    parts = sorted((tmp_path / "out" / "vectors").iterdir())
    written = [part.stat().st_mtime_ns for part in parts]
    invoke(*arguments, "--part-rows", "2")
    assert [part.stat().st_mtime_ns for part in parts] == written


def test_several_files_and_kinds(vectors_dir, files):
    invoke("embed", "--input", "a.parquet", "--input", "b.jsonl", "--engine", f"{vectors_dir}:onnx", "--out", "out")
    table = pq.read_table("out/vectors")
    assert table["file"].to_pylist() == ["a.parquet"] * len(files) + ["b.jsonl"] * 2
    found = vectors_of("out/vectors")
    numpy.testing.assert_allclose(found[-2:], found[:2], atol=1e-5)


def test_a_sentence_encoder_in_torch_gives_the_vectors_of_its_graph(vectors_dir, files):
    invoke("embed", "--input", "a.parquet", "--engine", f"{vectors_dir}:torch", "--out", "out")
    graph = TextEncoder(vectors_dir, "onnx")
    numpy.testing.assert_allclose(vectors_of("out/vectors"), graph.encode(files), atol=1e-4)


def test_a_stopped_run_goes_on_with_what_is_missing(vectors_dir, files, tmp_path):
    settings = {"engine": vectors_dir, "runtime": "onnx", "settings": ScoreSettings(part_rows=2), "pool": WorkerPool()}
    embed(["a.parquet"], output=tmp_path / "out", **settings)
    whole, parts = vectors_of("out/vectors"), sorted((tmp_path / "out" / "vectors").iterdir())
    (tmp_path / "out" / "record.json").unlink()
    gone, kept = pq.read_metadata(parts[0]).num_rows, parts[1].stat().st_mtime_ns
    parts[0].unlink()
    record = embed(["a.parquet"], output=tmp_path / "out", **settings)
    assert (record.stage, record.result["rows_of_this_run"], record.result["rows"]) == ("embed", gone, len(files))
    assert parts[1].stat().st_mtime_ns == kept
    numpy.testing.assert_array_equal(vectors_of("out/vectors"), whole)
    settings["settings"] = ScoreSettings(part_rows=2, token_budget=64)
    with pytest.raises(InvalidInput, match="settings.token_budget 512 there, 64 asked for"):
        embed(["a.parquet"], output=tmp_path / "out", **settings)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--keep", "label=vector"], "--keep must not give two columns of the output one name, got 'vector'"),
        (["--keep", "label=row"], "--keep must not give two columns of the output one name, got 'row'"),
        (["--text-column", "label"], "the column 'label' of a.parquet must hold text, got int64"),
        (["--max-length", "65"], "--max-length must be from 1 to the 64 positions of .*, got 65"),
    ],
)
def test_what_cannot_be_embedded_is_refused_before_anything_is_written(vectors_dir, files, tmp_path, arguments, rule):
    with pytest.raises(InvalidInput, match=rule):
        invoke("embed", "--input", "a.parquet", "--engine", f"{vectors_dir}:onnx", "--out", "out", *arguments)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("asked", [{"pair_column": "label"}, {"logits": True}])
def test_what_only_a_classifier_does_is_refused(vectors_dir, files, tmp_path, asked):
    with pytest.raises(InvalidInput, match="is for classifiers of texts, got an encoder, which gives vectors"):
        embed(
            ["a.parquet"],
            engine=vectors_dir,
            output=tmp_path / "out",
            settings=ScoreSettings(**asked),
            pool=WorkerPool(),
        )


@pytest.mark.slow
def test_models_without_vectors_are_refused(exported_dir, encoder_dir, files, tmp_path):
    """A classifier, an encoder in torch whose files say nothing of pooling, and its graph without vectors."""
    export(encoder_dir, to=["onnx"], output=tmp_path / "plain")
    for engine in (f"{exported_dir}:onnx", f"{encoder_dir}:torch", "plain:onnx"):
        with pytest.raises(InvalidInput, match="gives their vectors, got .* without sentence_embedding; .*--pooling"):
            invoke("embed", "--input", "a.parquet", "--engine", engine, "--out", "out")
    assert not (tmp_path / "out").exists()
