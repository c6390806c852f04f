"""Reports and cards of tasks of one's own: classes, confusions, reliability, errors whose less is better; nothing of them for GLUE."""

import csv
import json
from dataclasses import replace

import numpy
import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.measured_documents import read_scores, to_json
from hf_albert_plus.eval.reporting.cards import read_facts, render
from hf_albert_plus.eval.reporting.stage import report
from hf_albert_plus.eval.scoring import score_targets
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import parse_targets
from hf_albert_plus.records.files import write_json
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.long_texts import LongTexts
from hf_albert_plus.tasks.own_data import find_task
from tests.support.benches import latency_of
from tests.support.kinds import SEVERAL, make_classifier
from tests.support.questions import asked_questions, make_answerer, write_rows

WORDS = ("good", "bad", "film", "cast", "plot", "not", "no", "great")
LABELS = ("a|b", "rude", "spam")


def rows_of(kind, random, count=60):
    for _ in range(count):
        text = " ".join(random.choice(WORDS, size=6))
        held = {"classes": LABELS[random.integers(3)], "labels": [name for name in LABELS if random.random() < 0.4], "number": float(random.normal() * 300)}[kind]  # fmt: skip
        yield {"text": text, "label": held}


@pytest.fixture(scope="module", params=["classes", "labels", "number"])
def reported(request, tmp_path_factory, tokenizer_dir):
    """A report of two models of a kind, and the folder of its data and scores."""
    kind, folder = request.param, tmp_path_factory.mktemp(request.param)
    random = numpy.random.default_rng(0)
    for split in ("train", "validation"):
        lines = [json.dumps(row) for row in rows_of(kind, random)]
        (folder / "my").mkdir(exist_ok=True)
        (folder / "my" / f"{split}.jsonl").write_text("\n".join(lines))
    measure = {"classes": None, "labels": "average_precision", "number": "rmse"}[kind]
    task = find_task(str(folder / "my"), DataSettings(kind=kind, measure=measure))
    names = {"number": ("score",)}.get(kind, task.labels)
    problem = {"labels": SEVERAL, "number": "regression"}.get(kind, "single_label_classification")
    for number, name in enumerate(("base", "other")):
        model = make_classifier(folder / name, tokenizer_dir, names=names, problem_type=problem)
        model.classifier.bias.data.add_(number)
        model.save_pretrained(folder / name)
    targets = parse_targets([str(folder / name) for name in ("base", "other")])
    scores = score_targets(targets, data=str(folder / "my"), task=task, settings=EvalSettings(max_length=32), threads=1)
    latency = latency_of(targets)
    for row, timed in zip(scores.rows, latency.rows, strict=True):
        object.__setattr__(timed, "model_sha256", row.runs[0].model_sha256)
    write_json(folder / "scores.json", to_json(scores))
    write_json(folder / "latency.json", to_json(latency))
    report([folder / "scores.json"], bench=folder / "latency.json", output=folder / "report", title="T")
    return kind, folder, task


@pytest.mark.slow
def test_the_report_has_what_the_task_has(reported):
    kind, folder, task = reported
    page = (folder / "report" / "report.md").read_text()
    html = (folder / "report" / "report.html").read_text()
    if kind == "number":
        assert "rmse: in the unit of the numbers, and less is better" in page
        assert not list((folder / "report").glob("classes*"))
        assert "calibration" not in page + html
        return
    assert "[classes of my](classes-my.md)" in page
    assert (folder / "report" / "figures" / "reliability-my.svg").is_file()
    assert "Classes and what probabilities are worth" in html
    classes = (folder / "report" / "classes-my.md").read_text()
    assert "(figures/reliability-my.svg)" in classes
    assert "a\\|b" in classes
    assert ("### Confusions" in classes) == (kind == "classes")
    with (folder / "report" / "classes-my.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    run = read_scores(folder / "scores.json").rows[0].runs[0]
    assert [row["class"] for row in rows] == [*task.labels] * 2
    assert [float(row["f1"]) for row in rows[:3]] == [each.f1 for each in run.classes]


def test_data_of_ones_own_are_not_called_glues(reported):
    _, folder, _ = reported
    page = (folder / "report" / "report.md").read_text()
    facts = read_facts(folder / "report" / "cards" / "other-my.json")
    card = render(facts)
    assert "Scores are points on my;" in page
    assert facts["data_name"] == "my"
    assert "GLUE" not in page + card
    assert "One task: my, sequences of up to" in card
    assert not any(word in card for word in ("English", "language: en", "benchmark"))
    assert "name: my\n" in card


def test_verdicts_and_the_card_know_the_measure(reported):
    kind, folder, _ = reported
    facts = read_facts(folder / "report" / "cards" / "other-my.json")
    card = render(facts)
    (row,) = facts["scores"]
    scores = read_scores(folder / "scores.json")
    base, other = (each.metrics for each in scores.rows)
    if kind == "number":
        assert row["in_words"]["rmse"].startswith(f"{other['rmse']:.4g} (")
        verdict = "higher, worse" if other["rmse"] > base["rmse"] else "lower, better"
        assert row["against_baseline"].endswith(("within noise", verdict))
        assert "rmse is in the unit of the numbers" in card
        assert "## Classes" not in card
        return
    assert "## Classes" in card
    assert "a\\|b" in card
    assert row["ece"] == pytest.approx(scores.rows[1].runs[0].reliability.ece, abs=1e-4)
    assert ("largest confusions" in card) == (kind == "classes")


def test_the_data_are_told_from_the_record_of_the_training(reported, tmp_path):
    """A student was trained on the data that its teacher was trained on, and looked at."""
    from hf_albert_plus.eval.reporting.data_facts import data_grid, facts_of_data
    from hf_albert_plus.tasks.inspection import look_at

    kind, folder, task = reported
    facts = look_at(str(folder / "my"), task)
    common = {"settings": {}, "files": {}, "command": "", "finished": "f", "versions": {}, "platform": "p", "seconds": 1.0}  # fmt: skip
    parents = {"data": {"path": "my", "sha256": "1"}}
    teacher = {"stage": "finetune", "result": {"data": facts.describe()}, "parents": parents, **common}
    student = {"stage": "distill", "result": {}, "parents": {**parents, "teacher": {"path": str(tmp_path / "teacher"), "sha256": "2"}}, **common}  # fmt: skip
    for name, record in (("teacher", teacher), ("student", student)):
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / "record.json", record)
    assert facts_of_data(tmp_path / "student") == facts_of_data(tmp_path / "teacher") == facts
    words = dict(data_grid(facts)[1])
    assert words["rows of train"] == "60"
    if kind == "number":
        assert words["numbers of the training rows"] == f"{facts.bounds[0]:g} to {facts.bounds[1]:g}"
    else:
        assert f"spam {facts.classes['spam']}" in words["training rows of the 3 classes"]
    write_json(tmp_path / "student" / "record.json", {**student, "parents": {**student["parents"], "data": {"path": "my", "sha256": "3"}}})  # fmt: skip
    assert facts_of_data(tmp_path / "student") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: run["classes"].pop(), "classes of 'base torch fp32' that are not those of my"),
        (lambda run: run["classes"].clear(), "classes of 'base torch fp32' that are not those of my"),
        (lambda run: run["reliability"].update(ece=2.0), "less than or equal to 1"),
        (lambda run: run["reliability"]["bins"].clear(), "at least 1"),
        (lambda run: run["classes"][0].update(f1=101), "less than or equal to 100"),
        (lambda run: run["logits"].pop(), "logits of 'base torch fp32' that are not 3 for each of its 60 labels"),
        (lambda run: run["confusions"]["matrix"][0].pop(), "classes of 'base torch fp32' that are not those of my"),
        (lambda run: run["metrics"].update({next(iter(run["metrics"])): 101}), "101 points of"),
        (lambda run: run["metrics"].update({next(iter(run["metrics"])): 1e16}), "less than or equal to"),
    ],
)
def test_documents_whose_parts_do_not_fit_are_refused(reported, tmp_path, change, words):
    kind, folder, _ = reported
    document = json.loads((folder / "scores.json").read_text())
    run = document["rows"][0]["runs"][0]
    try:
        change(run)
    except KeyError:
        pytest.skip(f"{kind} have none")
    if kind == "number" and "101 points" in words:
        pytest.skip("an error may be so large")
    write_json(tmp_path / "scores.json", document)
    with pytest.raises(InvalidInput, match=words):
        read_scores(tmp_path / "scores.json")


@pytest.mark.parametrize(
    ("kind", "is_right"), [("classes", "the mean of their logits"), ("spans", "the best span of all of them")]
)
def test_reports_and_cards_say_windows(kind, is_right, tokenizer_dir, tmp_path):
    random, data = numpy.random.default_rng(0), tmp_path / "my"
    data.mkdir()
    for seed, split in enumerate(("train", "validation")):
        rows = asked_questions(12, seed=seed, events=4) if kind == "spans" else rows_of(kind, random, count=12)
        write_rows(data / f"{split}.jsonl", rows)
    task = find_task(str(data))
    if kind == "spans":
        make_answerer(tmp_path / "base", tokenizer_dir)
    else:
        task = replace(task, long=LongTexts("windows"))
        make_classifier(tmp_path / "base", tokenizer_dir, names=task.labels, problem_type="single_label_classification")
    targets = parse_targets([str(tmp_path / "base")])
    size = 28 if kind == "spans" else 7
    scores = score_targets(targets, data=str(data), task=task, settings=EvalSettings(max_length=size), threads=1)
    (run,) = scores.rows[0].runs
    assert run.windows.mean > 1
    latency = latency_of(targets)
    object.__setattr__(latency.rows[0], "model_sha256", run.model_sha256)
    for name, document in (("scores", scores), ("latency", latency)):
        write_json(tmp_path / f"{name}.json", to_json(document))
    report([tmp_path / "scores.json"], bench=tmp_path / "latency.json", output=tmp_path / "report", title="T")
    page = (tmp_path / "report" / "report.md").read_text()
    header, line = page.splitlines()[2], page.splitlines()[4]
    assert header.split(" | ")[3] == "windows a text"
    assert line.split(" | ")[3] == str(run.windows)
    figures = (tmp_path / "report" / "report.csv").read_text()
    assert f",windows_a_text,{run.windows.mean},,\n" in figures
    assert f",most_windows_of_a_text,{run.windows.most},,\n" in figures
    card = render(read_facts(tmp_path / "report" / "cards" / "base-my.json"))
    words = f"texts of more than {size} tokens were read in windows, {run.windows.mean:.2f} a text in the mean and {run.windows.most} at most"
    assert words in card
    assert words in page
    assert is_right in card
    assert "texts cut at" not in card


def test_many_classes_are_cut_to_the_worst():
    from hf_albert_plus.eval.class_scores import ClassScore
    from hf_albert_plus.eval.reporting.class_tables import _worst

    scores = [ClassScore(label=str(n), precision=0.0, recall=0.0, f1=float(n % 7), support=n % 3) for n in range(30)]
    worst = _worst(scores)
    assert [each.f1 for each in worst if each.support] == sorted(each.f1 for each in scores if each.support)
    assert all(each.support == 0 for each in worst[-10:])


def test_a_benchmarks_document_has_none_of_it(exported_dir, data_dir):
    settings = EvalSettings(max_length=32)
    scores = score_targets(parse_targets([str(exported_dir)]), data=str(data_dir), task=get_task("sst2"), settings=settings)  # fmt: skip
    (run,) = to_json(scores)["rows"][0]["runs"]
    assert not {"logits", "classes", "confusions", "reliability"} & set(run)
