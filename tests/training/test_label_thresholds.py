"""Thresholds of several labels against every threshold there is, and the way from training to what is scored, exported and served."""

import json

import numpy
import pytest
from sklearn.metrics import f1_score

from hf_albert_plus.compression.pruning import prune
from hf_albert_plus.compression.quantisation.stage import qat
from hf_albert_plus.compression.settings import PruneSettings, QatSettings
from hf_albert_plus.config_files import load_config
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.engines.classifier_config import label_thresholds_of
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.eval.scoring import score_targets
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import parse_targets
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.training import label_thresholds as module
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.label_thresholds import fit_label_thresholds
from hf_albert_plus.training.settings import TrainSettings

QUICK = {"epochs": 1, "batch_size": 8, "max_length": 16, "learning_rate": 1e-3, "precision": "fp32"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_threshold_has_a_higher_f1(seed):
    random = numpy.random.default_rng(seed)
    labels = (random.random((150, 3)) < (0.5, 0.2, 0.08)).astype(int)
    probabilities = 1 / (1 + numpy.exp(-(random.normal(size=(150, 3)) + 2 * labels - 2).round(1)))  # ties
    for threshold, said, held in zip(fit_label_thresholds(probabilities, labels), probabilities.T, labels.T, strict=True):  # fmt: skip
        best = max(f1_score(held, said >= cut, zero_division=0) for cut in [*numpy.unique(said), 0.5])
        assert f1_score(held, said >= threshold) == pytest.approx(best)
        assert 0 < threshold < 1
        assert threshold == 0.5 or f1_score(held, said >= 0.5, zero_division=0) < best


def test_a_half_stays_where_it_is_as_good_or_rows_are_few():
    said = numpy.array([0.05] * 20 + [0.3] * 6)
    rare = numpy.array([0] * 20 + [1] * 6)
    few = numpy.array([0] * 22 + [1] * 4)
    thresholds = fit_label_thresholds(numpy.stack([said, said, 2 * said], axis=1), numpy.stack([rare, few, rare], axis=1))  # fmt: skip
    assert thresholds == [pytest.approx((0.05 + 0.3) / 2), 0.5, 0.5]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, encoder_dir):
    """A classifier of three labels, of which one is rare, and its data."""
    folder = tmp_path_factory.mktemp("labels")
    random = numpy.random.default_rng(0)
    words = {"good": 0.5, "bad": 0.4, "cast": 0.12}
    rows = []
    for number in range(160):
        held = [name for name, share in words.items() if random.random() < share]
        rows.append({"text": " ".join([f"the film {number}", *held]), "label": held})
    (folder / "my.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = find_task(str(folder / "my.jsonl"))
    settings = TrainSettings(**{**QUICK, "epochs": 2})
    finetune(str(encoder_dir), data=str(folder / "my.jsonl"), task=task, output=folder / "model", settings=settings)
    return folder, task


@pytest.mark.slow
def test_what_was_fitted_decides_scores_and_answers_alike(trained):
    folder, task = trained
    thresholds = label_thresholds_of(load_config(folder / "model", option="DIR"))
    assert len(thresholds) == 3
    assert set(thresholds) != {0.5}  # a rare label of a short training reaches no half
    scores = score_targets(
        parse_targets([str(folder / "model")]),
        data=str(folder / "my.jsonl"),
        task=task,
        settings=EvalSettings(max_length=16),
    )
    (row,) = scores.rows
    texts = load_split(str(folder / "my.jsonl"), task, "validation")["text"][:]
    answers = TextClassifier(folder / "model", "torch", cores=1, max_length=None).classify(texts)
    served = [sorted(task.labels.index(given["label"]) for given in answer) for answer in answers]
    assert row.runs[0].predictions == served
    logits = numpy.array(row.runs[0].logits)
    assert [numpy.flatnonzero(line).tolist() for line in 1 / (1 + numpy.exp(-logits)) >= thresholds] == served


def prune_it(model, **where):
    prune(model, settings=PruneSettings(**QUICK, heads=0.5, columns=0.5, examples=16), **where)


def distil_it(model, **where):
    distill(model, settings=TrainSettings(**QUICK), method=DistilSettings("kd", StudentSettings("half"), epochs=1), **where)  # fmt: skip


def qat_it(model, **where):
    qat(model, settings=QatSettings(**QUICK), **where)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [prune_it, distil_it, qat_it])
def test_every_training_fits_its_own(trained, tmp_path, stage):
    folder, task = trained
    stage(str(folder / "model"), data=str(folder / "my.jsonl"), task=task, output=tmp_path / "out")
    of_teacher, found = (
        label_thresholds_of(load_config(path, option="DIR")) for path in (folder / "model", tmp_path / "out")
    )
    assert len(found) == 3
    assert found != of_teacher


@pytest.mark.slow
def test_an_export_carries_them(trained, tmp_path):
    folder, _ = trained
    export(folder / "model", to=["onnx"], output=tmp_path / "exported", settings=ExportSettings())
    of_export, of_model = (load_config(path, option="DIR") for path in (tmp_path / "exported", folder / "model"))
    assert label_thresholds_of(of_export) == label_thresholds_of(of_model)


def test_a_task_without_several_labels_has_none(classifier_dir):
    from hf_albert_plus.checkpoints import load_classifier

    model = load_classifier(classifier_dir, option="--model")
    model.config.label_thresholds = [0.3, 0.4]
    module.set_label_thresholds(model, None, tokenizer=None, task=get_task("sst2"))
    assert not hasattr(model.config, "label_thresholds")
