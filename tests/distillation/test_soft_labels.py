"""A teacher that is known by its answers alone, in a column of the data; and texts without labels, which a teacher answers."""

import json
from dataclasses import replace

import numpy
import pyarrow
import pytest
import torch
from safetensors.torch import load_file
from scipy.special import expit, softmax
from torch.nn.functional import cross_entropy, kl_div
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hf_albert_plus.distillation.distiller import Distiller
from hf_albert_plus.distillation.methods import METHODS
from hf_albert_plus.distillation.phases import Layers
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification, AlbertPlusModel
from hf_albert_plus.records.record import read_record
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.most_likely import class_answers
from hf_albert_plus.tasks.own_data import find_task, more_texts
from hf_albert_plus.tasks.soft_labels import SOFT_LABELS, read_soft_labels
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task import MEASURES, Task
from hf_albert_plus.training.settings import TrainSettings
from tests.support.command_line import invoke
from tests.support.kinds import NAMES, make_classifier
from tests.support.small_models import pair_inputs, randomise, small_config

QUICK = TrainSettings(epochs=1, batch_size=8, learning_rate=1e-3, max_length=32, precision="fp32")
WORDS = ("good", "bad", "the plot", "the cast", "a film", "not", "great", "no")
TEXTS = [f"{first} {second} number {n}" for n in range(3) for first in WORDS for second in WORDS if first != second][
    :60
]
LABELS = [NAMES[n % 3] for n in range(len(TEXTS))]


def _task(kind="classes", labels=NAMES):
    return Task(name="own", columns=("text",), labels=labels, kind=kind, metrics=MEASURES[kind], epochs=1, batch_size=8)


def _lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, tokenizer_dir):
    directory = tmp_path_factory.mktemp("teacher")
    make_classifier(directory, tokenizer_dir, names=tuple(sorted(NAMES)), problem_type="single_label_classification")
    return directory


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, tokenizer_dir):
    directory = tmp_path_factory.mktemp("encoder")
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    randomise(AlbertPlusModel(small_config(vocab_size=len(tokenizer), num_hidden_layers=2))).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def logits(teacher):
    """What transformers' model says of each text by itself."""
    model = AutoModelForSequenceClassification.from_pretrained(teacher).eval()
    tokenizer = AutoTokenizer.from_pretrained(teacher)
    with torch.no_grad():
        return [model(**tokenizer(text, return_tensors="pt")).logits[0].tolist() for text in TEXTS]


@pytest.fixture
def answered(tmp_path, logits):
    rows = [{"text": t, "label": y, "logits": z} for t, y, z in zip(TEXTS, LABELS, logits, strict=True)]
    return _lines(tmp_path / "answered.jsonl", rows)


def _distill(out, data, *, teacher=None, student="half", method=None, **options):
    task = find_task(str(data))
    how = DistilSettings(method, StudentSettings(str(student)), epochs=1, learning_rate=1e-3, **options)
    source = None if teacher is None else str(teacher)
    return distill(source, data=str(data), task=task, output=out, settings=QUICK, method=how)


# The column


PROBABILITIES = numpy.array([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize("form", ["list", "object", "json", "logits"])
def test_probabilities_and_logits_of_classes_are_read_alike(form):
    rows = {
        "list": PROBABILITIES.tolist(),
        "object": [dict(zip(reversed(NAMES), reversed(row), strict=True)) for row in PROBABILITIES.tolist()],
        "json": [json.dumps(row) for row in PROBABILITIES.tolist()],
        "logits": (numpy.log(PROBABILITIES + 1e-7) + 3).tolist(),
    }[form]
    found = read_soft_labels(pyarrow.table({"soft": rows}), "soft", _task(), where="here")
    numpy.testing.assert_allclose(softmax(numpy.array(found), axis=1), PROBABILITIES, atol=1e-5)


def test_rounded_probabilities_and_the_largest_few_are_shares_of_their_sum():
    """Read as logits they would make the teacher all but indifferent."""
    rows = [[0.33, 0.33, 0.33], [0.9, 0.0, 0.0], [0.6, 0.3, 0.1]]
    found = read_soft_labels(pyarrow.table({"soft": rows}), "soft", _task(), where="here")
    expected = numpy.array(rows) / numpy.array(rows).sum(1, keepdims=True)
    numpy.testing.assert_allclose(softmax(numpy.array(found), axis=1), expected, atol=1e-5)
    with pytest.raises(
        InvalidInput, match=r"probabilities in column 'soft' must not all be 0, got .* in row 2 of here"
    ):
        read_soft_labels(pyarrow.table({"soft": [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]}), "soft", _task(), where="here")


def test_several_labels_have_a_probability_each():
    rows = [[0.7, 0.9, 0.1], [0.5, 0.0, 1.0]]
    found = read_soft_labels(pyarrow.table({"soft": rows}), "soft", _task("labels"), where="here")
    numpy.testing.assert_allclose(expit(numpy.array(found)), rows, atol=1e-5)
    as_logits = [[-3.0, 0.5, 2.0]]
    assert read_soft_labels(pyarrow.table({"soft": as_logits}), "soft", _task("labels"), where="here") == as_logits


# Answers without labels


def test_a_teachers_first_class_is_the_label_where_there_is_no_other(tmp_path):
    named = [{"text": f"row {i}", "said": {"b": 0.2, "a": 0.1 + i / 9, "c": 0.05}} for i in range(6)]
    task = find_task(str(_lines(tmp_path / "named.jsonl", named)))
    assert (task.kind, task.labels, task.label_columns) == ("classes", ("a", "b", "c"), ("said",))
    rows = load_split(str(tmp_path / "named.jsonl"), replace(task, held_out=None), "train", soft_labels="said")
    assert rows["label"] == [1, 0, 0, 0, 0, 0]
    numpy.testing.assert_allclose(softmax(numpy.array(rows[SOFT_LABELS][0])), numpy.array([0.1, 0.2, 0.05]) / 0.35)


def test_a_list_of_logits_is_in_the_order_of_the_tasks_labels(tmp_path):
    data = str(
        _lines(
            tmp_path / "said.jsonl", [{"text": "a b", "logits": row} for row in [[0.5, 2.0, -1.0], [3.0, -0.5, 1.0]]]
        )
    )
    found = find_task(data)
    assert (found.kind, found.labels) == ("classes", ("0", "1", "2"))
    named = replace(_task(), columns=("text",), label_columns=("logits",))
    assert (
        load_split(data, named, "train")["label"]
        == load_split(data, replace(found, held_out=None), "train")["label"]
        == [1, 0]
    )


@pytest.mark.parametrize(
    "said", [[["a", "b"], ["a"]], [[1, 2], [2]], [{"a": "much"}, {"a": "less"}], ["[sic] 0.5", "{x}"]]
)
def test_lists_of_names_and_other_objects_are_no_answers(said):
    assert class_answers(said, where="here") is None


def test_answers_for_other_classes_are_refused():
    with pytest.raises(InvalidInput, match="same 2 classes in every row, got .* in row 2 of here"):
        class_answers([{"a": 0.5, "b": 0.5}, {"a": 1.0}], where="here")


@pytest.mark.slow
def test_a_student_learns_from_answers_alone(tmp_path, answered, encoder):
    unlabelled = [json.loads(line) for line in answered.read_text().splitlines()]
    for row in unlabelled:
        del row["label"]
    data = _lines(tmp_path / "answers.jsonl", unlabelled)
    record = _distill(tmp_path / "student", data, teacher=encoder, soft_labels="logits")
    assert record.settings["soft_labels"] == "logits"
    assert record.settings["task_rows"]["label_columns"] == ["logits"]


@pytest.mark.parametrize("rows", [[3.5, -1.0], [[3.5], [-1.0]], ["3.5", "-1"]])
def test_a_number_is_its_own_answer(rows):
    found = read_soft_labels(pyarrow.table({"soft": rows}), "soft", _task("number", ()), where="here")
    assert found == [[3.5], [-1.0]]


@pytest.mark.parametrize(
    ("rows", "got"),
    [
        ([[0.1, 0.9]], r"\[0.1, 0.9\] in row 1"),
        ([[1.0, 2.0, 3.0], None], "None in row 2"),
        ([[1.0, 2.0, float("nan")]], "nan.* in row 1"),
        (["very good"], "very good"),
        ([{"toxic": 1.0, "rude": 0.0, "ham": 0.0}], "'ham' in one of the two alone, in row 1"),
    ],
)
def test_answers_that_are_not_the_tasks_are_refused(rows, got):
    with pytest.raises(InvalidInput, match=got):
        read_soft_labels(pyarrow.table({"soft": rows}), "soft", _task(), where="here")


def test_a_column_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(InvalidInput, match=r"'logit', and here has text, logits.*did you mean .*logits"):
        read_soft_labels(pyarrow.table({"text": ["a"], "logits": [[1.0]]}), "logit", _task(), where="here")


def test_rows_that_are_held_out_keep_their_answers(answered, logits):
    task = find_task(str(answered))
    of_text = dict(zip(TEXTS, logits, strict=True))
    parts = [load_split(str(answered), task, split, soft_labels="logits") for split in ("train", "validation")]
    assert sum(map(len, parts)) == len(TEXTS)
    assert len(parts[1])
    for part in parts:
        for row in part:
            assert row[SOFT_LABELS] == pytest.approx(of_text[row["text"]])


# Learning from it


@pytest.mark.slow
def test_answers_in_the_data_teach_as_their_teacher_does(teacher, tokenizer_dir, answered, tmp_path):
    student = tmp_path / "student"
    make_classifier(student, tokenizer_dir, names=tuple(sorted(NAMES)), num_hidden_layers=2)
    by_teacher = _distill(tmp_path / "one", answered, teacher=teacher, student=student, method="kd")
    by_answers = _distill(tmp_path / "other", answered, student=student, soft_labels="logits")
    assert by_answers.settings["method"] == "kd"
    assert "teacher" not in by_answers.parents
    assert by_answers.result["teacher_parameters"] is None
    assert by_answers.result["phases"]["task"]["steps"] == by_teacher.result["phases"]["task"]["steps"] > 0
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "other"))
    start = load_file(student / "model.safetensors")
    assert max((one[name] - tensor).abs().max().item() for name, tensor in start.items()) > 1e-3
    # The answers were given text by text, and batches round otherwise: Adam makes much of little where gradients are near 0.
    apart = {name: (other[name] - tensor).abs().max().item() for name, tensor in one.items()}
    assert max(apart.values()) < 2e-4
    rows = [json.loads(line) for line in answered.read_text().splitlines()]
    turned = _lines(tmp_path / "answered.jsonl", [{**row, "logits": row["logits"][::-1]} for row in rows])
    _distill(tmp_path / "turned", turned, student=student, soft_labels="logits")
    other = load_file(tmp_path / "turned" / "model.safetensors")
    assert max((other[name] - tensor).abs().max().item() for name, tensor in one.items()) > 2e-3


@pytest.mark.slow
def test_an_encoder_is_what_a_student_of_answers_starts_from(encoder, answered, tmp_path):
    _distill(tmp_path / "student", answered, teacher=encoder, soft_labels="logits")
    student = AutoModelForSequenceClassification.from_pretrained(tmp_path / "student")
    assert student.config.num_hidden_layers == 1
    assert student.config.id2label == dict(enumerate(find_task(str(answered)).labels))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kd", "kd-hidden"])
@pytest.mark.parametrize("form", ["txt", "jsonl", "folder"])
def test_a_teacher_answers_unlabelled_texts(method, form, teacher, answered, tmp_path):
    texts = [f"unseen {text}" for text in TEXTS[:40]]
    more = tmp_path / (
        "more.txt" if form == "txt" else "more/scores/part-0.jsonl" if form == "folder" else "more.jsonl"
    )
    more.parent.mkdir(parents=True, exist_ok=True)
    more.write_text("\n\n".join(texts)) if form == "txt" else _lines(more, [{"text": text} for text in texts])
    more = tmp_path / "more" if form == "folder" else more
    alone = _distill(tmp_path / "alone", answered, teacher=teacher, method=method)
    record = _distill(tmp_path / "student", answered, teacher=teacher, method=method, unlabelled=str(more))
    labelled = len(load_split(str(answered), find_task(str(answered)), "train"))
    steps = [made.result["phases"]["task"]["steps"] for made in (alone, record)]
    assert steps == [-(-labelled // 8), -(-(labelled + 40) // 8)]
    assert read_record(tmp_path / "student").parents["unlabelled"]["path"] == str(more)


@pytest.mark.slow
def test_well_read_students_read_transfer_text(teacher, answered, tmp_path):
    """Its texts are in the masked words and in the soft labels, and no label is; then come the labels, without the texts."""
    more = tmp_path / "more.txt"
    more.write_text("\n".join(f"unseen {text}" for text in TEXTS[:40]))
    given = {"teacher": teacher, "method": "well-read", "unlabelled": str(more)}
    record = _distill(tmp_path / "all", answered, **given)
    labelled = len(load_split(str(answered), find_task(str(answered)), "train"))
    phases = record.result["phases"]
    assert {name: phase["examples"] for name, phase in phases.items()} == {
        "pretrain": labelled + 40,
        "distil": labelled + 40,
        "task": labelled,
    }
    assert phases["distil"]["terms"] == "1·soft_targets"
    assert phases["task"]["terms"] == "1·labels"


def test_transfer_text_teaches_by_answers_alone():
    """Kullback-Leibler divergence of all rows by torch, whatever their labels are and whether they have one."""
    models = [randomise(AlbertPlusForSequenceClassification(small_config(num_labels=3))) for _ in range(2)]
    with torch.no_grad():
        models[1].classifier.bias.add_(torch.tensor([1.0, -1.0, 0.5]))
    ours, theirs = (model(**pair_inputs(120)).logits.detach().log_softmax(-1) for model in models)
    distiller = Distiller(*models, METHODS["well-read"].phases(Layers(student=4, teacher=4), {})[1]).eval()
    for labels, labelled in (([2, -1, 0], [True, False, True]), ([1, 1, 2], [False, False, False])):
        batch = {**pair_inputs(120), "labels": torch.tensor(labels), "labelled": torch.tensor(labelled)}
        expected = kl_div(ours, theirs, log_target=True, reduction="batchmean")
        torch.testing.assert_close(distiller(**batch)["loss"], expected, rtol=1e-5, atol=1e-7)


def test_a_column_called_text_stands_for_the_tasks_own(tmp_path):
    task = replace(_task(), columns=("tokens",))
    rows = [
        {"tokens": 3, "text": "as scores are written", "label": "spam"},
        {"tokens": 2, "text": "two words", "label": "rude"},
    ]
    assert more_texts(str(_lines(tmp_path / "scores.jsonl", rows)), task)["tokens"][:] == [
        "as scores are written",
        "two words",
    ]
    rows = [{"tokens": ["the", "task's"], "text": "another"}]
    assert more_texts(str(_lines(tmp_path / "own.jsonl", rows)), task)["tokens"][:] == ["the task's"]
    with pytest.raises(InvalidInput, match="text in .*pair"):
        more_texts(str(_lines(tmp_path / "pair.jsonl", [{"text": "one"}])), replace(task, columns=("first", "pair")))


@pytest.mark.slow
def test_texts_that_were_answered_before_need_no_teacher(encoder, answered, logits, tmp_path):
    more = _lines(
        tmp_path / "more.jsonl", [{"text": f"more {t}", "logits": z} for t, z in zip(TEXTS, logits, strict=True)]
    )
    record = _distill(tmp_path / "out", answered, student=encoder, soft_labels="logits", unlabelled=str(more))
    assert record.result["phases"]["task"]["steps"] > len(TEXTS) // 8


@pytest.mark.slow
def test_some_texts_that_were_answered_before_and_some_that_were_not(encoder, answered, logits, tmp_path):
    """Answers that were read and answers that the teacher gives now stand side by side."""
    more = _lines(tmp_path / "more.jsonl", [{"text": f"more {text}"} for text in TEXTS])
    given = {"student": encoder, "teacher": encoder, "unlabelled": str(more)}
    teacher = _distill(tmp_path / "teacher", answered, student=encoder, soft_labels="logits")
    assert teacher.result["phases"]["task"]["steps"] > 0
    given["teacher"] = tmp_path / "teacher"
    record = _distill(tmp_path / "out", answered, soft_labels="logits", **given)
    assert record.result["phases"]["task"]["steps"] > len(TEXTS) // 8


def test_labels_count_where_there_are_some():
    """Soft targets of every row, and the cross-entropy of the labelled ones alone, by torch."""
    models = [randomise(AlbertPlusForSequenceClassification(small_config(num_labels=3))) for _ in range(2)]
    with torch.no_grad():
        models[1].classifier.bias.add_(torch.tensor([1.0, -1.0, 0.5]))
    batch = {**pair_inputs(120), "labels": torch.tensor([2, -1, 0]), "labelled": torch.tensor([True, False, True])}
    phase = METHODS["kd"].phases(Layers(student=4, teacher=4), {})[-1]
    distiller = Distiller(*models, phase).eval()
    distiller(**batch)
    ours, theirs = (model(**pair_inputs(120)).logits.detach() for model in models)
    terms = distiller.take_terms()
    assert terms["loss_labels"] == pytest.approx(cross_entropy(ours[[0, 2]], torch.tensor([2, 0])).item(), rel=1e-5)
    whole = {**pair_inputs(120), "labels": torch.tensor([2, 1, 0])}
    distiller(**whole)
    assert distiller.take_terms()["loss_soft_targets"] == pytest.approx(terms["loss_soft_targets"])
    none = {**whole, "labelled": torch.zeros(3, dtype=torch.bool)}
    assert torch.isfinite(distiller(**none)["loss"])
    assert distiller.take_terms()["loss_labels"] == 0
    assert not torch.allclose(ours, theirs)


# What users do wrong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"soft_labels": "logits"}, "student must be a model directory.*--student half"),
        ({"student": "encoder"}, "no --soft-labels"),
        ({"student": "encoder", "soft_labels": "logits", "method": "kd-hidden"}, "by predictions alone.*--method kd"),
        ({"student": "encoder", "soft_labels": "logit"}, "did you mean .*logits"),
        (
            {"student": "encoder", "soft_labels": "logits", "unlabelled": "more"},
            "every row must have the column 'logits'",
        ),
        ({"teacher": "teacher", "unlabelled": "more", "method": "labels"}, "learns a task from a teacher's answers"),
        ({"teacher": "two labels", "soft_labels": "logits"}, "with the 3 labels of answered, got .* with 2 labels"),
        ({"teacher": "teacher", "unlabelled": "nowhere.csv"}, "nowhere.csv"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(
    options, message, teacher, encoder, classifier_dir, answered, tmp_path
):
    more = _lines(tmp_path / "more.jsonl", [{"text": text} for text in TEXTS[:5]])
    paths = {"teacher": teacher, "encoder": encoder, "more": str(more), "two labels": classifier_dir}
    given = {name: paths.get(value, value) if name != "soft_labels" else value for name, value in options.items()}
    with pytest.raises(InvalidInput, match=message):
        _distill(tmp_path / "out", answered, **given)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_benchmark_takes_more_texts_and_no_column(teachers, data_dir, tmp_path):
    more = tmp_path / "more.txt"
    more.write_text("\n".join(TEXTS))
    task = get_task("sst2")
    how = DistilSettings("kd", epochs=0.1, unlabelled=str(more))
    record = distill(
        str(teachers / "sst2"), data=str(data_dir), task=task, output=tmp_path / "out", settings=QUICK, method=how
    )
    assert record.parents["unlabelled"]["path"] == str(more)
    how = DistilSettings(soft_labels="logits")
    with pytest.raises(InvalidInput, match="column of data of your own, got --task sst2"):
        distill(
            str(teachers / "sst2"), data=str(data_dir), task=task, output=tmp_path / "no", settings=QUICK, method=how
        )


@pytest.mark.slow
def test_labels_in_another_order_are_told(encoder, tmp_path, logits, capsys):
    turned = [{"text": t, "label": y, "p": [float(y == name) for name in ("spam", "toxic", "rude")]} for t, y in zip(TEXTS, LABELS, strict=True)]  # fmt: skip
    data = _lines(tmp_path / "turned.jsonl", turned)
    _distill(tmp_path / "out", data, student=encoder, soft_labels="p")
    assert (
        "0.0 % of the training rows: its labels may be in another order than rude, spam, toxic"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_the_command_line_needs_no_teacher(encoder, answered, tmp_path):
    words = ["distill", "--student", encoder, "--data", answered, "--soft-labels", "logits", "--epochs", "1"]
    result = invoke(*words, "--max-length", "32", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert read_record(tmp_path / "out").settings["soft_labels"] == "logits"
    assert DataSettings().label_column == ()
