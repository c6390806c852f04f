"""Whether a server gives the same answers as the engine that it runs."""

from collections.abc import Sequence
from typing import Any

import numpy

from hf_albert_plus.engines.batch_plans import TOKEN_BUDGET, token_batches
from hf_albert_plus.engines.classifier_config import answer_rule_of
from hf_albert_plus.engines.text_answers import AnswerRule
from hf_albert_plus.eval.batched_inference import predict
from hf_albert_plus.eval.load.clients import Reply
from hf_albert_plus.eval.load.traffic import Client
from hf_albert_plus.heads import is_bare_encoder


def label_agreement(
    replies: Sequence[Reply], client: Client, engine: Any, groups: Sequence[Sequence[int]]
) -> float | None:
    """Share of sentences to which server and engine give the same label, the same set of several, or the same tags; None of a regression and of
    vectors."""
    if is_bare_encoder(engine.config):
        return None
    rule = answer_rule_of(engine.config)
    if not rule.decides:
        return None
    logits = predict(
        engine,
        client.rows,
        client.tokenizer,
        token_batches(client.lengths, budget=TOKEN_BUDGET),
        streams=1,
        description=None,
    )
    said = [_labels(rule, row) for row in logits]
    same = [
        said[number] == _served_labels(rule, one)
        for group, reply in zip(groups, replies, strict=False)
        for number, one in zip(group, reply.json()["predictions"], strict=True)
    ]
    return round(float(numpy.mean(same)), 5)


def _labels(rule: AnswerRule, logits: numpy.ndarray) -> Any:
    """What a sentence's logits, `[C]` or `[words, C]`, give it: a set of labels, or the tag of each word."""
    scores = rule.scores(logits)
    if rule.is_by_token:
        return [rule.labels[number] for number in rule.given(scores)]
    return {each["label"] for each in rule.answer(scores)}


def _served_labels(rule: AnswerRule, prediction: dict[str, Any]) -> Any:
    """What a server gives it."""
    if rule.is_by_token:
        return [word["tag"] for word in prediction["words"]]
    return {each["label"] for each in prediction["labels"]} if rule.has_several else {prediction["label"]}
