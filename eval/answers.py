"""What a classifier of a task predicts from its logits, by the rule that serving has, and how good that is."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy
from transformers import PreTrainedConfig

from hf_albert_plus.engines.classifier_config import (
    DEFAULT_THRESHOLD,
    answer_rule_of,
    label_thresholds_of,
    problem_type_of,
)
from hf_albert_plus.engines.text_answers import QUESTION_ANSWERING, TAGGING, AnswerRule, AnswerSpan
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.eval.span_scores import as_objects, right_texts
from hf_albert_plus.eval.tag_scores import padded_tags
from hf_albert_plus.tasks.task import Task


def rule_for(task: Task, config: PreTrainedConfig | None = None) -> AnswerRule:
    """How logits become predictions of a task.

    Args:
        config: of the classifier, which may have thresholds of its own for several labels; without it each is a half. That of spans may say from
            where on there is no answer; otherwise that is where its logit is the larger one, in a task whose questions may have none.

    Raises:
        InvalidInput: thresholds that do not fit.
    """
    if task.has_spans:
        rule = AnswerRule(task.labels, QUESTION_ANSWERING) if config is None else answer_rule_of(config)
        is_silent = task.may_lack_answer and rule.no_answer_threshold is None
        return replace(rule, no_answer_threshold=0.0) if is_silent else rule
    thresholds: tuple[float, ...] = ()
    if task.has_several_labels:
        knows = config is not None and problem_type_of(config) == task.problem_type
        thresholds = label_thresholds_of(config) if knows else (DEFAULT_THRESHOLD,) * task.num_labels
    return AnswerRule(tuple(task.label_names), task.problem_type or TAGGING, thresholds)


def predictions(logits: Any, task: Task, *, rule: AnswerRule | None = None) -> numpy.ndarray:
    """Logits `[examples, num_labels]` -> label ids, or the one value for regression, `[examples]`; of several labels 1 for each whose
    probability reaches its threshold and 0 for the others, `[examples, num_labels]`; of tags, whose logits are `[words, num_labels]` for
    each example, their ids as `padded_tags` gives them; of spans, which come in place of logits, the text of each answer, empty for none.

    Raises:
        InvalidInput: logits that are not finite.
    """
    if task.has_spans:
        return _answers(logits, rule or rule_for(task))
    if not all(numpy.isfinite(each).all() for each in logits):
        raise InvalidInput(
            "logits must be finite", got="NaN or infinity", repair="train in fp32, or at a lower learning rate"
        )
    decide = (rule or rule_for(task)).decide
    if task.has_tags and decide is not None:
        return padded_tags([decide(each) for each in logits])
    return logits[:, 0].astype(float) if decide is None else decide(logits).astype(int)


def _answers(spans: Sequence[AnswerSpan], rule: AnswerRule) -> numpy.ndarray:
    if any(numpy.isnan(span.score) for span in spans):
        raise InvalidInput(
            "logits must be finite", got="NaN or infinity", repair="train in fp32, or at a lower learning rate"
        )
    return as_objects([span.text if span.is_given(rule.no_answer_threshold) else "" for span in spans])


def label_array(labels: Any, task: Task) -> numpy.ndarray:
    """The labels of a split as metrics take them."""
    if task.has_spans:
        return right_texts(labels)
    return padded_tags(labels) if task.has_tags else numpy.asarray(labels)


def first_metric(logits: Any, labels: Any, task: Task, *, rule: AnswerRule | None = None) -> float:
    """The task's score, of which more is better: points of its first metric, 0 where it is not defined. An error counts below 0, as
    scikit-learn's scorers have it."""
    predicted = predictions(logits, task, rule=rule)
    ranked_by, name = None if task.answers_parts else logits, task.metrics[0]
    metrics = compute_metrics(predicted, label_array(labels, task), task, logits=ranked_by, names=[name])
    value = float(metrics[name] or 0.0)
    return -value if task.is_scored_by_error else value
