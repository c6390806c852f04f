"""Data of one's own: every form gives the same task and the same rows, and a split that is held out is what it says."""

import csv
import json
from collections import Counter
from dataclasses import replace

import pyarrow
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, DatasetDict
from transformers import AutoTokenizer

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.choosing import choose_task
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.division import share_of, split_off
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.inspection import look_at
from hf_albert_plus.tasks.own_data import as_written, find_task, for_training, in_words
from hf_albert_plus.tasks.splits import data_parent, evaluated_splits, load_split
from hf_albert_plus.tasks.task_file import read_task, write_task

NAMES = ("billing", "refund", "sign in")
TEXTS = [
    f'the {word} of my order number {number}, "again"' for number in range(20) for word in ("bill", "money", "password")
]
LABELS = [NAMES[number % 3] for number in range(60)]


def as_csv(path, rows, *, delimiter=",", encoding="utf-8", header=("text", "label")):
    with path.open("w", encoding=encoding, newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def as_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


ROWS = list(zip(TEXTS, LABELS, strict=True))


def written(tmp_path, form):
    if form in ("csv", "tsv", "semicolons", "utf-8-sig", "utf-16"):
        encoding = form if form.startswith("utf") else "utf-8"
        delimiter = {"tsv": "\t", "semicolons": ";"}.get(form, ",")
        return as_csv(
            tmp_path / f"my.{'tsv' if form == 'tsv' else 'csv'}", ROWS, delimiter=delimiter, encoding=encoding
        )
    if form == "jsonl":
        return as_lines(tmp_path / "my.jsonl", [{"text": text, "label": label} for text, label in ROWS])
    if form == "parquet":
        pyarrow.parquet.write_table(pyarrow.table({"text": TEXTS, "label": LABELS}), tmp_path / "my.parquet")
        return tmp_path / "my.parquet"
    rows = Dataset.from_dict({"text": TEXTS, "label": LABELS})
    if form == "class labels":
        rows = rows.cast_column("label", ClassLabel(names=list(NAMES)))
    (DatasetDict({"train": rows}) if form == "dataset dict" else rows).save_to_disk(tmp_path / "my")
    return tmp_path / "my"


@pytest.mark.parametrize(
    "form",
    ["csv", "tsv", "semicolons", "utf-8-sig", "utf-16", "jsonl", "parquet", "dataset", "dataset dict", "class labels"],
)
def test_every_form_has_the_same_task_and_rows(tmp_path, form):
    data = str(written(tmp_path, form))
    task = find_task(data)
    assert (task.name, task.columns, task.label_columns) == ("my", ("text",), ("label",))
    assert (task.kind, task.labels, task.num_labels) == ("classes", NAMES, 3)
    parts = [load_split(data, task, split) for split in ("train", "validation")]
    back = [(row["text"], NAMES[row["label"]]) for rows in parts for row in rows]
    assert sorted(back) == sorted(ROWS)


def test_the_held_out_part_is_stratified_seeded_and_keeps_equal_texts_together():
    texts = [f"text {number // 2}" for number in range(400)]
    classes = [number // 2 % 4 for number in range(400)]
    kept, held = split_off(texts, classes, share=0.1, seed=1)
    assert sorted(kept + held) == list(range(400))
    assert Counter(classes[place] for place in held) == dict.fromkeys(range(4), 10)
    assert not {texts[place] for place in held} & {texts[place] for place in kept}
    assert split_off(texts, classes, share=0.1, seed=2)[1] != held
    backwards = split_off(texts[::-1], classes[::-1], share=0.1, seed=1)[1]
    assert sorted(texts[399 - place] for place in held) != []
    assert sorted(texts[::-1][place] for place in backwards) == sorted(texts[place] for place in held)


@pytest.mark.parametrize(
    ("rows", "held"), [(40, 8), (3668, 734), (5000, 1000), (8000, 1000), (10_000, 1000), (67_349, 6735)]
)
def test_of_few_rows_more_than_a_tenth_is_held_out(rows, held):
    assert round(rows * share_of(rows)) == held


@pytest.mark.parametrize(("rows", "held"), [(300, 60), (8000, 1000)])
def test_a_file_of_few_rows_gives_more_than_a_tenth_up(tmp_path, rows, held):
    data = str(as_csv(tmp_path / "my.csv", [(f"text {row}", NAMES[row % 2]) for row in range(rows)]))
    task = find_task(data)
    assert len(load_split(data, task, "validation")) == held
    assert len(load_split(data, task, "train")) == rows - held
    # A model that held a tenth out keeps to it: it has learned the rest.
    before = replace(task, held_out=replace(task.held_out, share=0.1))
    assert len(load_split(data, for_training(before, data), "validation")) == rows // 10


@pytest.mark.parametrize(
    ("texts", "classes"),
    [
        ([f"text {n}" for n in range(1000)] + ["ok"] * 5000, None),  # a text that most rows have
        (["yes"] * 50 + ["no"] * 3 + [f"text {n}" for n in range(50)], ["a"] * 53 + ["b"] * 50),
        (["thanks"] * 19 + ["thank you"] + [f"text {n}" for n in range(50)], ["a"] * 20 + ["b"] * 50),
    ],
)
def test_texts_that_many_rows_have_stay_in_training(texts, classes):
    for seed in range(20):
        kept, held = split_off(texts, classes, share=0.1, seed=seed)
        assert 0.04 * len(texts) <= len(held) <= 0.15 * len(texts), seed
        for name in set(classes or ()):
            assert sum(classes[place] == name for place in held) <= 0.3 * classes.count(name), seed
        assert not {texts[place] for place in held} & {texts[place] for place in kept}


def test_of_few_texts_that_many_rows_have_the_rarest_is_held_out_where_nothing_else_can_be():
    kept, held = split_off(["yes"] * 60 + ["no"] * 40, None, share=0.1, seed=0)
    assert (len(kept), held) == (60, list(range(60, 100)))
    others = [f"text {n}" for n in range(50)]
    kept, held = split_off(["yes"] * 60 + ["no"] * 40 + others, ["a"] * 100 + ["b"] * 50, share=0.1, seed=0)
    assert len(held) == 5
    assert min(held) >= 100


def test_a_class_of_three_rows_gives_none_away():
    _, held = split_off([f"text {number}" for number in range(103)], ["a"] * 3 + ["b"] * 100, share=0.1, seed=0)
    assert len(held) == 10
    assert min(held) >= 3


def test_other_data_than_those_it_was_found_in_are_whole(tmp_path):
    data = str(written(tmp_path, "csv"))
    task = find_task(data)
    (tmp_path / "new").mkdir()
    new = str(as_csv(tmp_path / "new" / "my.csv", ROWS[:30]))
    assert len(load_split(data, task, "validation")) == 12
    assert len(load_split(new, task, "validation")) == 30
    assert choose_task(new, model=model_with(tmp_path, task)).held_out == task.held_out
    trained = choose_task(new, model=model_with(tmp_path, task), trains=True)
    assert len(load_split(new, trained, "validation")) == 6
    assert len(load_split(new, trained, "train")) == 24


def model_with(tmp_path, task):
    directory = tmp_path / "model"
    directory.mkdir(exist_ok=True)
    write_task(directory, task, max_length=64)
    return str(directory)


@pytest.mark.parametrize("validation", ["validation", "valid", "dev", "val"])
def test_splits_by_their_names(tmp_path, validation):
    for name, rows in (("train", ROWS), (validation, ROWS[:9]), ("test", ROWS[9:12])):
        as_csv(tmp_path / f"{name}.csv", rows)
    task = find_task(str(tmp_path))
    assert task.held_out is None
    assert evaluated_splits(str(tmp_path), task) == {task.name: "validation", f"{task.name}-test": "test"}
    assert [len(load_split(str(tmp_path), task, split)) for split in ("train", "validation", "test")] == [60, 9, 3]


def test_a_validation_file_beside_the_data(tmp_path):
    data, other = as_csv(tmp_path / "my.csv", ROWS), as_csv(tmp_path / "other.csv", ROWS[:12])
    task = find_task(str(data), DataSettings(validation=str(other)))
    assert [len(load_split(str(data), task, split)) for split in ("train", "validation")] == [60, 12]
    assert data_parent(str(data), task) != data_parent(str(data), find_task(str(data)))


def test_a_test_split_without_labels_is_not_scored(tmp_path):
    as_csv(tmp_path / "train.csv", ROWS)
    (tmp_path / "test.csv").write_text("text,other\na,b\n")
    task = find_task(str(tmp_path))
    assert evaluated_splits(str(tmp_path), task) == {task.name: "validation"}
    assert load_split(str(tmp_path), task, "test", labelled=False)["label"][:] == [-1]


LISTS = [["a", "b"], [], ["c"], ["a"]] * 5


@pytest.mark.parametrize("form", ["lists", "written lists", "flags"])
def test_several_labels(tmp_path, form):
    texts = TEXTS[:20]
    if form == "flags":
        rows = [(text, *(int(name in held) for name in "abc")) for text, held in zip(texts, LISTS, strict=True)]
        data = as_csv(tmp_path / "my.csv", rows, header=("text", "a", "b", "c"))
    elif form == "written lists":
        rows = [(text, json.dumps(held)) for text, held in zip(texts, LISTS, strict=True)]
        data = as_csv(tmp_path / "my.csv", rows, header=("text", "labels"))
    else:
        data = as_lines(
            tmp_path / "my.jsonl", [{"text": text, "labels": held} for text, held in zip(texts, LISTS, strict=True)]
        )
    task = find_task(str(data))
    assert (task.kind, task.labels, task.problem_type) == ("labels", ("a", "b", "c"), "multi_label_classification")
    rows = [row for split in ("train", "validation") for row in load_split(str(data), task, split)]
    assert Counter(tuple(row["label"]) for row in rows) == Counter(
        tuple(float(name in held) for name in "abc") for held in LISTS
    )


def test_numbers(tmp_path):
    data = as_csv(
        tmp_path / "my.csv", [(text, number / 4) for number, text in enumerate(TEXTS)], header=("review", "stars")
    )
    task = find_task(str(data))
    assert (task.kind, task.labels, task.bounds, task.metrics[0]) == ("number", (), (0.0, 14.75), "pearson")
    assert task.columns == ("review",)
    train = load_split(str(data), task, "train")
    assert dict(zip(train["review"], train["label"], strict=True))[TEXTS[3]] == 0.75


def test_whole_numbers_are_classes_in_their_order_unless_somebody_says_otherwise(tmp_path):
    data = str(as_csv(tmp_path / "my.csv", [(text, number % 12) for number, text in enumerate(TEXTS)]))
    assert find_task(data).labels == tuple(str(number) for number in range(12))
    assert find_task(data, DataSettings(kind="number")).bounds == (0.0, 11.0)


OTHERS = {
    "date": [f"2015-02-{1 + day // 24:02} {day % 24:02}:11" for day in range(60)],
    "annotator": [("ann", "bob")[number % 2] for number in range(60)],
}


@pytest.mark.parametrize(
    ("header", "texts", "label"),
    [
        (("utterance", "intent"), ("utterance",), "intent"),
        (("intent", "utterance"), ("utterance",), "intent"),
        (("id", "ticket", "queue"), ("ticket",), "queue"),
        (("premise", "hypothesis", "label"), ("premise", "hypothesis"), "label"),
        (("Text", "Label"), ("Text",), "Label"),
        (("ticket number", "text", "date", "queue"), ("text",), "queue"),
        (("text", "annotator", "airline_sentiment"), ("text",), "airline_sentiment"),
    ],
)
def test_columns_are_found(tmp_path, header, texts, label):
    values = {
        name: TEXTS if name in texts else LABELS if name == label else OTHERS.get(name, list(range(60)))
        for name in header
    }
    task = find_task(str(as_csv(tmp_path / "my.csv", zip(*values.values(), strict=True), header=header)))
    assert (task.columns, task.label_columns) == (texts, (label,))


def test_short_texts_that_repeat_are_texts_by_their_name(tmp_path):
    rows = [("a small house" if number % 3 else "a large house", 100 + number / 4) for number in range(60)]
    task = find_task(str(as_csv(tmp_path / "my.csv", rows, header=("text", "price"))))
    assert (task.columns, task.label_columns, task.kind) == (("text",), ("price",), "number")


def test_a_remark_beside_a_text_is_not_read(tmp_path):
    rows = [(text, f"because of the words {number}", name) for number, (text, name) in enumerate(ROWS)]
    task = find_task(str(as_csv(tmp_path / "my.csv", rows, header=("text", "explanation", "label"))))
    assert task.columns == ("text",)


def test_words_are_put_together(tmp_path):
    rows = [{"tokens": text.split(), "slots": ["O"], "intent": name} for text, name in ROWS]
    data = str(as_lines(tmp_path / "my.jsonl", rows))
    task = find_task(data)
    assert (task.columns, task.label_columns) == (("tokens",), ("intent",))
    assert load_split(data, task, "train")[0]["tokens"] in TEXTS


def test_what_was_found_in_words(tmp_path):
    data = str(written(tmp_path, "csv"))
    said = in_words(data, find_task(data))
    assert said.startswith(
        "my: text in 'text', label in 'label': one of 3 classes (billing, refund, sign in); 20 % of the rows"
    )


def test_the_task_file_gives_the_task_back(tmp_path):
    task = find_task(str(written(tmp_path, "csv")))
    write_task(tmp_path, task, max_length=77)
    carried = read_task(tmp_path)
    assert carried is not None
    assert (carried.max_length, carried.labels, carried.held_out) == (77, task.labels, task.held_out)
    write_task(tmp_path, get_task("mrpc"), max_length=99)
    assert read_task(tmp_path).max_length == 99
    assert read_task(tmp_path).metrics == get_task("mrpc").metrics
    assert read_task(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "must be of format 1, got None"),
        ('{"format": 1, "benchmark": "glue", "name": "nope"}', "a benchmark's task must be known, got 'nope'"),
        ('{"format": 1, "name": "my", "columns": 3}', "must be one that this version wrote"),
        ("[1]", "task.json"),
    ],
)
def test_a_broken_task_file_is_refused(tmp_path, content, said):
    (tmp_path / "task.json").write_text(content)
    with pytest.raises(InvalidInput, match=said):
        read_task(tmp_path)


def test_a_task_takes_other_columns_and_another_measure(tmp_path):
    task = find_task(str(written(tmp_path, "csv")))
    model = model_with(tmp_path, task)
    other = str(as_csv(tmp_path / "other.csv", ROWS, header=("mail", "team")))
    settings = DataSettings(text_column="mail", label_column=("team",), measure="macro_f1")
    chosen = choose_task(other, settings=settings, model=model)
    assert (chosen.columns, chosen.label_columns, chosen.metrics[0]) == (("mail",), ("team",), "macro_f1")
    assert len(load_split(other, chosen, "validation")) == 60
    with pytest.raises(InvalidInput, match=r"my needs the columns text, label, got mail, team in .*--text-column"):
        load_split(other, task, "validation")


def test_what_is_in_data(tmp_path):
    rows = [*ROWS, ("  ", "refund"), ("same", "refund"), ("same", "billing"), ("alone", "rare")]
    as_csv(tmp_path / "train.csv", rows)
    as_csv(tmp_path / "validation.csv", [*ROWS[:2], ("new", "refund")])
    task = find_task(str(tmp_path))
    facts = look_at(str(tmp_path), task)
    assert facts.rows == {"train": 64, "validation": 3}
    assert facts.classes == {"refund": 22, "billing": 21, "sign in": 20, "rare": 1}
    assert (facts.empty_texts, facts.repeated, facts.contradictions) == (
        {"train": 1, "validation": 0},
        {"validation": 2},
        1,
    )
    said = " ".join(facts.warnings)
    assert all(
        part in said
        for part in ("got 1 with fewer ('rare')", "got 1 empty ones in train", "got 2 of the 3 of validation")
    )


def test_texts_that_are_cut_are_counted(tmp_path, tokenizer_dir):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    rows = [("word " * 40, "a"), ("word", "b")] * 4
    data = str(as_csv(tmp_path / "my.csv", rows))
    task = find_task(data, DataSettings(text_column="text", label_column=("label",), validation=data))
    facts = look_at(data, task, tokenizer=tokenizer, max_length=16)
    assert facts.cut == 0.5
    assert "50 % longer than 16 tokens" in " ".join(facts.warnings)


@pytest.mark.parametrize("kind", ["classes", "lists", "flags", "number"])
def test_rows_are_written_as_they_were_read(tmp_path, kind):
    values = {
        "classes": {"label": LABELS},
        "lists": {"label": [held for held in LISTS for _ in range(3)]},
        "flags": {name: [int(name in held) for held in LISTS for _ in range(3)] for name in "abc"},
        "number": {"label": [number / 8 for number in range(60)]},
    }[kind]
    table = pyarrow.table({"text": TEXTS, **values})
    pyarrow.parquet.write_table(table, tmp_path / "my.parquet")
    data = str(tmp_path / "my.parquet")
    task = find_task(data, DataSettings(validation=data))
    assert as_written(load_split(data, task, "train"), task).to_dict() == table.to_pydict()
