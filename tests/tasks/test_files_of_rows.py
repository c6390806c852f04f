"""Files of rows: names of classes in parquet, quotes, a column of splits, which files are of a split, and JSON."""

import csv
import json
from random import Random

import pyarrow
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value, load_dataset

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.csv_files import read_csv
from hf_albert_plus.tasks.dataset_tables import read_parquet
from hf_albert_plus.tasks.own_data import find_task, in_words, own_splits
from hf_albert_plus.tasks.split_files import split_sources
from hf_albert_plus.tasks.splits import load_split

COLOURS = ["red", "green", "blue"]
FEATURES = Features(
    {
        "text": Value("string"),
        "label": ClassLabel(names=COLOURS),
        "tags": List(ClassLabel(names=["O", "B-x"])),
        "number": Value("int64"),
    }
)
ROWS = {
    "text": ["a", "b", "c", "d"],
    "label": [2, 0, None, -1],
    "tags": [[0, 1], [], None, [1, 0]],
    "number": [0, 1, 2, 0],
}


def test_names_of_classes_are_those_that_datasets_reads(tmp_path):
    path = tmp_path / "my.parquet"
    Dataset.from_dict(ROWS, features=FEATURES).to_parquet(path)
    table = read_parquet(path)
    theirs = load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
    of_label, of_tags = theirs.features["label"], theirs.features["tags"].feature
    known = [None if value is None or value < 0 else of_label.int2str(value) for value in theirs["label"]]
    assert table.column("label").to_pylist() == known == ["blue", "red", None, None]
    assert table.column("tags").to_pylist() == [
        None if row is None else [of_tags.int2str(tag) for tag in row] for row in theirs["tags"]
    ]
    assert table.column("number").to_pylist() == theirs["number"][:]
    assert table.schema.metadata is None


def test_truths_that_datasets_names_are_several_labels(tmp_path):
    truth, names = ClassLabel(names=["false", "true"]), ("rude", "threat", "spam")
    rows = {"text": [f"a text {n}" for n in range(12)], **{name: [n % 2 for n in range(12)] for name in names[:2]}}
    features = Features({"text": Value("string"), **dict.fromkeys(names, truth)})
    Dataset.from_dict({**rows, "spam": [0] * 12}, features=features).to_parquet(tmp_path / "my.parquet")
    task = find_task(str(tmp_path / "my.parquet"))
    assert (task.kind, task.labels) == ("labels", names)


@pytest.mark.parametrize(
    "noted",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"info": {"features": null}}',
        b'{"info": {"features": {"label": {"_type": "New"}}}}',
        b'{"info": {"features": {"label": {"_type": "ClassLabel", "names_file": "none"}}}}',
    ],
)
def test_a_note_that_nobody_understands_is_left_out(tmp_path, noted):
    table = pyarrow.table({"text": ["a", "b"], "label": [0, 1]}).replace_schema_metadata({b"huggingface": noted})
    pyarrow.parquet.write_table(table, tmp_path / "my.parquet")
    assert read_parquet(tmp_path / "my.parquet").column("label").to_pylist() == [0, 1]


def test_a_note_that_is_older_than_its_column_is_left_out(tmp_path):
    Dataset.from_dict(ROWS, features=FEATURES).to_parquet(tmp_path / "old.parquet")
    old = pyarrow.parquet.read_table(tmp_path / "old.parquet")
    named = old.set_column(1, "label", pyarrow.array(["x", "y", "z", None]))
    pyarrow.parquet.write_table(named.replace_schema_metadata(old.schema.metadata), tmp_path / "my.parquet")
    assert read_parquet(tmp_path / "my.parquet").column("label").to_pylist() == ["x", "y", "z", None]


QUOTED = [
    'spam\t"Wait what',
    "ham\ta text",
    'ham\the said no"',
    'spam\t"so" it goes',
    'spam\t"all of it"',
    "ham\t",
]


def test_quotes_that_a_tsv_does_not_mean_are_letters(tmp_path):
    path = tmp_path / "my.tsv"
    path.write_text("label\ttext\n" + "\n".join(QUOTED) + "\n")
    table = read_csv(path)
    assert [list(row.values()) for row in table.to_pylist()] == [line.split("\t") for line in QUOTED]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
def test_what_a_csv_library_writes_is_read_as_it_reads_it(tmp_path, quoting):
    random, path = Random(5), tmp_path / "my.tsv"
    for _ in range(100):
        rows = [["".join(random.choices('ab"\t\n ', k=6)) + "." for _ in range(2)] for _ in range(8)]
        with path.open("w", newline="") as file:
            csv.writer(file, delimiter="\t", quoting=quoting).writerows([["text", "label"], *rows])
        with path.open(newline="") as file:
            theirs = list(csv.reader(file, delimiter="\t", strict=True))[1:]
        assert [list(row.values()) for row in read_csv(path).to_pylist()] == theirs == rows


def test_an_open_quote_in_what_a_csv_library_wrote_is_named(tmp_path):
    path = tmp_path / "my.tsv"
    path.write_text("text\tlabel\n" + 'say ""so""\tgood\n"a ""b"" c"\tbad\n"a ""d"" e"\tbad\n' + '"open\tgood\n')
    with pytest.raises(InvalidInput, match=r"quotes of a csv file must be closed.*begins in line 5"):
        read_csv(path)


@pytest.mark.parametrize("name", ["split", "Partition", "SET"])
def test_a_column_says_which_split_a_row_is_of(tmp_path, name):
    splits = ["train", "TRAIN", "dev", "test"] * 6
    path = tmp_path / "my.csv"
    lines = [f"text number {n},{'ab'[n // 4 % 2]},{split}\n" for n, split in enumerate(splits)]
    path.write_text(f"text,label,{name}\n" + "".join(lines))
    task = find_task(str(path))
    assert task.held_out is None
    assert in_words(str(path), task).endswith("; a column divides its rows: 12 train, 6 validation, 6 test")
    assert own_splits(str(path), task) == ["validation", "test"]
    for split, said in (("train", ("train", "TRAIN")), ("validation", ("dev",)), ("test", ("test",))):
        texts = [f"text number {n}" for n, each in enumerate(splits) if each in said]
        assert load_split(str(path), task, split)["text"][:] == texts


@pytest.mark.parametrize("values", [("a", "b"), ("train", "train"), ("train", "other"), ("dev", "test"), ("train", "")])
def test_a_column_that_says_no_splits_is_one_of_the_others(tmp_path, values):
    path = tmp_path / "my.csv"
    path.write_text("text,label,split\n" + "".join(f"text {n},{'ab'[n % 2]},{values[n // 2 % 2]}\n" for n in range(24)))
    task = find_task(str(path))
    assert task.held_out is not None
    assert sum(len(load_split(str(path), task, split)) for split in ("train", "validation")) == 24


def test_a_column_of_splits_with_another_word_in_it_is_refused(tmp_path):
    """Its test rows would be trained on."""
    path, values = tmp_path / "my.csv", ("train", "train", "test", "holdout")
    path.write_text("text,label,split\n" + "".join(f"text {n},{'ab'[n % 2]},{values[n % 4]}\n" for n in range(24)))
    with pytest.raises(
        InvalidInput, match="column 'split' must say train, validation or test of every row, got 'holdout' in 6 rows"
    ):
        find_task(str(path))


def test_a_test_split_whose_labels_are_kept_elsewhere_is_not_scored(tmp_path):
    for name, labels in (("train", "ab"), ("validation", "ab"), ("test", ["", ""])):
        rows = "".join(f"{name} text {n},{labels[n % 2]}\n" for n in range(12))
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{rows}")
    task = find_task(str(tmp_path))
    assert own_splits(str(tmp_path), task) == ["validation"]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("train.csv", "eval.csv"), {"train": ["train.csv"], "validation": ["eval.csv"]}),
        (("train.csv", "dev.csv", "eval.csv"), {"train": ["train.csv"], "validation": ["dev.csv"]}),
        (("train.json", "dev.json", "more.json"), {"train": ["train.json"], "validation": ["dev.json"]}),
        (
            ("My_train.csv", "My_dev.csv", "My_test.csv", "labels.csv"),
            {"train": ["My_train.csv"], "validation": ["My_dev.csv"], "test": ["My_test.csv"]},
        ),
        (
            ("a-train-00000-of-00001.parquet", "a-test-00000-of-00001.parquet"),
            {"train": ["a-train-00000-of-00001.parquet"], "test": ["a-test-00000-of-00001.parquet"]},
        ),
        (("train.csv", "old-train.csv"), {"train": ["train.csv"]}),
        (("my-test.csv",), {"train": ["my-test.csv"]}),
        (
            ("train-00000-of-00002-a09b74b3ef9c3b56.parquet", "train-00001-of-00002-0c7b1b0b0e3b7a11.parquet"),
            {
                "train": [
                    "train-00000-of-00002-a09b74b3ef9c3b56.parquet",
                    "train-00001-of-00002-0c7b1b0b0e3b7a11.parquet",
                ]
            },
        ),
    ],
)
def test_files_are_of_the_split_that_their_names_say(tmp_path, names, found):
    for name in names:
        (tmp_path / name).write_text("text,label\na,b\n")
    sources = split_sources(str(tmp_path))
    assert {split: [file.name for file in files] for split, files in sources.items()} == found


def test_splits_in_files_of_json(tmp_path):
    rows = [{"text": f"text {n}", "label": "ab"[n % 2]} for n in range(6)]
    (tmp_path / "train.json").write_text(json.dumps(rows))
    (tmp_path / "test.json").write_text("".join(json.dumps(row) + "\n" for row in rows[:2]))
    task = find_task(str(tmp_path))
    assert load_split(str(tmp_path), task, "test")["label"][:] == [0, 1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[{"text": "a"}, 3]', "every row of my.json must be an object, got 3 in row 2"),
        ('{"text": "a"}\n3\n', "every line of my.json must be an object, got 3 in line 2"),
        ('{"text": "a"}\n{\n', "every line of my.json must be JSON, got .* in line 2"),
        ('[{"text": "a"}', r'my.json must be JSON, got .* write \[\{"text"'),
        ('[{"text": "a"}, {"text": 3}]', "column 'text' must have values of one type"),
        ('[{"\\ud800": "a"}]', "values of one type .* surrogates not allowed"),
    ],
)
def test_json_that_has_no_rows(tmp_path, content, said):
    (tmp_path / "my.json").write_text(content)
    with pytest.raises(InvalidInput, match=said):
        find_task(str(tmp_path / "my.json"))


def test_splits_that_are_no_column_are_not_said_to_be_one(tmp_path):
    rows = Dataset.from_dict({"text": ["a", "b"] * 3, "label": ["x", "y"] * 3})
    DatasetDict({"train": rows, "test": rows}).save_to_disk(tmp_path / "my")
    assert "column divides" not in in_words(str(tmp_path / "my"), find_task(str(tmp_path / "my")))
