"""The rows that no candidate learns from, and budgets in words."""

import csv

import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.search.made_up_texts import COPIES, make_up_texts
from hf_albert_plus.search.set_aside import set_aside
from hf_albert_plus.search.settings import CompressSettings, parse_latency, parse_size, parse_time
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.own_data import find_task, more_texts
from hf_albert_plus.tasks.splits import load_split


def texts_of(rows, task):
    return list(zip(*(rows[column] for column in task.columns), rows["label"], strict=True))


@pytest.mark.parametrize("name", ["sst2", "mrpc", "stsb"])
def test_training_rows_are_in_one_of_two_parts(name, data_dir, tmp_path):
    task = get_task(name)
    rows, record = set_aside(str(data_dir), task=task, output=tmp_path / "rows", seed=1)
    learned, aside = (texts_of(load_split(str(rows.data), rows.task, split), task) for split in ("train", "validation"))
    whole = texts_of(load_split(str(data_dir), task, "train"), task)
    assert sorted(map(str, learned + aside)) == sorted(map(str, whole))
    assert not {str(row[:-1]) for row in learned} & {str(row[:-1]) for row in aside} or name == "stsb"
    assert record.result == {"learned_from": len(learned), "set_aside": len(aside)}
    assert 0 < len(aside) <= 0.15 * len(whole)


def test_validation_rows_of_ones_own_data_stay_out(tmp_path):
    """Also where they are a part of the training file that nobody named."""
    with (tmp_path / "my.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["text", "label"])
        lines.writerows([f"text number {number}", ["good", "bad", "plain"][number % 3]] for number in range(300))
    data = str(tmp_path / "my.csv")
    task = find_task(data)
    rows, _ = set_aside(data, task=task, output=tmp_path / "rows", seed=1)
    parts = [texts_of(load_split(str(rows.data), rows.task, split), task) for split in ("train", "validation")]
    judged = texts_of(load_split(data, task, "validation"), task)
    assert not set(judged) & (set(parts[0]) | set(parts[1]))
    assert sum(map(len, parts)) + len(judged) == 300


def test_rows_of_which_none_can_be_set_aside_are_refused(tmp_path):
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "train.csv").write_text("text,label\nlovely,good\ndull,bad\nfine,good\npoor,bad\n")
    (tmp_path / "my" / "dev.csv").write_text("text,label\n" + "nice,good\nlame,bad\n" * 20)
    data = str(tmp_path / "my")
    with pytest.raises(
        InvalidInput, match="must have training rows to set aside, at least three of a class, got 4 rows"
    ):
        set_aside(data, task=find_task(data), output=tmp_path / "out" / "rows", seed=1)
    assert not (tmp_path / "out" / "rows").exists()


def test_quantities():
    assert parse_time("90m") == 5400
    assert parse_time("1.5h") == 5400
    assert parse_latency("800us") == pytest.approx(0.8)
    assert parse_size("8MB") == 8e6


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (
            parse_time,
            "60",
            "--time-budget must be a number above 0 with one of the units s, m, h, got '60'; use --time-budget 60m",
        ),
        (parse_latency, "0ms", "--max-latency must be a number above 0"),
        (parse_size, "8 MiB", "--max-size must be a number above 0 with one of the units kB, KB, MB, GB, got '8 MiB'"),
        (parse_time, "-1m", "--time-budget must"),
        (parse_time, "nanm", "--time-budget must"),
    ],
)
def test_quantities_without_a_unit(parse, text, message):
    with pytest.raises(InvalidInput) as found:
        parse(text)
    assert message in str(found.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_drop": -1}, "--max-drop must be from 0 to 100 points, got -1"),
        ({"min_speedup": 0.5}, "--min-speedup must be from 1 to 10,000, got 0.5"),
        ({"epochs": 0}, "--epochs must be above 0"),
        ({"traffic": "all"}, "--traffic must be one of batches, alone, got 'all'"),
    ],
)
def test_wrong_budgets(given, message):
    with pytest.raises(InvalidInput, match=message):
        CompressSettings(**given)


def test_an_error_may_grow_by_more_than_a_hundred():
    number = get_task("stsb").measured_by("rmse")
    CompressSettings(max_drop=500).check_drop(number)
    with pytest.raises(InvalidInput, match="--max-drop must be from 0 to 100 points, got 500"):
        CompressSettings(max_drop=500).check_drop(get_task("sst2"))


def test_a_point_may_be_lost_where_nothing_is_said():
    assert CompressSettings().budget.max_drop == 1
    assert CompressSettings(min_speedup=3).budget.max_drop is None
    assert CompressSettings(min_speedup=3, max_drop=2).budget.seeks_speed
    assert CompressSettings().budget.in_words() == "at most 1 point lost"
    assert CompressSettings(max_latency=2, max_size=8e6).budget.in_words() == "at most 2 ms a text, at most 8 MB"


@pytest.mark.parametrize("name", ["sst2", "mrpc"])
def test_texts_are_made_up_of_the_rows_that_are_learned_from(name, data_dir, tmp_path):
    task = get_task(name)
    rows, _ = set_aside(str(data_dir), task=task, output=tmp_path / "rows", seed=1)
    path, record = make_up_texts(rows, output=tmp_path / "texts", seed=1)
    made = more_texts(str(path), rows.task)
    assert len(made) == record.result["texts"] == COPIES * rows.count
    learned = load_split(str(rows.data), rows.task, "train")
    words = {word for column in task.columns for text in learned[column] for word in text.split()}
    assert {word for column in task.columns for text in made[column] for word in text.split()} <= words
    again, _ = make_up_texts(rows, output=tmp_path / "again", seed=1)
    assert more_texts(str(again), rows.task)[task.columns[0]][:] == made[task.columns[0]][:]
