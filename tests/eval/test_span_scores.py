"""Scores of spans against SQuAD's official rules, worked by hand and by its script's functions, and of questions that a bootstrap draws."""

import json
from dataclasses import replace
from random import Random

import numpy
import pytest

from hf_albert_plus.engines.text_answers import AnswerSpan
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.answers import label_array, predictions, rule_for
from hf_albert_plus.eval.measured_documents import ScoredRun
from hf_albert_plus.eval.metrics import METRICS, comparable, compute_metrics
from hf_albert_plus.eval.predictions import as_numbers, from_numbers, read_predictions, write_predictions
from hf_albert_plus.eval.resampling import Sample, intervals
from hf_albert_plus.eval.span_scores import as_objects
from hf_albert_plus.tasks.answer_texts import exact_match, normalised, text_f1
from hf_albert_plus.tasks.task import Task, measures_of
from hf_albert_plus.training.answer_limits import best_threshold
from tests.support import official_squad
from tests.support.small_models import small_config

TASK = Task(
    name="mine", columns=("question", "context"), labels=("start", "end"), kind="spans", label_columns=("answers",), may_lack_answer=True,
    metrics=measures_of("spans", may_lack_answer=True), epochs=1, batch_size=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The Denver  Broncos!", "denver broncos"),
        ("a man, an apple; the end.", "man apple end"),
        ("theatre another", "theatre another"),
        ("U.S.A.", "usa"),
        ("twenty-one", "twentyone"),
        ("«Über» — 3.14", "«über» — 314"),
        ("The", ""),
        ("a.the b", "athe b"),
    ],
)
def test_texts_are_compared_without_case_punctuation_and_articles(text, said):
    assert normalised(text) == said


@pytest.mark.parametrize(
    ("said", "right", "f1", "match"),
    [
        ("Denver Broncos", ["Denver Broncos", "The Denver Broncos", "Broncos"], 1, 1),
        ("the Broncos of Denver", ["Denver Broncos"], 2 * (2 / 3) * 1 / (2 / 3 + 1), 0),
        ("Broncos", ["Denver Broncos"], 2 / 3, 0),
        ("Carolina", ["Denver Broncos"], 0, 0),
        # The best of all right answers, each by itself.
        ("in Santa Clara", ["Levi's Stadium", "Santa Clara, California"], 2 / 3, 0),
        # A word counts as often as both have it.
        ("very very good", ["very good"], 2 * (2 / 3) * 1 / (2 / 3 + 1), 0),
        ("", [], 1, 1),
        ("Denver", [], 0, 0),
        ("", ["Denver"], 0, 0),
        # What is nothing but an article and a mark is as much as no answer.
        ("the", [], 1, 1),
        ("Denver", ["The.", "Denver"], 1, 1),
        ("", ["The."], 1, 1),
    ],
)
def test_a_question_has_the_best_of_its_right_answers(said, right, f1, match):
    assert text_f1(said, right) == pytest.approx(f1)
    assert exact_match(said, right) == match


# Articles and words that begin as one, punctuation of ASCII and of others, blanks that are none of ASCII's or have no width, marks that
# combine, letters that lower case makes two of, scripts without blanks.
PIECES = [
    "a", "an", "the", "The", "AN", "theatre", "a.m.", "U.S.", "an_", "_the_", "Denver", "denver", "Broncos", "3.14", "1,000", "-", "'s", "\u2019s", "...", "\u2014",
    "\u00ab", "!", "\u00a0", "\u3000", "\u200b", "\t", "e\u0301", "\u0301", "\u0130", "\u00df", "\ufb01", "\u6771\u4eac", "\u5929\u6c14", "\u3002", "\u0e44\u0e17\u0e22", "\U0001f469\u200d\U0001f467", "",
]  # fmt: skip


def drawn_text(random):
    return random.choice(["", " ", "  "]).join(random.choice(PIECES) for _ in range(random.randrange(5)))


def drawn_question(random):
    """What is said, and the right answers: of these some are what is said in other words, some are empty, and sometimes there are none."""
    said = drawn_text(random)
    alike = [said, said.upper(), f"the {said}.", " ".join(said.split()[:2]), drawn_text(random), drawn_text(random)]
    return said, random.sample(alike, random.randrange(4))


@pytest.mark.slow
def test_texts_are_scored_as_the_official_script_scores_them():
    random, seen = Random(0), set()
    for _ in range(20_000):
        said, right = drawn_question(random)
        assert normalised(said) == official_squad.normalize_answer(said), repr(said)
        match, f1 = official_squad.get_raw_scores(right, said)
        assert exact_match(said, right) == match, (said, right)
        assert text_f1(said, right) == pytest.approx(f1, abs=1e-12), (said, right)
        seen.add((match, f1 == match, bool(right), bool(normalised(said))))
    assert len(seen) == 7, "matches and parts of answers, with words and without, of questions with answers and without"


def test_the_threshold_is_as_good_as_the_official_scripts():
    """On texts that have words and margins of which no two are alike: the script takes a step between two questions of one margin, where no
    threshold lies, and counts what is nothing but an article as an answer."""
    random, answered = Random(1), 0
    for _ in range(500):
        asked = {}
        while len(asked) < 12:
            said, right = drawn_question(random)
            if all(normalised(text) for text in ([said] if said else []) + right):
                asked[f"q{len(asked)}"] = (said, right)
        margins = dict(zip(asked, random.sample([step / 8 for step in range(-40, 40)], len(asked)), strict=True))
        has_answer = {name: bool(right) for name, (_, right) in asked.items()}
        texts = {name: said for name, (said, _) in asked.items()}
        scores = {name: official_squad.get_raw_scores(right, said)[1] for name, (said, right) in asked.items()}
        points, _ = official_squad.find_best_thresh(texts, scores, margins, has_answer)
        spans = [AnswerSpan(texts[name], 0, len(texts[name]), 0.5, 0.5, margins[name]) for name in asked]
        found = best_threshold(spans, [right for _, right in asked.values()])
        ours = official_squad.apply_no_ans_threshold(scores, margins, has_answer, found)
        assert 100 * sum(ours.values()) / len(ours) == pytest.approx(points, abs=1e-9)
        answered += sum(margin <= found for margin in margins.values())
    assert 0 < answered < 12 * 500


SAID = ["Denver Broncos", "", "in Santa Clara", "Denver", ""]
RIGHT = [["the Denver Broncos"], [], ["Santa Clara"], [], ["gold"]]
F1 = [1, 1, 0.8, 0, 0]
MATCHES = [1, 1, 0, 0, 0]
ANSWERED = [1, 0, 1, 0, 1]


def test_metrics_by_hand():
    metrics = compute_metrics(as_objects(SAID), as_objects(RIGHT), TASK)
    assert metrics == pytest.approx(
        {
            "answer_f1": 56.0,
            "exact_match": 40.0,
            "answered_f1": 60.0,
            "answered_exact_match": 100 / 3,
            "no_answer_accuracy": 50.0,
        }
    )
    only = compute_metrics(as_objects(SAID[:1]), as_objects(RIGHT[:1]), TASK)
    assert only["no_answer_accuracy"] is None
    with pytest.raises(InvalidInput, match="predictions must answer the 5 rows"):
        compute_metrics(as_objects(SAID[:4]), as_objects(RIGHT), TASK)


def test_a_draw_scores_questions_as_often_as_it_has_them():
    counts, unread = comparable(as_objects(SAID), as_objects(RIGHT), TASK)
    weights = numpy.random.default_rng(0).multinomial(5, [1 / 5] * 5, size=4).astype(float)
    for drawn, value in zip(weights, METRICS["answer_f1"](counts, unread, weights), strict=True):
        assert value == pytest.approx(100 * numpy.dot(drawn, F1) / 5)
    for drawn, value in zip(weights, METRICS["no_answer_accuracy"](counts, unread, weights), strict=True):
        without = drawn * (1 - numpy.array(ANSWERED))
        if without.sum():
            assert value == pytest.approx(100 * numpy.dot(without, MATCHES) / without.sum())
        else:
            assert numpy.isnan(value)
    found = intervals(Sample(counts[None], unread), TASK)
    low, high = found["answer_f1"]
    assert low < 56 < high
    assert found["no_answer_accuracy"] is None, "some draw has no question without an answer"


def spans(*margins):
    return [
        AnswerSpan(text, 0, len(text), 0.5, 0.25, margin)
        for text, margin in zip(("a b", "c", "d"), margins, strict=True)
    ]


def test_no_answer_is_given_beyond_the_threshold():
    assert list(predictions(spans(-1.0, 0.0, 0.5), TASK)) == ["a b", "c", ""]

    config = small_config(
        architectures=["AlbertPlusForQuestionAnswering"], num_labels=2, no_answer_threshold=-0.5, longest_answer=3
    )
    rule = rule_for(TASK, config)
    assert rule.longest_answer == 3
    assert list(predictions(spans(-1.0, 0.0, 0.5), TASK, rule=rule)) == ["a b", "", ""]
    config.no_answer_threshold = None
    # A model that was trained elsewhere does not say it.
    assert list(predictions(spans(-1.0, 0.0, 9.5), TASK, rule=rule_for(TASK, config))) == ["a b", "c", ""]
    always = replace(TASK, may_lack_answer=False)
    assert list(predictions(spans(-1.0, 0.0, 9.5), always, rule=rule_for(always, config))) == ["a b", "c", "d"]
    with pytest.raises(InvalidInput, match="logits must be finite"):
        predictions([AnswerSpan("a", 0, 1, float("nan"), 0.0, 0.0)], TASK)


def test_numbers_and_files_hold_what_was_predicted(tmp_path):
    said = as_objects(['a "b"\tc\nd', "", "1912", "é"])
    assert as_numbers(said, TASK) == list(said)
    assert list(from_numbers(as_numbers(said, TASK), TASK)) == list(said)
    labels = label_array([{"text": ["a", "b"], "answer_start": [0, 2]}, {"text": [], "answer_start": []}], TASK)
    assert as_numbers(labels, TASK) == [["a", "b"], []]
    write_predictions(tmp_path / "mine.tsv", said, TASK)
    assert list(read_predictions(tmp_path / "mine.tsv", TASK)) == list(said)
    (tmp_path / "mine.tsv").write_text("index\tprediction\n0\tin Bremen\n")
    with pytest.raises(InvalidInput, match='must be the text of an answer in JSON, as "in Bremen"'):
        read_predictions(tmp_path / "mine.tsv", TASK)


def test_a_document_keeps_texts_that_look_like_numbers():
    from pydantic import TypeAdapter

    run = {
        "directory": "d",
        "seed": None,
        "model_sha256": "",
        "architecture_sha256": "",
        "predictions": ["1912", "", "x"],
    }
    assert TypeAdapter(ScoredRun).validate_json(json.dumps(run)).predictions == ["1912", "", "x"]
