"""What long texts cost, as benches time it and documents say it."""

import json
from dataclasses import replace

import numpy
import pytest
import torch

from hf_albert_plus.engines.batch_plans import TOKEN_BUDGET
from hf_albert_plus.eval.load.served import _batches
from hf_albert_plus.eval.load.traffic import Client, Traffic, time_offline
from hf_albert_plus.eval.measured_documents import to_json
from hf_albert_plus.eval.reporting.data_facts import data_grid
from hf_albert_plus.eval.scoring import score_targets
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.eval.window_counts import WindowCount
from hf_albert_plus.tasks.choosing import choose_task
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.inspection import DataFacts
from hf_albert_plus.tasks.long_texts import LongTexts
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.rows import encode
from tests.support.kinds import KINDS, NAMES, make_classifier
from tests.support.questions import asked_questions, make_answerer, write_rows

LENGTHS = (2, 60, 5, 120)


@pytest.fixture(scope="module")
def timed(tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("timed")
    make_classifier(directory / "model", tokenizer_dir, **KINDS["one of three"])
    rows = [{"text": "film " * LENGTHS[number % 4], "label": NAMES[number % 3]} for number in range(24)]
    for name in ("train", "validation"):
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = choose_task(str(directory), settings=DataSettings(long="windows"), model=directory / "model")
    target = parse_target(str(directory / "model"))
    engine = target.load(threads=1)
    clients = [
        Client(target, engine, Traffic(str(directory), replace(task, long=long), max_length=32))
        for long in (LongTexts(), LongTexts("windows"))
    ]
    return clients


def test_a_text_is_timed_with_all_of_its_windows(timed):
    cut, windowed = timed
    assert cut.windows is None
    assert cut.rows_of == [[number] for number in range(24)]
    assert cut.tokens == cut.lengths
    assert len(windowed.rows_of) == 24
    counts = [len(rows) for rows in windowed.rows_of]
    assert counts[:4] == [1, 1 + -(-(60 - 30) // 23), 1, 1 + -(-(120 - 30) // 23)]
    assert windowed.windows == WindowCount(mean=pytest.approx(numpy.mean(counts), abs=1e-3), most=max(counts))
    assert windowed.tokens[3] == counts[3] * 32
    assert windowed.longest % 4 == 3
    said = windowed.answer([27, 0])
    assert len(said.logits) == counts[3] + counts[0]
    alone = windowed.answer([3])
    torch.testing.assert_close(said.logits[: counts[3]], alone.logits, atol=1e-4, rtol=1e-4)


def test_a_question_is_timed_and_scored_with_all_of_its_windows(tokenizer_dir, tmp_path, short_benches):
    make_answerer(tmp_path / "model", tokenizer_dir)
    for seed, name in enumerate(("train", "validation")):
        write_rows(tmp_path / f"{name}.jsonl", asked_questions(20, seed=seed, events=4))
    data, task = str(tmp_path), find_task(str(tmp_path))
    target, traffic = parse_target(str(tmp_path / "model")), Traffic(data, task, max_length=28)
    client = Client(target, target.load(threads=1), traffic)
    numbers = encode(traffic.rows, task, client.tokenizer, max_length=28)["question"]
    counts = [numbers.count(number) for number in range(20)]
    assert [len(rows) for rows in client.rows_of] == counts
    assert sum(counts) == len(client.rows) > 20
    assert client.windows == WindowCount(mean=pytest.approx(numpy.mean(counts), abs=1e-3), most=max(counts))
    assert client.answer([0]).start_logits.shape[0] == counts[0] > 1
    cell = time_offline({target.label: client}, baseline=target.label, seconds=0.1, name="questions", threads=1)[
        target.label
    ]
    assert 20 / max(cell.samples_ms) <= cell.items_per_s / 1e3 * 1.01
    assert cell.items_per_s / 1e3 <= 20 / min(cell.samples_ms) * 1.01
    scores = score_targets([target], data=data, task=task, settings=EvalSettings(max_length=28))
    assert scores.rows[0].runs[0].windows == client.windows


def test_the_batches_of_a_request_hold_each_window_once(timed):
    _, windowed = timed
    batches = _batches([3, 0, 1], windowed, call_tokens=1e9)
    assert sorted(row for batch in batches for row in batch) == sorted(
        row for number in (3, 0, 1) for row in windowed.rows_of[number]
    )
    assert all(max(windowed.lengths[row] for row in batch) * len(batch) <= TOKEN_BUDGET for batch in batches)


def test_documents_and_reports_say_it():
    count = WindowCount.of([0, 1, 1])
    assert count is not None
    assert (to_json(count), str(count)) == ({"mean": 1.5, "most": 2}, "1.50, at most 2")
    assert WindowCount.of(None) is None
    facts = DataFacts(
        rows={"train": 2}, classes={}, bounds=(0.0, 1.0), empty_texts={}, repeated={}, contradictions=0, without_label=0, cut=0.5,
        max_length=16, long="windows", windows=(1.5, 2),
    )  # fmt: skip
    grid = dict(data_grid(facts)[1])
    assert grid["what is read of these"] == "all, in windows"
    assert grid["windows a text, in the mean and at most"] == "1.5 and 2"
    assert (
        dict(data_grid(replace(facts, long="head-tail", windows=None))[1])["what is read of these"]
        == "their beginning and end"
    )
    assert "what is read of these" not in dict(data_grid(replace(facts, long=None, windows=None))[1])
