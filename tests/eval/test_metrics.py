"""Metrics, intervals and averages against scikit-learn, scipy, numpy by hand, a brute-force bootstrap and published rows."""

import json
import warnings

import numpy
import pytest
import scipy.stats
import sklearn.metrics

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.answers import first_metric, predictions, rule_for
from hf_albert_plus.eval.metrics import METRICS, RANKINGS, compute_metrics
from hf_albert_plus.eval.resampling import Sample, difference, intervals, verdict
from hf_albert_plus.tasks.averages import AVERAGES
from hf_albert_plus.tasks.glue import TASKS, get_task
from hf_albert_plus.tasks.task import MEASURES, Task, measures_of


def _independent(predicted, labels, metric):
    """What scikit-learn and scipy give, in points; None where scipy calls it constant."""
    if metric == "accuracy":
        return 100 * sklearn.metrics.accuracy_score(labels, predicted)
    if metric == "f1":
        return 100 * sklearn.metrics.f1_score(labels, predicted, zero_division=0)
    if metric.endswith("_f1"):
        return 100 * sklearn.metrics.f1_score(labels, predicted, average=metric.removesuffix("_f1"), zero_division=0)
    if metric == "rmse":
        return sklearn.metrics.root_mean_squared_error(labels, predicted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a single class, a constant side
        if metric == "matthews":
            return 100 * sklearn.metrics.matthews_corrcoef(labels, predicted)
        found = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[metric](predicted, labels)
    return None if numpy.isnan(found.statistic) else 100 * found.statistic


def _cases(task, rows=200):
    """Predictions and labels of a task: random, one class predicted, one class labelled, few rows, all right, all wrong."""
    generator = numpy.random.default_rng(len(task.name))
    if task.is_regression:
        labels = generator.integers(0, 26, rows) / 5  # many ties
        noisy = labels + generator.normal(size=rows)
        constant = numpy.full(rows, 2.5)
        return [(noisy, labels), (noisy.round(), labels), (constant, labels), (noisy, constant), (-labels, labels),
                (noisy[:2], labels[:2]), (noisy[:3], labels[:3]), (labels, labels)]  # fmt: skip
    labels = generator.integers(0, task.num_labels, rows)
    noisy = numpy.where(generator.random(rows) < 0.7, labels, generator.integers(0, task.num_labels, rows))
    one, zero = numpy.ones(rows, dtype=int), numpy.zeros(rows, dtype=int)
    return [(noisy, labels), (one, labels), (zero, labels), (noisy, one), (noisy, zero), (zero, zero), (one, zero),
            ((labels + 1) % task.num_labels, labels), (labels, labels), (noisy[:1], labels[:1])]  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_every_task_scores_as_independent_implementations_do(name):
    task = get_task(name)
    for predicted, labels in _cases(task):
        found = compute_metrics(predicted, labels, task)
        for metric in task.metrics:
            expected = _independent(predicted, labels, metric)
            assert found[metric] == (None if expected is None else pytest.approx(expected, abs=1e-9))


def test_by_hand():
    labels, predicted = numpy.array([0, 1, 1, 0, 1, 1]), numpy.array([0, 1, 0, 1, 1, 1])
    assert compute_metrics(predicted, labels, get_task("mrpc")) == {
        "accuracy": pytest.approx(400 / 6), "f1": pytest.approx(100 * 2 * 3 / (2 * 3 + 1 + 1)),
    }  # fmt: skip
    # tp 3, tn 1, fp 1, fn 1: (3·1 - 1·1) / sqrt(4·4·2·2) = 2 / 8
    assert compute_metrics(predicted, labels, get_task("cola")) == {"matthews": pytest.approx(25.0)}
    # ranks of (1, 1, 4) are 1.5, 1.5, 3; of (0, 2, 5) 1, 2, 3: their correlation is (√3)/2
    tied = compute_metrics(numpy.array([1.0, 1, 4]), numpy.array([0.0, 2, 5]), get_task("stsb"))
    assert tied["spearman"] == pytest.approx(100 * 3**0.5 / 2)


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(InvalidInput, match="needs examples"):
        compute_metrics(numpy.empty(0), numpy.empty(0), get_task("sst2"))
    with pytest.raises(InvalidInput, match="answer the 3 rows of the split, got 2"):
        compute_metrics(numpy.zeros(2), numpy.zeros(3), get_task("sst2"))
    with pytest.raises(InvalidInput, match="must be finite"):
        predictions(numpy.array([[numpy.nan, 1]]), get_task("sst2"))


# `test_tag_scores` and `test_span_scores` have those of tags and of spans, which are of counts.
_OF_COUNTS = {*measures_of("tags"), *measures_of("spans", may_lack_answer=True)}


@pytest.mark.parametrize("metric", sorted(set(METRICS) - RANKINGS - _OF_COUNTS))
def test_weights_are_repetitions(metric):
    """A metric under weights is that of the examples repeated so often: scikit-learn and scipy see the repeated ones."""
    generator = numpy.random.default_rng(3)
    regression = metric in MEASURES["number"]
    labels = generator.integers(0, 5, 40).astype(float) if regression else generator.integers(0, 2, 40)
    predicted = labels + generator.integers(-1, 2, 40) if regression else generator.integers(0, 2, 40)
    weights = generator.integers(0, 4, (30, 40))
    found = METRICS[metric](predicted, labels, weights.astype(float))
    for line, value in zip(weights, found, strict=True):
        assert value == pytest.approx(_independent(predicted.repeat(line), labels.repeat(line), metric), abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sst2", "mrpc", "cola", "stsb"])
def test_intervals_are_those_of_a_plain_bootstrap(name):
    task = get_task(name)
    predicted, labels = _cases(task, rows=150)[0]
    found = intervals(Sample(predicted[None], labels), task)
    generator = numpy.random.default_rng(11)
    for metric in task.metrics:
        draws = [_independent(predicted[i], labels[i], metric) for i in generator.integers(0, 150, (1500, 150))]
        expected = numpy.percentile(draws, [2.5, 97.5])
        spread = expected[1] - expected[0]
        assert found[metric] == pytest.approx(list(expected), abs=0.12 * spread)


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Of 300 samples of a classifier that is right in 80 % of cases, about 95 % have intervals that hold 80."""
    task, generator = get_task("sst2"), numpy.random.default_rng(5)
    labels = numpy.zeros(200, dtype=int)
    held = 0
    for number in range(300):
        predicted = (generator.random(200) > 0.8).astype(int)
        low, high = intervals(Sample(predicted[None], labels), task, seed=number)["accuracy"]
        held += low <= 80 <= high
    assert 0.90 <= held / 300 <= 0.98


def test_a_difference_inside_the_noise_is_no_gain():
    task, generator = get_task("sst2"), numpy.random.default_rng(1)
    labels = generator.integers(0, 2, 800)
    base = numpy.where(generator.random(800) < 0.85, labels, 1 - labels)
    better = numpy.where((base != labels) & (generator.random(800) < 0.4), labels, base)
    worse = numpy.where((base == labels) & (generator.random(800) < 0.06), 1 - labels, base)
    found = {
        name: difference(Sample(row[None], labels), Sample(base[None], labels), task).verdict
        for name, row in (("better", better), ("worse", worse), ("itself", base))
    }
    assert found == {"better": "higher", "worse": "lower", "itself": "within noise"}
    found = []
    for number in range(100):
        pair = [numpy.where(generator.random(800) < 0.85, labels, 1 - labels) for _ in range(2)]
        samples = [Sample(row[None], labels) for row in pair]
        found.append(difference(*samples, task, seed=number).verdict)
    assert found.count("within noise") >= 90  # 95 are meant
    assert verdict([0.0, 1.0]) == verdict([-1.0, 0.0]) == "within noise"


def test_pairing_finds_what_separate_intervals_do_not():
    """A row that mends 3 % of the baseline's errors and breaks nothing is higher, though the two intervals overlap."""
    task, generator = get_task("sst2"), numpy.random.default_rng(2)
    labels = generator.integers(0, 2, 600)
    base = numpy.where(generator.random(600) < 0.8, labels, 1 - labels)
    mended = base.copy()
    wrong = numpy.flatnonzero(base != labels)[:12]
    mended[wrong] = labels[wrong]
    rows = [Sample(row[None], labels) for row in (mended, base)]
    (low, _), (_, high) = (intervals(row, task)["accuracy"] for row in rows)
    assert low < high
    assert difference(*rows, task).verdict == "higher"


def test_seeds_widen_an_interval():
    """Runs that differ add their own spread to that of the examples."""
    task, generator = get_task("sst2"), numpy.random.default_rng(4)
    labels = numpy.zeros(2000, dtype=int)
    runs = numpy.stack([(generator.random(2000) > share).astype(int) for share in (0.70, 0.80, 0.90)])
    widths = [numpy.ptp(intervals(Sample(some, labels), task)["accuracy"]) for some in (runs[1:2], runs)]
    assert widths[1] > 2 * widths[0]


def _scores(**rows):
    """Rows as papers print them: one figure, or several for the task's metrics in order."""
    metrics = {row: task.metrics for task in TASKS.values() for row in task.rows}
    return {
        row.replace("_", "-"): dict(zip(metrics[row.replace("_", "-")], numpy.atleast_1d(value), strict=False))
        for row, value in rows.items()
    }


@pytest.mark.parametrize(
    ("name", "scores", "published"),
    [
        # gluebenchmark.com, BERT-large: MRPC, STS-B and QQP in the order of the metrics here.
        ("leaderboard", _scores(cola=60.5, sst2=94.9, mrpc=(85.4, 89.3), stsb=(87.6, 86.5), qqp=(89.3, 72.1), mnli=86.7,
                                mnli_mm=85.9, qnli=92.7, rte=70.1, wnli=65.1), 80.5),
        # BERT, Table 1, base.
        ("bert", _scores(cola=52.1, sst2=93.5, mrpc=(0, 88.9), stsb=(0, 85.8), qqp=(0, 71.2), mnli=84.6, mnli_mm=83.4,
                         qnli=90.5, rte=66.4), 79.6),
        # TinyBERT, Table 1, 4 layers.
        ("bert", _scores(cola=44.1, sst2=92.6, mrpc=(0, 86.4), stsb=(0, 80.4), qqp=(0, 71.3), mnli=82.5, mnli_mm=81.8,
                         qnli=87.7, rte=66.6), 77.0),
        # DistilBERT, Table 1: it prints the means of pairs.
        ("distilbert", _scores(cola=51.3, sst2=91.3, mrpc=87.5, stsb=86.9, qqp=88.5, mnli=82.2, qnli=89.2, rte=59.9,
                               wnli=56.3), 77.0),
        # BERT-of-Theseus, Table 2, BERT-base: it prints the means of pairs and of MNLI's halves.
        ("theseus", _scores(cola=54.3, sst2=91.5, mrpc=89.5, stsb=88.9, qqp=89.8, mnli=83.5, mnli_mm=83.5, qnli=91.2,
                            rte=71.1), 82.5),
    ],
)  # fmt: skip
def test_averages_are_the_published_ones(name, scores, published):
    assert AVERAGES[name].of(scores) == pytest.approx(published, abs=0.05)


def test_an_average_without_all_of_its_parts_is_none():
    scores = _scores(cola=1, sst2=1, mrpc=(1, 1), stsb=(1, 1), qqp=(1, 1), mnli=1, mnli_mm=1, qnli=1, rte=1, wnli=1)
    assert {name: average.of(scores) for name, average in AVERAGES.items()} == dict.fromkeys(AVERAGES, 1)
    for row in scores:
        fewer = {name: values for name, values in scores.items() if name != row}
        for average in AVERAGES.values():
            assert (average.of(fewer) is None) == (row in average.rows)
    assert AVERAGES["bert"].of({**scores, "stsb": {"pearson": 90.0, "spearman": None}}) is None
    assert [name for name, average in AVERAGES.items() if "wnli" in average.rows] == ["leaderboard", "distilbert"]


@pytest.mark.parametrize("name", ["mrpc", "cola", "stsb", "mnli_mismatched"])
def test_the_metric_module_loads_offline_with_evaluate(name, tmp_path, monkeypatch):
    import evaluate
    from evaluate import config

    from hf_albert_plus.eval import glue_metric

    monkeypatch.setattr(config, "HF_MODULES_CACHE", tmp_path)
    metric = evaluate.load(glue_metric.__file__, name, cache_dir=str(tmp_path), keep_in_memory=True)
    task = get_task(name.removesuffix("_mismatched"))
    predicted, labels = _cases(task)[0]
    found = metric.compute(predictions=predicted.tolist(), references=labels.tolist())
    hub_names = {"matthews": "matthews_correlation", "spearman": "spearmanr"}
    assert found == {
        hub_names.get(each, each): pytest.approx(_independent(predicted, labels, each) / 100, abs=1e-6)
        for each in task.metrics
    }
    json.dumps(found)


def _own(kind, count):
    labels = tuple(f"label {i}" for i in range(count))
    return Task(name="own", columns=("text",), labels=labels, kind=kind, metrics=MEASURES[kind], epochs=1, batch_size=8)


@pytest.mark.parametrize("classes", [2, 7, 40])
def test_metrics_of_classes_are_scikit_learns(classes):
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    random = numpy.random.default_rng(classes)
    labels = random.integers(classes, size=300)
    predicted = numpy.where(random.random(300) < 0.6, labels, random.integers(classes, size=300))
    ours = compute_metrics(predicted, labels, _own("classes", classes))
    theirs = {
        "accuracy": accuracy_score(labels, predicted),
        "macro_f1": f1_score(labels, predicted, average="macro"),
        "weighted_f1": f1_score(labels, predicted, average="weighted"),
        "matthews": matthews_corrcoef(labels, predicted),
    }
    assert ours == pytest.approx({name: 100 * value for name, value in theirs.items()})


def test_metrics_of_several_labels_are_scikit_learns():
    from sklearn.metrics import f1_score

    random = numpy.random.default_rng(0)
    labels = (random.random((200, 9)) < 0.2).astype(int)
    labels[:, 8] = 0  # a label that nothing has
    predicted = numpy.where(random.random((200, 9)) < 0.8, labels, 1 - labels)
    predicted[:, 8] = 0
    logits = (random.normal(size=(200, 9)) + 2 * labels).round(1)  # many ties
    ours = compute_metrics(predicted, labels, _own("labels", 9), logits=logits)
    theirs = {
        f"{how}_f1": 100 * f1_score(labels, predicted, average=how, zero_division=0) for how in ("micro", "macro")
    }
    theirs["average_precision"] = 100 * _average_precision(logits, labels)
    assert ours == pytest.approx(theirs)
    assert compute_metrics(predicted, labels, _own("labels", 9))["average_precision"] is None
    nothing = compute_metrics(predicted, numpy.zeros_like(labels), _own("labels", 9), logits=logits)
    assert nothing["average_precision"] is None


def _average_precision(logits, labels, weights=None):
    """scikit-learn's, over the labels that a row has."""
    held = (labels if weights is None else labels[weights > 0]).any(axis=0)
    return sklearn.metrics.average_precision_score(labels[:, held], logits[:, held], average="macro", sample_weight=weights)  # fmt: skip


def test_a_drawn_ranking_is_that_of_weighted_rows():
    random = numpy.random.default_rng(3)
    labels = (random.random((70, 6)) < 0.1).astype(int)
    logits = (random.normal(size=(70, 6)) + labels).round(1)
    weights = random.multinomial(70, [1 / 70] * 70, size=20).astype(float)
    found = METRICS["average_precision"](logits, labels, weights)
    assert found == pytest.approx([100 * _average_precision(logits, labels, line) for line in weights])


@pytest.mark.slow
def test_intervals_of_a_ranking_are_those_of_a_plain_bootstrap():
    random = numpy.random.default_rng(4)
    labels = (random.random((120, 4)) < 0.3).astype(int)
    logits = (random.normal(size=(120, 4)) + labels).round(5)
    task = _own("labels", 4)
    predicted = predictions(logits, task)
    found = intervals(Sample(predicted[None], labels, logits[None]), task)["average_precision"]
    drawn = [100 * _average_precision(logits[i], labels[i]) for i in random.integers(0, 120, (800, 120))]
    expected = numpy.percentile(drawn, [2.5, 97.5])
    assert found == pytest.approx(list(expected), abs=0.15 * numpy.ptp(expected))
    assert intervals(Sample(predicted[None], labels), task)["average_precision"] is None


def test_less_of_an_error_is_better():
    """The score counts it below 0, the verdict says which way is better, and its interval keeps the digits of a small unit."""
    random = numpy.random.default_rng(6)
    task = _own("number", 0).measured_by("rmse")
    labels = random.normal(size=400) * 1e-4
    near, far = (labels + random.normal(size=400) * spread * 1e-4 for spread in (0.3, 0.9))
    errors = [first_metric(said[:, None], labels, task) for said in (near, far)]
    assert errors == pytest.approx([-(((said - labels) ** 2).mean() ** 0.5) for said in (near, far)])
    samples = [Sample(said[None], labels) for said in (near, far)]
    better, worse = difference(*samples, task), difference(*samples[::-1], task)
    assert (better.verdict, worse.verdict) == ("lower, better", "higher, worse")
    assert difference(samples[0], samples[0], task).verdict == "within noise"
    low, high = intervals(samples[1], task)["rmse"]
    assert low < -errors[1] < high
    assert high - low < 2e-5


def test_own_thresholds_decide_as_in_serving():
    from hf_albert_plus.engines.classifier_config import answer_rule_of
    from tests.support.small_models import small_config

    task, thresholds = _own("labels", 3), [0.6, 0.45, 0.35]
    config = small_config(problem_type=task.problem_type, num_labels=3, label_thresholds=thresholds)
    logits = numpy.random.default_rng(8).normal(size=(200, 3)).astype(numpy.float32)
    expected = 1 / (1 + numpy.exp(-logits)) >= thresholds
    assert (predictions(logits, task, rule=rule_for(task, config)) == expected).all()
    assert (answer_rule_of(config).decide(logits) == expected).all()
    assert (predictions(logits, task) == (logits >= 0)).all()


@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_a_drawn_metric_is_that_of_the_drawn_rows(kind):
    """Weights of a bootstrap stand for rows that were drawn so often."""
    from hf_albert_plus.eval.metrics import METRICS

    random = numpy.random.default_rng(1)
    shape = (60,) if kind == "classes" else (60, 5)
    most = 4 if kind == "classes" else 2
    labels, predicted = random.integers(most, size=shape), random.integers(most, size=shape)
    weights = random.multinomial(60, [1 / 60] * 60, size=3).astype(float)
    for name in set(_own(kind, 5).metrics) - RANKINGS:
        drawn = METRICS[name](predicted, labels, weights)
        for line, value in zip(weights.astype(int), drawn, strict=True):
            rows = numpy.repeat(numpy.arange(60), line)
            assert value == pytest.approx(METRICS[name](predicted[rows], labels[rows], numpy.ones((1, 60)))[0])


def test_label_sets_come_back_from_a_document():
    from hf_albert_plus.eval.predictions import as_numbers, from_numbers

    task, rows = _own("labels", 3), numpy.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    assert as_numbers(rows, task) == [[0, 2], [], [1]]
    assert (from_numbers([[0, 2], [], [1]], task) == rows).all()


@pytest.mark.parametrize(("noise", "leaves"), [(0.05, True), (0.6, False)])
def test_exits_lose_what_an_error_grows_by(noise, leaves):
    """Rows may leave at an exit whose error is greater by less than `max_drop`, in the unit of the numbers."""
    import torch

    from hf_albert_plus.eval.scoring import logits_scorer_for
    from tests.support.exits import best_threshold

    random = numpy.random.default_rng(9)
    labels = random.normal(size=300)
    said = [labels + random.normal(size=300) * spread for spread in (noise, noise, 0.01)]
    logits_JBC = torch.tensor(numpy.stack(said))[..., None]
    score = logits_scorer_for(_own("number", 0).measured_by("rmse"))
    found = best_threshold(
        logits_JBC, layers=(1, 2, 3), kind="patience", score=lambda logits: score(logits, labels.tolist()), max_drop=0.1,
        exit_costs=[0, 0],
    )  # fmt: skip
    assert found.full_score == pytest.approx(-(((said[2] - labels) ** 2).mean() ** 0.5))
    assert found.full_score - found.best.score <= 0.1 + 1e-9
    assert (found.best.average_layers < 3) == leaves
