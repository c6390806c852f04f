"""What cannot be scored is refused: rows, files, settings and models, each with the rule, the value and the repair."""

import json
import shlex
import subprocess
import sys

import pyarrow
import pyarrow.parquet as pq
import pytest

from hf_albert_plus.errors import InvalidInput
from tests.batch_scoring.files import write
from tests.support.taggers import make_tagger

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_a_bad_row_stops_the_run_and_what_is_done_stays(run, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "good"}\n{"text": "bad"}\n{"text": 5}\n{"text": "good"}\n')
    with pytest.raises(InvalidInput, match="'text' must be text in line 3 of in.jsonl, got int"):
        run("in.jsonl", part_rows=1)
    assert len(list((tmp_path / "out" / "scores").iterdir())) == 2
    assert not (tmp_path / "out" / "record.json").exists()
    (tmp_path / "in.jsonl").write_text('{"text": "good"}\n{"text": "bad"}\n{"text": "5"}\n{"text": "good"}\n')
    assert run("in.jsonl", part_rows=1).result["rows"] == 4


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("in.jsonl", b'{"text": "good"}\n{"text": null}', ["line 2 of in.jsonl", "null"]),
        ("in.jsonl", b'{"text": "good"}\n{"text": ', ["line 2 of in.jsonl must be a JSON object", "Expecting value"]),
        ("in.jsonl", b'["good"]', ["line 1 of in.jsonl must be a JSON object", "list"]),
        ("in.jsonl", b"[" * 100_000, ["line 1 of in.jsonl must be a JSON object", "recursion"]),
        ("in.jsonl", b'{"text": "good"}\n\n{"words": "good"}', ["line 3 of in.jsonl must have 'text'", "only words"]),
        ("in.jsonl", b'{"text": "\\ud800"}', ["line 1 of in.jsonl", "surrogate"]),
        ("in.jsonl", b'{"text": "good", "id": ["\\udc00"]}', ["'id' must be text in line 1 of in.jsonl", "surrogate"]),
        ("in.json", b'{"text": "sch\xf6n"}', ["line 1 of in.json must be UTF-8", "0xf6", "iconv"]),
        ("in.txt", b"good\nbad\nsch\xf6n", ["line 3 of in.txt must be UTF-8", "0xf6", "iconv"]),
        ("in.txt", b"good\n" + b"a" * 5_000_000 + b"\xf6", ["line 2 of in.txt must be UTF-8"]),
        ("in.parquet", b"PAR1 no PAR1", ["--input *.parquet must be Parquet", "in.parquet"]),
        ("in.parquet", {"text": ["good", None]}, ["row 1 (from 0) of in.parquet", "null"]),
        ("in.parquet", {"text": [1, 2]}, ["'text' of in.parquet must hold text", "int64"]),
        ("in.parquet", {"words": ["good"]}, ["--text-column must be a column of in.parquet", "'text'", "use one of words"]),
        ("in.csv", b"good", ["must end in .parquet", "in.csv"]),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(run, tmp_path, name, content, words):
    if isinstance(content, dict):
        pq.write_table(pyarrow.table(content), tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    keep = ("id",) if b'"id"' in content else ()
    with pytest.raises(InvalidInput) as refused:
        run(name, keep=keep)
    for word in words:
        assert word in str(refused.value)


def test_a_csv_is_refused_with_a_command_that_converts_it(run, tmp_path):
    path = tmp_path / "my file.csv"
    path.write_text('text;id\n"a film; to see\ntwice";7\nboring;8\n')
    with pytest.raises(InvalidInput, match="must end in .parquet") as refused:
        run(str(path))
    command = str(refused.value).rpartition("write it as lines of JSON: ")[2]
    assert command.startswith("python -c ")
    subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True, timeout=120)
    written = path.with_suffix(".jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == [
        {"text": "a film; to see\ntwice", "id": 7},
        {"text": "boring", "id": 8},
    ]


@pytest.mark.parametrize(
    ("inputs", "settings", "words"),
    [
        (["no*.txt"], {}, ["--input must match a file", "'no*.txt'"]),
        (["."], {}, ["which is a folder", "./*.parquet"]),
        ([], {}, ["--input must name at least one file"]),
        (["in.txt"], {"runtime": "onx"}, ["'onx'", "did you mean 'onnx'"]),
        (["in.txt"], {"runtime": "openvino"}, ["openvino/openvino_model.xml", "albert-plus export"]),
        (["in.txt"], {"max_length": 65}, ["--max-length must be from 1 to the 64 positions", "use --max-length 64"]),
        (["in.txt"], {"max_length": 3}, ["--max-length must be at least 4"]),
        (["in.txt"], {"part_rows": 0}, ["--part-rows must be at least 1"]),
        (["in.txt"], {"token_budget": 0}, ["--token-budget must be at least 1"]),
        (["in.txt"], {"keep": ("label",)}, ["'label'", "--keep label=OTHER"]),
        (["in.txt"], {"keep": ("logits",)}, ["'logits'", "--keep logits=OTHER"]),
        (["in.txt"], {"keep": ("text", "other=text")}, ["'text'", "--keep other=OTHER"]),
        (["in.txt"], {"keep": ("other",)}, ["in.txt has one column", "--keep other"]),
        (["in.txt"], {"pair_column": "other"}, ["in.txt has one column", "--text-pair-column other"]),
        (["in.txt", "in.parquet"], {"keep": ("text", "idx")}, ["in.txt has one column", "--keep idx"]),
        (["in.jsonl", "in.parquet"], {"keep": ("idx",)}, ["idx is string in in.jsonl", "int64 in in.parquet"]),
        (["in.parquet"], {"text_column": "txet"}, ["'txet'", "did you mean 'text'"]),
        (["in.txt"], {"output": "."}, ["--output must hold none of the inputs", "in.txt"]),
        (["in.txt"], {"output": "other"}, ["--output must be new, empty, or begun by this command"]),
    ],
)  # fmt: skip
def test_what_is_asked_wrongly_is_refused_with_nothing_written(run, tmp_path, inputs, settings, words):
    write(tmp_path / "in.txt", ["good"])
    write(tmp_path / "in.jsonl", ["good"])
    pq.write_table(pyarrow.table({"text": ["good"], "idx": [1]}), tmp_path / "in.parquet")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.md").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInput) as refused:
        run(*inputs, **settings)
    for word in words:
        assert word in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_only_classifiers_score(run, encoder_dir, tmp_path):
    write(tmp_path / "in.txt", ["good"])
    with pytest.raises(
        InvalidInput,
        match="texts are classified by sequence classifiers, their words by token classifiers, and questions answered by models of spans, got BertModel",
    ):
        run("in.txt", engine=encoder_dir, runtime="torch")


def test_a_folder_of_models_is_not_one(run, exported_dir, tmp_path):
    write(tmp_path / "in.txt", ["good"])
    with pytest.raises(
        InvalidInput, match=r"--engine must be one model, got .* which holds 1; use --engine .*model:onnx"
    ):
        run("in.txt", engine=exported_dir.parent)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"logits": True}, "--logits is for classifiers of texts"),
        ({"keep": ("text=tags",)}, "got 'tags'; call it otherwise: --keep text=OTHER"),
    ],
)
def test_what_a_tagger_cannot_write_is_refused(tokenizer_dir, run, tmp_path, settings, said):
    make_tagger(tmp_path / "tagger", tokenizer_dir)
    write(tmp_path / "in.jsonl", ["a"])
    with pytest.raises(InvalidInput, match=said):
        run("in.jsonl", engine=tmp_path / "tagger", runtime="torch", **settings)
