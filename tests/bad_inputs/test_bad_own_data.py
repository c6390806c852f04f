"""Data of one's own that nothing can be learned from: rule, value and repair, before any training."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.splits import load_split

GOOD = "text,label\n" + "".join(f"a text of some words {n},{'ab'[n % 2]}\n" for n in range(20))
NUMBERS = {"text": [f"a text of some words {n}" for n in range(300)], "label": [n / 7 for n in range(300)]}


def found(tmp_path, content, *, name="my.csv", **settings):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return find_task(str(path), DataSettings(**settings))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "must have a line with the names of its columns, .* got an empty file"),
        ("text\na\n", "and more than one of them, got 'text'"),
        ("text,label\n", "a split must have rows, got none"),
        ("text,text,label\na,b,c\n", "a column must be there once, got 'text' 2 times"),
        ("text,label\na,b,c\n", "must have its 2 columns .* got 3 in the row that begins in line 2; put values"),
        ("ham,go until the point is there\nspam,a free entry for you\nham,nothing to say\n", "first line of a csv file must have the names .* got 'go until the point is there' and 'ham' in .* add a line with the names"),
        ("title,description,label\n" + "".join(f"the title {n} here,a text of some words {n},{'ab'[n % 2]}\n" for n in range(9)), "one column must be the text, .* got title, description"),
        ('text,label\n"a,b\nc,d\n', "quotes of a csv file must be closed"),
        ('text,label\n"a"b,c\n', "quotes of a csv file must be closed, and doubled within quotes"),
        (b"text,label\ncaf\xe9,a\n", "must be in UTF-8, got the byte 0xe9 in line 2 .*iconv -f WINDOWS-1252 -t UTF-8 \\S*my.csv > "),
        (b"text,label\na\x00b,c\n", "must have no zero bytes, got one in line 2"),
        ("text,label\na,\nb,x\nc,y\n", "must have a label in every row, got 1 without one of 3 .* first in row 1"),
        ("text,label\na,x\nb,x\n", "must have at least two, got 'x' alone in column 'label'"),
        ("foo,bar\na long text of words,b long text of words\nc long text of words,d long text of words\n", "one column must be the label, got foo, bar"),
        ("label,a,b\nx,one two three four,five six seven eight\ny,one two three nine,five six seven ten\n", "one column must be the text, .* --text-column a --text-pair-column b"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read(tmp_path, content, said):
    with pytest.raises(InvalidInput, match=said):
        found(tmp_path, content)


def test_a_text_column_taken_for_labels(tmp_path):
    content = "text,label\n" + "".join(f"a text {n},another text {n}\n" for n in range(100_000))
    with pytest.raises(
        InvalidInput, match=r"classes must repeat.* got 100,000 different values in the 100,000 rows .*--label-column"
    ):
        found(tmp_path, content)


def test_quotes_across_lines_are_one_value(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text(GOOD + '"a text\nin ""two"" lines, with a comma",a\n')
    task = find_task(str(path))
    rows = [row["text"] for split in ("train", "validation") for row in load_split(str(path), task, split)]
    assert 'a text\nin "two" lines, with a comma' in rows


def test_floats_for_classes(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table(NUMBERS), tmp_path / "my.parquet")
    with pytest.raises(
        InvalidInput, match=r"must hold classes, got 0\.14.*, a number between whole ones.*--kind number"
    ):
        find_task(str(tmp_path / "my.parquet"), DataSettings(kind="classes"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_number_that_is_none(tmp_path, value):
    columns = {**NUMBERS, "label": [value, *NUMBERS["label"][1:]]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "my.parquet")
    with pytest.raises(InvalidInput, match=r"(must have a label in every row|must hold finite numbers).*row 1"):
        find_task(str(tmp_path / "my.parquet"), DataSettings(kind="number"))


def test_a_text_that_is_null(tmp_path):
    path = tmp_path / "my.jsonl"
    path.write_text(
        "".join(json.dumps({"text": text, "label": n % 2}) + "\n" for n, text in enumerate(["a b", None, "c", "d"]))
    )
    with pytest.raises(InvalidInput, match="must have a text in every row, got 1 without one of 4 .* first in row 2"):
        load_split(str(path), find_task(str(path), DataSettings(text_column="text")), "train")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "must be JSON, got .* in line 21"),
        ("3", "must be an object, got 3 in line 21"),
        ('{"text": 3, "label": "a"}', "values of one type"),
    ],
)
def test_a_line_that_is_no_row(tmp_path, line, said):
    lines = [json.dumps({"text": f"text {n}", "label": "ab"[n % 2]}) for n in range(20)]
    with pytest.raises(InvalidInput, match=said):
        found(tmp_path, "\n".join([*lines, line]), name="my.jsonl")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"text_column": "texte"},
            "must be one of the data's, got 'texte', and .* has text, label; did you mean 'text'",
        ),
        ({"text_column": "label", "label_column": ("label",)}, "a text or a label, not both"),
        ({"kind": "nope"}, "--kind must be one of classes, labels, number, tags, spans, got nope"),
        ({"text_pair_column": "label"}, "--text-pair-column must be given with --text-column"),
        ({"kind": "labels"}, "must hold a list of labels in every row, got 'a' in row 1"),
        ({"kind": "number"}, "must hold finite numbers, got 'a' in row 1"),
        ({"measure": "bleu"}, "--measure must be one of those of my, got 'bleu'"),
        ({"validation": "nowhere.csv"}, "nowhere.csv"),
    ],
)
def test_settings_that_do_not_fit(tmp_path, settings, said):
    with pytest.raises(InvalidInput, match=said):
        found(tmp_path, GOOD, **settings)


def test_a_validation_label_that_the_training_rows_do_not_have(tmp_path):
    (tmp_path / "train.csv").write_text(GOOD)
    (tmp_path / "validation.csv").write_text("text,label\na,b\nc,unheard\n")
    task = find_task(str(tmp_path))
    with pytest.raises(
        InvalidInput, match="must be one of its 2, those of the training rows, got 'unheard' and 0 more"
    ):
        load_split(str(tmp_path), task, "validation")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "must have files called train, .* got .* with nothing"),
        (("one.csv", "two.csv"), "must have files called train, .* with one.csv, two.csv; rename them"),
        (("a-train.csv", "b-train.csv"), "must have files called train, .* with a-train.csv, b-train.csv; rename them"),
        (("train.csv", "train.jsonl"), "must be of one kind of file, got train.csv, train.jsonl"),
        (("validation.csv",), "data must have training rows, got validation"),
    ],
)
def test_a_folder_without_a_reading(tmp_path, names, said):
    for name in names:
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(InvalidInput, match=said):
        find_task(str(tmp_path))


def test_a_file_of_another_form(tmp_path):
    with pytest.raises(InvalidInput, match=r"must be one of \.csv.* got .*my.odp; convert it"):
        found(tmp_path, GOOD, name="my.odp")


def test_too_few_rows_to_hold_some_out(tmp_path):
    task = found(tmp_path, "text,label\na,x\nb,y\nc,x\n")
    with pytest.raises(InvalidInput, match="rows enough to hold some out.* got 3 rows .* --validation FILE"):
        load_split(str(tmp_path / "my.csv"), task, "validation")
