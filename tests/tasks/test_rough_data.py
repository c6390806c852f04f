"""Data as people have them: spreadsheets' numbers, lists in cells, names beside numbers, compressed and nested files, few rows."""

import gzip
import json
import shlex
import subprocess
from collections import Counter

import pyarrow
import pyarrow.parquet
import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.division import split_off
from hf_albert_plus.tasks.inspection import look_at
from hf_albert_plus.tasks.own_data import find_task, more_texts
from hf_albert_plus.tasks.splits import load_split

TEXTS = [f"the words of letter number {number}" for number in range(60)]


def lines(path, header, *columns, delimiter=","):
    path.parent.mkdir(exist_ok=True)
    rows = [header, *zip(*columns, strict=True)]
    path.write_text("".join(delimiter.join(f'"{value}"' for value in row) + "\n" for row in rows))
    return str(path)


def labels_of(data, task, split="train"):
    """Text -> label of the rows of a split."""
    (column,) = task.columns
    rows = load_split(data, task, split)
    return dict(zip(rows[column], rows["label"], strict=True))


def everything(data, task):
    return labels_of(data, task) | labels_of(data, task, "validation")


def test_decimal_commas_are_numbers(tmp_path):
    written = [f"{number // 10},{number % 10}" for number in range(60)]
    data = lines(tmp_path / "my.csv", ("text", "mark"), TEXTS, written, delimiter=";")
    task = find_task(data)
    assert (task.kind, task.bounds) == ("number", (0.0, 5.9))
    assert everything(data, task)[TEXTS[37]] == pytest.approx(3.7)


@pytest.mark.parametrize("written", ["{},512", "{},512.50", "€{}.50", "{} %"])
def test_amounts_that_are_no_plain_numbers_are_not_taken_for_classes(tmp_path, written):
    data = lines(
        tmp_path / "my.csv", ("text", "price"), TEXTS, [written.format(1 + number // 2) for number in range(60)]
    )
    with pytest.raises(InvalidInput) as refused:
        find_task(data)
    assert f"must hold plain numbers, or names, got {written.format(1)!r} in row 1" in str(refused.value)
    assert len(find_task(data, DataSettings(kind="classes")).labels) == 30
    with pytest.raises(InvalidInput, match=r"must hold finite numbers.*write it as 1234\.5"):
        find_task(data, DataSettings(kind="number"))


def test_versions_are_names(tmp_path):
    data = lines(tmp_path / "my.csv", ("text", "version"), TEXTS, [f"1.{number // 2}.0" for number in range(60)])
    assert find_task(data).kind == "classes"


CELLS = {
    "a|b": ["red|green", "blue", "", "green|blue"] * 15,
    "a; b": ["red; green", "blue", "", "green; blue"] * 15,
    "a, b": ["red, green", "blue", "", "green, blue"] * 15,
    "python": ["['red', 'green']", "['blue']", "[]", "['green', 'blue']"] * 15,
}
HELD = [{"red", "green"}, {"blue"}, set(), {"green", "blue"}] * 15


@pytest.mark.parametrize("form", CELLS)
def test_several_labels_in_a_cell(tmp_path, form):
    data = lines(tmp_path / "my.csv", ("text", "labels"), TEXTS, CELLS[form])
    task = find_task(data, DataSettings(kind=None if form == "python" else "labels"))
    assert (task.kind, task.labels) == ("labels", ("blue", "green", "red"))
    found = everything(data, task)
    assert [{name for name, held in zip(task.labels, found[text], strict=True) if held} for text in TEXTS] == HELD


def test_empty_cells_among_joined_labels_say_how_they_are_read(tmp_path):
    data = lines(tmp_path / "my.csv", ("text", "labels"), TEXTS, CELLS["a|b"])
    with pytest.raises(
        InvalidInput, match="got 15 without one of 60 .*; or add --kind labels, if a cell holds several"
    ):
        find_task(data)


def test_a_known_label_stays_whole_whatever_is_in_its_name(tmp_path):
    cells = ["art, music|food", "food", "art, music", "food|sport"] * 15
    data = lines(tmp_path / "my.csv", ("text", "labels"), TEXTS, cells)
    task = find_task(data, DataSettings(kind="labels"))
    assert task.labels == ("art, music", "food", "sport")
    (tmp_path / "new").mkdir()
    new = lines(tmp_path / "new" / "my.csv", ("text", "labels"), TEXTS[:3], ["art, music", "food", "food, sport"])
    assert list(labels_of(new, task, "validation").values()) == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]


def test_a_list_as_numpy_prints_it_is_refused(tmp_path):
    data = lines(tmp_path / "my.csv", ("text", "labels"), TEXTS, ["['a' 'b']"] * 60)
    with pytest.raises(InvalidInput, match=r"must hold a list of labels in every row.*a\|b for two"):
        find_task(data)


def test_joined_classes_are_doubted_and_paths_are_not(tmp_path):
    joined = lines(tmp_path / "joined.csv", ("text", "label"), TEXTS, ["a", "b", "a|b", "b|c", "c", "a|b|c"] * 10)
    assert "got 'a|b', 'a|b|c', which seem to be several joined by '|': add --kind labels" in doubts(joined)
    names = lines(tmp_path / "names.csv", ("text", "label"), TEXTS, ["food, drink", "arts, crafts", "other"] * 20)
    assert "joined" not in doubts(names)


def doubts(data):
    return " ".join(look_at(data, find_task(data)).warnings)


def test_names_that_differ_in_capitals_and_names_for_nothing(tmp_path):
    said = doubts(lines(tmp_path / "my.csv", ("text", "label"), TEXTS, ["Spam", "spam ", "ham", "NaN"] * 15))
    assert "differ by more than capitals and blanks, got 'Spam', 'spam': write them alike" in said
    assert "a label should be a name, got 'NaN'" in said


def test_one_class_with_nearly_all_rows(tmp_path):
    said = doubts(lines(tmp_path / "my.csv", ("text", "label"), TEXTS, ["rare", "rare", *["usual"] * 58]))
    assert "nearly all rows, got 96 % with 'usual'" in said
    assert "add --measure macro_f1" in said


def test_a_number_far_from_the_others(tmp_path):
    usual = [number / 4 for number in range(59)]
    for place in (0, 20, 40, 59):  # whether the row is held out or not
        prices = [*usual[:place], 90_000, *usual[place:]]
        assert "got 1 far from the others (90000)" in doubts(
            lines(tmp_path / f"far{place}.csv", ("text", "price"), TEXTS, prices)
        )
    assert "far from" not in doubts(lines(tmp_path / "near.csv", ("text", "price"), TEXTS, [*usual, 40]))


def test_few_rows_to_score(tmp_path):
    assert "should have at least 30 rows, got 12 of validation" in doubts(
        lines(tmp_path / "my.csv", ("text", "label"), TEXTS, ["a", "b"] * 30)
    )


@pytest.mark.parametrize(("ending", "taken"), [("_text", True), ("_name", True), ("_remark", False)])
def test_names_beside_a_labels_numbers_are_its_labels(tmp_path, ending, taken):
    numbers, names = ["0", "1", "2"] * 20, ["bill", "refund", "sign in"] * 20
    data = lines(tmp_path / "my.csv", ("text", "label", f"label{ending}"), TEXTS, numbers, names)
    assert find_task(data).labels == (("bill", "refund", "sign in") if taken else ("0", "1", "2"))
    assert find_task(data, DataSettings(label_column=("label",))).labels == ("0", "1", "2")


def test_names_that_are_not_one_a_number_are_none(tmp_path):
    numbers, names = ["0", "1", "2"] * 20, ["bill", "refund"] * 30
    data = lines(tmp_path / "my.csv", ("text", "label", "label_text"), TEXTS, numbers, names)
    assert find_task(data).label_columns == ("label",)


def test_the_one_column_of_sentences_is_the_text(tmp_path):
    data = lines(
        tmp_path / "my.csv", ("tweet_id", "tweet", "airline", "sentiment"), range(60), TEXTS, ["A", "B"] * 30, ["x", "y"] * 30
    )  # fmt: skip
    assert find_task(data).columns == ("tweet",)


def test_two_texts_are_refused_with_options_that_work(tmp_path):
    data = lines(tmp_path / "my.csv", ("my title", "body", "label"), TEXTS, TEXTS[::-1], ["x", "y"] * 30)
    with pytest.raises(InvalidInput) as refused:
        find_task(data)
    typed = shlex.split(str(refused.value).rpartition("or both as a pair: ")[2])
    assert typed == ["--text-column", "my title", "--text-pair-column", "body"]
    task = find_task(data, DataSettings(text_column=typed[1], text_pair_column=typed[3]))
    assert task.columns == ("my title", "body")


@pytest.mark.parametrize("name", ["my.csv.gz", "my.jsonl.gz", "folder"])
def test_compressed_files(tmp_path, name):
    path = tmp_path / name if name != "folder" else tmp_path / "my" / "train.CSV.GZ"
    path.parent.mkdir(exist_ok=True)
    rows = [{"text": text, "label": "ab"[place % 2]} for place, text in enumerate(TEXTS)]
    written = "text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in rows)
    if "jsonl" in name:
        written = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(written.encode()))
    data = str(path if name != "folder" else path.parent)
    task = find_task(data)
    assert (task.name, task.labels) == ("my", ("a", "b"))
    assert len(everything(data, task)) == 60
    assert len(more_texts(data, task)) == 60


def test_what_is_not_compressed_is_refused(tmp_path):
    (tmp_path / "my.csv.gz").write_text("text,label\na,b\n")
    with pytest.raises(InvalidInput, match=r"must be compressed by gzip, got .*my\.csv\.gz"):
        find_task(str(tmp_path / "my.csv.gz"))


@pytest.mark.parametrize("compressed", [False, True])
def test_the_conversion_that_is_named_works_as_it_is_typed(tmp_path, compressed):
    folder = tmp_path / "my files"
    folder.mkdir()
    raw = ("text,label\n" + "".join(f"schöner Brief {n},{'ab'[n % 2]}\n" for n in range(40))).encode("cp1252")
    path = folder / ("my data.csv.gz" if compressed else "my data.csv")
    path.write_bytes(gzip.compress(raw) if compressed else raw)
    with pytest.raises(InvalidInput, match="got the byte 0xf6 in line 2") as refused:
        find_task(str(path))
    command = str(refused.value).rpartition("Windows' encoding: ")[2]
    subprocess.run(command, shell=True, check=True, timeout=60)
    data = str(folder / "utf8-my data.csv")
    assert "schöner Brief 7" in everything(data, find_task(data))


def test_rows_of_blanks_are_no_rows(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text(
        "text;label;\n" + "".join(f"{text};{'ab'[n % 2]};\n" for n, text in enumerate(TEXTS)) + ";;\n ;;;;\n"
    )
    assert len(everything(str(path), find_task(str(path)))) == 60


def test_nested_fields_are_columns(tmp_path):
    rows = [
        {"doc": {"text": text, "source": {"lang": "en"}}, "by": {"label": "ab"[n % 2]}, "votes": {"a": 1, "b": 2}}
        for n, text in enumerate(TEXTS)
    ]
    (tmp_path / "my.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "my.parquet")
    for name in ("my.jsonl", "my.parquet"):
        data = str(tmp_path / name)
        task = find_task(data, DataSettings(text_column="doc.text", label_column=("by.label",)))
        assert task.labels == ("a", "b")
        assert everything(data, task)[TEXTS[5]] == 1
    with pytest.raises(
        InvalidInput, match=r"has doc\.text, doc\.source\.lang, by\.label, votes; did you mean 'by\.label'"
    ):
        find_task(data, DataSettings(text_column="doc.text", label_column=("by.labels",)))


def test_whole_numbers_are_the_same_labels_with_a_point_and_without(tmp_path):
    lines(tmp_path / "my" / "train.csv", ("text", "label"), TEXTS, ["0.0", "1.0"] * 30)
    lines(tmp_path / "my" / "validation.csv", ("text", "label"), TEXTS[:4], ["0", "1"] * 2)
    task = find_task(str(tmp_path / "my"))
    assert task.labels == ("0", "1")
    assert load_split(str(tmp_path / "my"), task, "validation")["label"][:] == [0, 1, 0, 1]


def test_truths_are_the_same_labels_in_csv_and_in_parquet(tmp_path):
    data = lines(tmp_path / "my.csv", ("text", "is_spam"), TEXTS, ["True", "False"] * 30)
    task = find_task(data)
    assert task.labels == ("False", "True")
    pyarrow.parquet.write_table(pyarrow.table({"text": TEXTS[:2], "is_spam": [True, False]}), tmp_path / "new.parquet")
    assert load_split(str(tmp_path / "new.parquet"), task, "validation")["label"][:] == [1, 0]


def test_classes_of_three_rows_give_one_each_until_the_share_is_reached():
    texts, classes = [f"text {number}" for number in range(60)], [number // 3 for number in range(60)]
    kept, held = split_off(texts, classes, share=0.1, seed=1)
    assert len(held) == 6
    assert max(Counter(classes[place] for place in held).values()) == 1
    assert len(kept) + len(held) == 60
    backwards = split_off(texts[::-1], classes[::-1], share=0.1, seed=1)[1]
    assert {texts[::-1][place] for place in backwards} == {texts[place] for place in held}


def test_a_spreadsheet_says_how_it_is_saved(tmp_path):
    (tmp_path / "my.xlsx").write_bytes(b"PK")
    with pytest.raises(InvalidInput, match="save the sheet as CSV UTF-8"):
        find_task(str(tmp_path / "my.xlsx"))


def test_a_validation_file_without_rows_says_what_to_do(tmp_path):
    lines(tmp_path / "my" / "train.csv", ("text", "label"), TEXTS, ["a", "b"] * 30)
    lines(tmp_path / "my" / "validation.csv", ("text", "label"), [], [])
    with pytest.raises(InvalidInput, match="got none in .* validation; add rows, or remove that file"):
        load_split(str(tmp_path / "my"), find_task(str(tmp_path / "my")), "validation")
