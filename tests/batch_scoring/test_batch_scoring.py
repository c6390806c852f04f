"""Batch scoring in this process: what is planned, read, scored and written. `test_batch_scoring_cluster` has Ray, and what dies."""

import json
import os
import re
import shlex
import subprocess
import sys

import numpy
import pyarrow
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hf_albert_plus.batch_scoring import line_rows, parquet_rows, stage
from hf_albert_plus.batch_scoring import line_rows as lines
from hf_albert_plus.batch_scoring import worker as reading
from hf_albert_plus.batch_scoring.distribution import WorkerPool
from hf_albert_plus.batch_scoring.settings import ScoreSettings
from hf_albert_plus.batch_scoring.stage import score
from hf_albert_plus.cli.app import app
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.records.outputs import OutputLock
from tests.support import kinds, taggers
from tests.support.command_line import invoke
from tests.support.kinds import KINDS, make_classifier
from tests.support.taggers import make_tagger

pytestmark = pytest.mark.usefixtures("in_this_process")

WORDS = ["a", "good", "film", "with", "bad", "plot", "and", "the", "cast", "is", "not", "great", "at", "all"]
TEXTS = [" ".join(WORDS[start : start + length]) for start in range(7) for length in range(7)]
# What other readers take for ends of lines.
ODD = [
    "",
    "good\u2028bad",
    "good\u2029bad",
    "good\x85bad",
    "good\x0bbad\x0cgood",
    "good\rbad",
    " ",
    "gut, schön, 好 🎬",
    "",
]


@pytest.fixture
def run(exported_dir, tmp_path, monkeypatch):
    """Scores files of the working directory into `out`."""
    monkeypatch.chdir(tmp_path)

    def run(*inputs, engine=exported_dir, runtime="onnx", output="out", **settings):
        settings = ScoreSettings(**settings)
        return score(
            inputs, engine=engine, runtime=runtime, output=tmp_path / output, settings=settings, pool=WorkerPool()
        )

    return run


@pytest.fixture(scope="module")
def expected(classifier_dir):
    """Probabilities as transformers computes them, a text at a time."""
    model = AutoModelForSequenceClassification.from_pretrained(classifier_dir).eval()
    tokenizer = AutoTokenizer.from_pretrained(classifier_dir)

    def expected(*texts):
        with torch.no_grad():
            encoded = tokenizer(
                *([text] for text in texts),
                truncation=True,
                max_length=64,
                return_token_type_ids=True,
                return_tensors="pt",
            )
            return model(**encoded).logits.softmax(-1)[0].numpy(), encoded["input_ids"].shape[1]

    return expected


def rows_of(directory):
    return pq.read_table(directory / "out" / "scores").to_pylist()


def write(path, texts, **options):
    """Texts in the format that the file's name asks for."""
    if path.suffix == ".parquet":
        pq.write_table(pyarrow.table({"text": pyarrow.array(texts, pyarrow.string())}), path, **options)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), "utf-8")
    else:
        path.write_bytes("\n".join([*texts, ""]).encode())


def test_every_row_has_the_scores_that_transformers_gives_it(run, expected, tmp_path):
    pq.write_table(pyarrow.table({"sentence": TEXTS, "idx": range(len(TEXTS))}), tmp_path / "in.parquet")
    record = run("in.parquet", text_column="sentence", keep=("idx", "sentence=words"), part_rows=10)
    rows = rows_of(tmp_path)
    assert [row["idx"] for row in rows] == [row["row"] for row in rows] == list(range(len(TEXTS)))
    for row, text in zip(rows, TEXTS, strict=True):
        scores, tokens = expected(text)
        numpy.testing.assert_allclose(row["scores"], scores, atol=1e-5)
        assert (row["words"], row["file"], row["truncated"], row["tokens"]) == (text, "in.parquet", False, tokens)
        assert (row["label"], row["score"]) == (
            record.result["labels"][scores.argmax()],
            pytest.approx(scores.max(), abs=1e-5),
        )
    assert record.result["rows"] == len(TEXTS)
    assert record.result["tokens"] == sum(row["tokens"] for row in rows)
    assert record.result["sentences_per_s"] > 0
    assert json.loads((tmp_path / "out" / "record.json").read_text())["result"] == record.result


def test_pairs_are_read_together(run, expected, tmp_path):
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    lines = [json.dumps({"a": one, "b": other, "id": number}) for number, (one, other) in enumerate(pairs)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    run("in.jsonl", text_column="a", pair_column="b", keep=("id",), part_rows=9)
    rows = rows_of(tmp_path)
    assert [row["id"] for row in rows] == [str(number) for number in range(len(pairs))]
    for row, pair in zip(rows, pairs, strict=True):
        numpy.testing.assert_allclose(row["scores"], expected(*pair)[0], atol=1e-5)


@pytest.mark.parametrize("part_rows", [1, 7, 8192])
@pytest.mark.parametrize("name", ["in.parquet", "in.jsonl", "in.txt"])
def test_every_row_is_scored_once(run, tmp_path, name, part_rows):
    texts = [*TEXTS[:9], *(ODD if not name.endswith("txt") else [text for text in ODD if "\n" not in text]), "good"]
    write(tmp_path / name, texts)
    record = run(name, keep=("text=same",), part_rows=part_rows)
    rows = rows_of(tmp_path)
    assert [row["same"] for row in rows] == texts
    assert [row["row"] for row in rows] == list(range(len(texts)))
    assert record.result["parts"] == -(-len(texts) // part_rows)


@pytest.mark.parametrize("group", [1, 3, 20, 100])
@pytest.mark.parametrize("part_rows", [1, 6, 50])
def test_row_groups_of_any_size_make_parts_of_about_one(run, tmp_path, group, part_rows):
    texts = TEXTS[:45]
    write(tmp_path / "in.parquet", texts, row_group_size=group)
    run("in.parquet", keep=("text=same",), part_rows=part_rows)
    assert [row["same"] for row in rows_of(tmp_path)] == texts
    sizes = [pq.read_metadata(path).num_rows for path in sorted((tmp_path / "out" / "scores").iterdir())]
    assert max(sizes) <= part_rows
    assert min(sizes[:-1], default=part_rows) >= min(part_rows, group, 45) / 2


@pytest.mark.parametrize("part_bytes", [1, 40, 10_000])
def test_parts_are_bounded_in_bytes_too(run, tmp_path, part_bytes):
    for name in ("in.parquet", "in.jsonl", "in.txt"):
        write(tmp_path / name, TEXTS[:20])
    record = run("in.*", keep=("text=same",), part_bytes=part_bytes)
    assert [row["same"] for row in rows_of(tmp_path)] == TEXTS[:20] * 3
    assert (record.result["parts"] > 3) == (part_bytes < 10_000)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"good", ["good"]),
        (b"good\n", ["good"]),
        (b"good\n\n\nbad", ["good", "", "", "bad"]),
        (b"good\r\nbad\r\n\r\n", ["good", "bad", ""]),
        (b"\xef\xbb\xbfgood\n\xef\xbb\xbfbad", ["good", "\ufeffbad"]),
    ],
)
@pytest.mark.parametrize("part_rows", [1, 100])
def test_a_newline_and_nothing_else_ends_a_line(run, tmp_path, content, texts, part_rows):
    (tmp_path / "in.txt").write_bytes(content)
    assert run("in.txt", keep=("text=same",), part_rows=part_rows).result["rows"] == len(texts)
    if texts:
        assert [row["same"] for row in rows_of(tmp_path)] == texts


def test_lines_meet_at_the_edges_of_blocks(run, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_albert_plus.batch_scoring.ranges._BLOCK", 16)
    monkeypatch.setattr(lines, "_PIECE", 5)
    texts = [*TEXTS, *ODD]
    write(tmp_path / "in.txt", texts)
    run("in.txt", keep=("text=same",), part_rows=4)
    assert [row["same"] for row in rows_of(tmp_path)] == texts


def test_blank_lines_of_json_are_no_rows(run, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "good"}\n\n  \n{"text": "bad"}\n\n')
    assert run("in.jsonl", part_rows=2).result["rows"] == 2
    assert [row["row"] for row in rows_of(tmp_path)] == [0, 3]


def test_portions_are_bounded_and_lose_nothing(run, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_ROWS", 6)
    monkeypatch.setattr(reading, "_SIZE", 90)
    monkeypatch.setattr(parquet_rows, "_ROWS", 2)
    write(tmp_path / "in.parquet", TEXTS, row_group_size=11)
    run("in.parquet", keep=("text=same",))
    assert [row["same"] for row in rows_of(tmp_path)] == TEXTS
    (part,) = (tmp_path / "out" / "scores").iterdir()
    assert pq.read_metadata(part).num_row_groups > len(TEXTS) / 6


def test_long_texts_are_cut_and_say_so(run, expected, tmp_path):
    long = ["good " * 70, "a" * 5000, "good", "good " * 40_000]
    write(tmp_path / "in.txt", long)
    record = run("in.txt")
    rows = rows_of(tmp_path)
    assert [row["truncated"] for row in rows] == [True, True, False, True]
    assert record.result["truncated"] == 3
    assert record.result["tokens"] == sum(row["tokens"] for row in rows)
    assert max(row["tokens"] for row in rows) == 64
    for place in (0, 3):
        numpy.testing.assert_allclose(rows[place]["scores"], expected(long[place])[0], atol=1e-5)


def test_a_line_without_end_is_not_held_in_memory(tmp_path, monkeypatch, run):
    monkeypatch.setattr(lines, "_PIECE", 1 << 10)
    (tmp_path / "in.txt").write_bytes("é".encode() * 200_000 + b"\ngood")
    from hf_albert_plus.batch_scoring.plan import PlannedPart
    from hf_albert_plus.batch_scoring.ranges import RowRange
    from hf_albert_plus.batch_scoring.sources import source_of

    part = PlannedPart("part", source_of("in.txt"), RowRange(0, 400_005, 0, 2))
    first, second = lines.Lines(part, most=100)
    assert len(first[1]) < 2_000
    assert second == (1, "good")


def test_lines_that_are_needed_whole_have_a_bound(run, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_LONGEST", 30)
    (tmp_path / "in.jsonl").write_text('{"text": "good"}\n' + json.dumps({"text": "good " * 20}))
    with pytest.raises(InvalidInput, match="line 2 of in.jsonl must have at most 30 characters"):
        run("in.jsonl")


def test_kept_columns_keep_their_types(run, tmp_path):
    table = pyarrow.table(
        {
            "text": pyarrow.array(["good", "bad"]).dictionary_encode(),
            "label": [1, None],
            "more": [["x"], []],
            "name": pyarrow.array(["x", None], pyarrow.large_string()),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    run("in.parquet", keep=("label=gold", "more", "name"))
    found = pq.read_table(tmp_path / "out" / "scores")
    assert found.schema.field("gold").type == pyarrow.int64()
    assert found.select(["gold", "more", "name"]).to_pylist() == table.select(["label", "more", "name"]).rename_columns(["gold", "more", "name"]).to_pylist()  # fmt: skip
    assert "text" not in found.column_names


def test_lines_are_read_in_bounded_portions(run, tmp_path, monkeypatch):
    monkeypatch.setattr(line_rows, "_CHARACTERS", 30)
    monkeypatch.setattr(reading, "_SIZE", 1)
    write(tmp_path / "in.jsonl", TEXTS)
    run("in.jsonl", keep=("text=same",))
    assert [row["same"] for row in rows_of(tmp_path)] == TEXTS
    (part,) = (tmp_path / "out" / "scores").iterdir()
    assert pq.read_metadata(part).num_row_groups > 10


def test_kept_values_of_json_are_text(run, tmp_path):
    values = ["x", 7, None, [1, "ä"], True]
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps({"text": "good", "id": value}) for value in values))
    run("in.jsonl", keep=("id",))
    assert [row["id"] for row in rows_of(tmp_path)] == ["x", "7", None, '[1, "ä"]', "true"]


OF_KINDS = {
    "one of three": ["label", "score", "scores"],
    "several, own thresholds": ["labels", "label_scores", "scores"],
    "a number": ["score"],
    "numbers": ["scores"],
}


@pytest.mark.parametrize("kind", OF_KINDS)
@pytest.mark.parametrize("logits", [False, True])
def test_each_kind_has_its_columns(run, tokenizer_dir, tmp_path, kind, logits):
    model = make_classifier(tmp_path / "model", tokenizer_dir, **KINDS[kind])
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    texts = [*TEXTS[:9], *kinds.TEXTS]
    write(tmp_path / "in.jsonl", texts)
    record = run("in.jsonl", engine=tmp_path / "model", runtime="torch", logits=logits, part_rows=4)
    rows = rows_of(tmp_path)
    columns = ["file", "row", *OF_KINDS[kind], *(["logits"] if logits else []), "tokens", "truncated"]
    assert [list(row) for row in rows] == [columns] * len(texts)
    several = kind.startswith("several")
    assert record.result["thresholds"] == (kinds.THRESHOLDS if several else [])
    assert record.settings["logits"] == logits
    scores_of = {"one of three": lambda x: x.softmax(-1), "several, own thresholds": torch.sigmoid}.get(
        kind, lambda x: x
    )
    for row, text in zip(rows, texts, strict=True):
        with torch.no_grad():
            said = model(**tokenizer(text, return_tensors="pt")).logits[0]
        scores = scores_of(said).numpy()
        assert "scores" not in row or row["scores"] == pytest.approx(scores, abs=kinds.CLOSE)
        assert not logits or row["logits"] == pytest.approx(said.numpy(), abs=kinds.CLOSE)
        if several:
            given = sorted(
                (place for place in range(3) if scores[place] >= kinds.THRESHOLDS[place]),
                key=lambda place: -scores[place],
            )
            assert row["labels"] == [kinds.NAMES[place] for place in given]
            assert row["label_scores"] == pytest.approx([scores[place] for place in given], abs=kinds.CLOSE)
        elif "score" in row:
            assert row["score"] == pytest.approx(scores.max(), abs=kinds.CLOSE)
    if several:
        assert {0, 2} <= {len(row["labels"]) for row in rows}


def test_logits_are_the_engines_own(run, tmp_path, exported_dir):
    """To the last bit, a float32 list a row, in a run that was stopped and went on as well; and no scores change by them."""
    write(tmp_path / "in.txt", TEXTS)
    run("in.txt", logits=True, part_rows=10)
    (tmp_path / "out" / "record.json").unlink()
    sorted((tmp_path / "out" / "scores").iterdir())[1].unlink()
    assert run("in.txt", logits=True, part_rows=10).result["rows_of_this_run"] == 10
    found = pq.read_table(tmp_path / "out" / "scores")
    assert found.schema.field("logits").type == pyarrow.list_(pyarrow.float32())
    classifier = TextClassifier(exported_dir, "onnx", cores=1, max_length=None)
    logits = numpy.asarray(found["logits"].to_pylist(), dtype=numpy.float32)
    for first in range(0, len(TEXTS), 10):
        part = slice(first, first + 10)
        assert (logits[part] == classifier.answer(TEXTS[part]).values).all()
    run("in.txt", output="without", part_rows=10)
    without = pq.read_table(tmp_path / "without" / "scores")
    assert found.drop_columns(["logits"]).equals(without)
    with pytest.raises(InvalidInput, match="settings.logits True there, False asked for"):
        run("in.txt", part_rows=10)


def test_a_stopped_run_goes_on_with_what_is_missing(run, tmp_path):
    write(tmp_path / "in.txt", TEXTS)
    run("in.txt", keep=("text=same",), part_rows=10)
    parts = sorted((tmp_path / "out" / "scores").iterdir())
    (tmp_path / "out" / "record.json").unlink()
    parts[1].unlink()
    (tmp_path / "out" / "scores" / f".{parts[1].name}.0.tmp").write_bytes(b"half")
    before = {path.name: path.stat().st_mtime_ns for path in parts if path.exists()}
    record = run("in.txt", keep=("text=same",), part_rows=10)
    assert not record.reused
    assert (record.result["rows"], record.result["rows_of_this_run"]) == (len(TEXTS), 10)
    assert [row["same"] for row in rows_of(tmp_path)] == TEXTS
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "scores").iterdir()}
    assert before.items() <= after.items()
    assert set(after) == {path.name for path in parts}
    assert run("in.txt", keep=("text=same",), part_rows=10).reused


def test_a_run_that_is_killed_before_it_has_a_plan_can_be_given_again(run, tmp_path, monkeypatch):
    write(tmp_path / "in.txt", TEXTS)

    def killed(plan, path):
        path.with_name(f".{path.name}.tmp").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stage.Plan, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            run("in.txt")
    assert run("in.txt").result["rows"] == len(TEXTS)


def test_a_changed_file_is_scored_anew_and_no_other(run, tmp_path, capsys):
    write(tmp_path / "a.txt", TEXTS[:9])
    write(tmp_path / "b.txt", TEXTS[9:14])
    run("*.txt", keep=("text=same",), part_rows=3)
    write(tmp_path / "b.txt", ["bad", "good"])
    record = run("*.txt", keep=("text=same",), part_rows=3)
    assert record.result["rows_of_this_run"] == 2
    assert [row["same"] for row in rows_of(tmp_path)] == [*TEXTS[:9], "bad", "good"]
    assert "b.txt has changed: it is scored anew" in capsys.readouterr().out


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
    ("change", "words"),
    [
        ({"max_length": 32}, ["settings.max_length 64 there, 32 asked for"]),
        ({"runtime": "onnx-int8"}, ["settings.runtime onnx there, onnx-int8 asked for"]),
        ({"inputs": ["a.txt"]}, ["2 inputs there, 1 asked for: b.txt"]),
        ({"inputs": ["b.txt", "a.txt"]}, ["2 inputs there, 2 asked for: in another order"]),
    ],
)
def test_a_run_goes_on_only_with_what_it_was_begun_with(run, tmp_path, change, words):
    write(tmp_path / "a.txt", ["good"])
    write(tmp_path / "b.txt", ["bad"])
    run("*.txt")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}
    settings = {"inputs": ["*.txt"], **change}
    with pytest.raises(InvalidInput) as refused:
        run(*settings.pop("inputs"), **settings)
    for word in (*words, "choose another --output"):
        assert word in str(refused.value)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")} == before


def test_another_model_under_the_same_name_is_another_engine(run, exported_dir, tmp_path):
    import shutil

    engine = shutil.copytree(exported_dir, tmp_path / "engine")
    (engine / "record.json").unlink()  # with it, an engine that was changed is refused whatever it scored
    write(tmp_path / "in.txt", ["good"])
    run("in.txt", engine=engine)
    (engine / "config.json").write_text((engine / "config.json").read_text() + "\n")
    with pytest.raises(InvalidInput, match=r"engine.sha256 \w+ there, \w+ asked for"):
        run("in.txt", engine=engine)


def test_two_runs_do_not_write_one_directory(run, tmp_path):
    write(tmp_path / "in.txt", ["good"])
    with (
        OutputLock(tmp_path / "out", option="--output"),
        pytest.raises(StageConflict, match="another process is writing"),
    ):
        run("in.txt")
    assert run("in.txt").result["rows"] == 1


def test_a_file_that_is_named_twice_is_scored_once(run, tmp_path):
    write(tmp_path / "in[1].txt", ["good", "bad"])
    assert run("in[1].txt", "*.txt", str(tmp_path / "in[1].txt")).result["rows"] == 2


def test_a_file_that_changes_meanwhile_is_told(run, tmp_path, monkeypatch):
    write(tmp_path / "in.txt", TEXTS)
    read = reading._READERS["lines of text"]

    def change(part, wanted):
        os.utime("in.txt", ns=(1, 1))
        yield from read(part, wanted)

    monkeypatch.setitem(reading._READERS, "lines of text", change)
    with pytest.raises(InvalidInput, match="an input must stay as it is while it is scored, got .* of in.txt"):
        run("in.txt")
    assert list((tmp_path / "out" / "scores").iterdir()) == []


@pytest.mark.parametrize("dead", [2, 8])
def test_a_part_that_kills_its_workers_is_tried_again_and_given_up_in_the_end(run, tmp_path, monkeypatch, dead):
    write(tmp_path / "in.txt", TEXTS)
    score_here = stage.score_parts

    def score_parts(parts, job, pool):
        """Workers that died left their halves."""
        parts = list(parts)
        for number in range(dead):
            (tmp_path / "out" / "scores" / f".{parts[1].name}.{number}.tmp").write_bytes(b"half")
        return score_here(iter(parts), job, pool)

    monkeypatch.setattr(stage, "score_parts", score_parts)
    if dead == 8:
        with pytest.raises(InvalidInput, match="a worker must live through rows 20 to 39 of in.txt, got 8 that died"):
            run("in.txt", part_rows=20)
        return
    assert run("in.txt", keep=("text=same",), part_rows=20).result["rows"] == len(TEXTS)
    assert [row["same"] for row in rows_of(tmp_path)] == TEXTS
    assert len(list((tmp_path / "out" / "scores").iterdir())) == 3


def test_the_command_prints_what_was_done(exported_dir, tmp_path):
    write(tmp_path / "in.txt", TEXTS[:3])
    words = ["score", "--input", tmp_path / "in.txt", "--engine", f"{exported_dir}:onnx", "--output", tmp_path / "out"]
    found = json.loads(invoke(*words, "--json").stdout)
    assert found["result"]["rows"] == 3
    assert not found["reused"]
    assert json.loads(invoke(*words, "--json").stdout)["reused"]


def test_the_example_of_the_help_names_only_options_that_there_are():
    from typer.testing import CliRunner

    output = CliRunner().invoke(app, ["score", "--help"], env={"COLUMNS": "400"}).output
    example = re.search(r"Example: albert-plus (.+)", output)[1]
    assert example.startswith("score ")
    for option in (word for word in example.split() if word.startswith("--")):
        assert option in output.replace(example, "")


@pytest.mark.slow
def test_scoring_needs_nothing_that_only_a_server_needs():
    """Whoever installs the extra `score` alone has no FastAPI."""
    program = (
        "import sys\n"
        "for name in ('fastapi', 'uvicorn', 'prometheus_client'):\n"
        "    sys.modules[name] = None\n"
        "import hf_albert_plus.batch_scoring.stage, hf_albert_plus.serving.cluster\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("harm", ["cut", "empty", "garbage", "zeros", "a link"])
def test_a_damaged_part_is_scored_anew(run, tmp_path, harm, capsys):
    (tmp_path / "in.txt").write_text("\n".join(TEXTS) + "\n")
    whole = run("in.txt", part_rows=16)
    (tmp_path / "out" / "record.json").unlink()
    part = sorted((tmp_path / "out" / "scores").iterdir())[1]
    content = part.read_bytes()
    middle = len(content) // 3
    if harm == "a link":
        part.rename(tmp_path / "elsewhere")
        part.symlink_to(tmp_path / "elsewhere")
    else:
        # In its pages, which have checksums: its footer is whole.
        part.write_bytes({"cut": content[:-9], "empty": b"", "garbage": content[:middle] + os.urandom(64) + content[middle + 64 :],
                          "zeros": bytes(len(content))}[harm])  # fmt: skip
    again = run("in.txt", part_rows=16)
    assert f"a part must be what was written, got {part}" in capsys.readouterr().out
    assert again.files == whole.files
    assert again.result["rows_of_this_run"] == 16
    if harm == "a link":
        assert (tmp_path / "elsewhere").read_bytes() == content


@pytest.mark.parametrize("name", ["out", "out/scores", ".out.lock"])
def test_links_are_not_written_through(run, tmp_path, name):
    (tmp_path / "in.txt").write_text("good\n")
    (tmp_path / "precious").mkdir()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    if name == "out/scores":
        run("in.txt", part_rows=1)
        (tmp_path / name).rename(tmp_path / "moved")
    (tmp_path / name).symlink_to(tmp_path / "precious")
    with pytest.raises(InvalidInput, match=f"{name}, which is a link to .*precious"):
        run("in.txt", part_rows=1)
    assert not list((tmp_path / "precious").iterdir())


@pytest.mark.parametrize(
    "text", ["[]", '{"format": 1}', '{"format": 1, "settings": [], "engine": {}, "sources": []}', "[" * 5000, "", '{"format": NaN}']
)  # fmt: skip
def test_a_plan_of_another_shape_is_refused(run, tmp_path, text):
    (tmp_path / "in.txt").write_text("good\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.json").write_text(text)
    with pytest.raises(
        InvalidInput, match="the plan of a run must .*choose another --output, or remove that directory"
    ):
        run("in.txt")


def test_a_taggers_rows_have_words_tags_and_entities(tokenizer_dir, run, tmp_path):
    """Against the tagger itself, a text at a time."""
    make_tagger(tmp_path / "tagger", tokenizer_dir)
    texts = [*taggers.TEXTS, "the doctor " * 60, ""]
    write(tmp_path / "in.jsonl", texts)
    run("in.jsonl", engine=tmp_path / "tagger", runtime="torch", keep=("text",))
    tagger = TextClassifier(tmp_path / "tagger", "torch", cores=1, max_length=None)
    for text, row in zip(texts, rows_of(tmp_path), strict=True):
        (said,) = tagger.tag([text])
        assert (row["words"], row["tags"]) == tuple([word[name] for word in said.words] for name in ("word", "tag"))
        scores = [word["score"] for word in said.words]
        assert row["tag_scores"] == [score if score is None else pytest.approx(score, abs=1e-4) for score in scores]
        assert [{**each, "score": 0} for each in row["entities"]] == [
            {name: 0 if name == "score" else each[name] for name in ("label", "text", "start", "end", "score")}
            for each in said.entities
        ]
        assert all(row["text"][each["start"] : each["end"]] == each["text"] for each in row["entities"])
    assert any(row["entities"] for row in rows_of(tmp_path))
    assert [row["truncated"] for row in rows_of(tmp_path)] == [False] * 4 + [True, False]


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
