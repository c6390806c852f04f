"""What a classifier of texts answers, one label, several or a number: against transformers' pipeline on the model in torch."""

import json
from types import SimpleNamespace

import numpy
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from hf_albert_plus.engines.classifier_config import answer_rule_of
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.invariance import BatchEffect
from hf_albert_plus.engines.parity import Agreement, ClassAgreement, agreement
from hf_albert_plus.engines.text_answers import AnswerRule
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.stage import export
from tests.support.kinds import CLOSE, KINDS, NAMES, PAIR, SEVERAL, TEXTS, THRESHOLDS, make_classifier


@pytest.fixture(scope="module", params=KINDS)
def kind_dir(request, tokenizer_dir, tmp_path_factory):
    """A classifier of a kind, in torch."""
    directory = tmp_path_factory.mktemp("kind")
    make_classifier(directory, tokenizer_dir, **KINDS[request.param])
    return directory


def of_transformers(directory, inputs, **options):
    """What transformers' own pipeline answers with its own model."""
    model = AutoModelForSequenceClassification.from_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    return pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")(inputs, **options)


def check_same(found, expected):
    """Answers of several texts, each a dictionary or a list of some."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        one, other = ([each] if isinstance(each, dict) else each for each in (one, other))
        assert [each["label"] for each in one] == [each["label"] for each in other]
        assert [each["score"] for each in one] == pytest.approx([each["score"] for each in other], abs=CLOSE)


def check_pipeline(directory, runtime):
    engine, tokenizer = Engine.load(directory, runtime), AutoTokenizer.from_pretrained(directory)
    runs = pipeline("text-classification", model=engine, tokenizer=tokenizer, device="cpu")
    for options in ({}, {"top_k": None}, {"top_k": 2}):
        check_same(runs(TEXTS, **options), of_transformers(directory, TEXTS, **options))
    as_dictionary = {"text": PAIR[0], "text_pair": PAIR[1]}
    check_same([runs(as_dictionary)], [of_transformers(directory, as_dictionary)])


def test_an_engine_in_a_pipeline_answers_as_the_model_does(kind_dir):
    check_pipeline(kind_dir, "torch")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["several, own thresholds", "a number"])
def test_an_exported_engine_answers_as_the_model_does(kind, tokenizer_dir, tmp_path):
    make_classifier(tmp_path / "model", tokenizer_dir, **KINDS[kind])
    export(tmp_path / "model", to=["onnx"], output=tmp_path / "exported")
    check_pipeline(tmp_path / "exported", "onnx")
    config = json.loads((tmp_path / "exported" / "config.json").read_text())
    assert config.get("label_thresholds") == KINDS[kind].get("label_thresholds")
    found, expected = (
        TextClassifier(tmp_path / name, runtime, cores=1, max_length=None).classify(TEXTS)
        for name, runtime in (("exported", "onnx"), ("model", "torch"))
    )
    check_same(found, expected)


def test_all_labels_are_those_of_the_pipeline(kind_dir):
    classifier = TextClassifier(kind_dir, "torch", cores=1, max_length=None)
    for top_k in (None, 2):
        check_same(classifier.classify(TEXTS, top_k=top_k), of_transformers(kind_dir, TEXTS, top_k=top_k))
    rule = classifier.facts.rule
    if (not rule.has_several and len(rule.labels) == 1) or rule.has_best:
        check_same(classifier.classify(TEXTS), of_transformers(kind_dir, TEXTS))
    (pair,) = classifier.classify([PAIR], top_k=None)
    check_same([pair], [of_transformers(kind_dir, {"text": PAIR[0], "text_pair": PAIR[1]}, top_k=None)])
    assert classifier.classify([]) == []
    with pytest.raises(InvalidInput, match="top_k must be at least 1, got 0"):
        classifier.classify(TEXTS, top_k=0)


def test_a_number_is_the_models_own(tokenizer_dir, tmp_path):
    model = make_classifier(tmp_path, tokenizer_dir, **KINDS["a number"])
    with torch.no_grad():
        model.classifier.bias.add_(40.0)
        expected = [
            float(model(**AutoTokenizer.from_pretrained(tmp_path)(text, return_tensors="pt")).logits[0, 0])
            for text in TEXTS
        ]
    model.save_pretrained(tmp_path)
    answers = TextClassifier(tmp_path, "torch", cores=1, max_length=None).classify(TEXTS)
    assert [each["label"] for (each,) in answers] == ["similarity"] * len(TEXTS)
    assert [each["score"] for (each,) in answers] == pytest.approx(expected, abs=CLOSE)
    assert min(expected) > 20


def test_several_labels_are_those_that_reach_their_thresholds(tokenizer_dir, tmp_path):
    make_classifier(tmp_path, tokenizer_dir, **KINDS["several, own thresholds"])
    classifier = TextClassifier(tmp_path, "torch", cores=1, max_length=None)
    least = dict(zip(NAMES, THRESHOLDS, strict=True))
    everything = of_transformers(tmp_path, TEXTS, top_k=None)
    expected = [[each for each in row if each["score"] >= least[each["label"]]] for row in everything]
    check_same(classifier.classify(TEXTS), expected)
    counts = {len(row) for row in expected}
    assert 0 in counts
    assert max(counts) > 1


def rule_of(**fields):
    names = fields.pop("names", NAMES)
    config = {"id2label": dict(enumerate(names)), "num_labels": len(names), "problem_type": SEVERAL, **fields}
    return answer_rule_of(SimpleNamespace(**config))


def test_a_probability_at_its_threshold_is_given():
    rule = rule_of(label_thresholds=[0.5, 0.25, 0.75])
    scores = numpy.array([0.5, numpy.nextafter(0.25, 0), 0.75])
    assert rule.given(scores).tolist() == [True, False, True]
    assert [each["label"] for each in rule.answer(scores)] == ["spam", "toxic"]
    assert rule.answer(numpy.zeros(3)) == []
    assert [each["label"] for each in rule.answer(numpy.full(3, 0.9))] == list(
        NAMES
    )  # equals stay in the model's order
    assert rule_of().thresholds == (0.5, 0.5, 0.5)


def test_the_largest_logits_have_probabilities():
    rule = AnswerRule(("a", "b"), SEVERAL, (0.5, 0.5))
    assert rule.scores(numpy.array([[1e30, -1e30]], dtype=numpy.float32)).tolist() == [[1.0, 0.0]]


def test_thousands_of_classes_are_answered_by_the_best():
    rule = rule_of(names=tuple(f"c{number}" for number in range(5000)), problem_type=None)
    scores = numpy.zeros(5000)
    scores[[4321, 7]] = 0.6, 0.3
    assert rule.answer(scores) == [{"label": "c4321", "score": 0.6}]
    assert [each["label"] for each in rule.answer(scores, top_k=2)] == ["c4321", "c7"]
    assert len(rule.answer(scores, top_k=None)) == 5000


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"label_thresholds": [0.5, 0.5]}, "a threshold for each of the 3 labels, got 2 of them; give one a label in the order"),
        ({"label_thresholds": 0.5}, "must be a list with a threshold for each of the 3 labels, got 0.5"),
        ({"label_thresholds": [0.5, 1.0, 0.5]}, "above 0 and below 1, that of 'rude' too, got 1.0; use 0.5"),
        ({"label_thresholds": [0.5, 0.5, 0]}, "that of 'spam' too, got 0"),
        ({"label_thresholds": [True, 0.5, 0.5]}, "that of 'toxic' too, got True"),
        ({"label_thresholds": ["0.5", 0.5, 0.5]}, "that of 'toxic' too, got '0.5'"),
        ({"label_thresholds": [0.5] * 3, "problem_type": None}, "are of a multi_label_classification, got a single_label_classification with"),
        ({"label_thresholds": [0.5], "problem_type": "regression", "names": ("x",)}, "got a regression with label_thresholds; remove them"),
    ],
)  # fmt: skip
def test_answers_that_cannot_be(fields, words):
    with pytest.raises(InvalidInput, match=words):
        rule_of(**fields)


def test_another_set_of_labels_is_another_prediction():
    decide = rule_of(label_thresholds=[0.5, 0.9, 0.5]).decide
    one = [torch.tensor([2.0, 1.0, -1.0]), torch.tensor([-1.0, -1.0, -1.0])]
    # The largest stays the largest, and a label that is given less is another set; below its threshold nothing changes.
    for change, changed in (([0, 0, 1.5], 1), ([0, 1.9, 0], 1), ([0, 0.5, 0], 0), ([3.0, 0, 0], 0)):
        other = [one[0] + torch.tensor(change), one[1]]
        assert BatchEffect.of(one, other, decide=decide).changed_predictions == changed
    assert BatchEffect.of(one, [one[0] - 9, one[1]], decide=None).changed_predictions == 0


class Said:
    """A model that says the same of every batch."""

    def __init__(self, logits, **fields):
        names = dict(enumerate(NAMES[: len(logits[0])]))
        self.logits = torch.tensor(logits)
        self.config = SimpleNamespace(
            architectures=["XForSequenceClassification"], id2label=names, num_labels=len(names), **fields
        )

    def __call__(self, **_):
        return type("Output", (dict,), {"logits": self.logits})(logits=self.logits)


def test_agreement_counts_sets_of_labels():
    batch = [{"attention_mask": torch.ones(2, 5)}]
    model, other = (
        Said(logits, problem_type=SEVERAL) for logits in ([[1.0, -1, -1], [1, 2, 3]], [[1.0, 1, -1], [3, 2, 1]])
    )
    assert agreement(model, other, batch) == ClassAgreement(2, 2.0, same=1)
    model.config.problem_type = "single_label_classification"
    assert agreement(model, other, batch) == ClassAgreement(2, 2.0, same=1)
    number = Said([[1.0], [2.0]], problem_type="regression")
    assert agreement(number, Said([[1.5], [2.0]], problem_type="regression"), batch) == Agreement(2, 0.5)
