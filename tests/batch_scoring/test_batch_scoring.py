"""Batch scoring in this process: what is read, scored and written. `test_batch_scoring_cluster` has Ray, and what dies."""

import json
import re
import subprocess
import sys

import numpy
import pyarrow
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hf_albert_plus.batch_scoring import line_rows, parquet_rows
from hf_albert_plus.batch_scoring import line_rows as lines
from hf_albert_plus.batch_scoring import worker as reading
from hf_albert_plus.cli.app import app
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.errors import InvalidInput
from tests.batch_scoring.files import TEXTS, rows_of, write
from tests.support import kinds, taggers
from tests.support.command_line import invoke
from tests.support.kinds import KINDS, make_classifier
from tests.support.taggers import make_tagger

pytestmark = pytest.mark.usefixtures("in_this_process")

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


@pytest.mark.slow
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


def test_a_file_that_is_named_twice_is_scored_once(run, tmp_path):
    write(tmp_path / "in[1].txt", ["good", "bad"])
    assert run("in[1].txt", "*.txt", str(tmp_path / "in[1].txt")).result["rows"] == 2


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
