"""What a model of spans gives under the Open Inference Protocol: answers of questions, and of token ids the logits of start and end."""

from typing import Any

import numpy

from ..engines.text_answers import AnswerRule, TextAnswers
from ..heads import SPAN_LOGITS

# What a model of spans gives of questions.
_OF_QUESTIONS = (
    ("answer", "BYTES"),
    ("start", "INT64"),
    ("end", "INT64"),
    ("score", "FP32"),
    ("no_answer_score", "FP32"),
)


def tensors_of_spans() -> list[dict[str, Any]]:
    """The outputs as metadata have them: those of questions, then those of token ids."""
    of_questions = [{"name": name, "datatype": kind, "shape": [-1]} for name, kind in _OF_QUESTIONS]
    return of_questions + [{"name": name, "datatype": "FP32", "shape": [-1, -1]} for name in SPAN_LOGITS]


def limits_of(rule: AnswerRule) -> dict[str, Any]:
    """What a model of spans says of its answers."""
    return {"longest_answer": rule.longest_answer, "no_answer_threshold": rule.no_answer_threshold}


def outputs_of_spans(answers: TextAnswers, threshold: float | None) -> dict[str, tuple[str, numpy.ndarray]]:
    """What a model of spans gives: of questions their answers, empty and from -1 to -1 for none, of token ids the logits of start and end,
    0 beyond their tokens."""
    if not answers.spans:
        longest = max(map(len, answers.values))
        padded = numpy.stack([numpy.pad(each, ((0, longest - len(each)), (0, 0))) for each in answers.values])
        return {name: ("FP32", padded[..., side].astype(numpy.float32)) for side, name in enumerate(SPAN_LOGITS)}
    given = [span if span.is_given(threshold) else None for span in answers.spans]
    scores = [
        span.no_answer_score if said is None else said.score for span, said in zip(answers.spans, given, strict=True)
    ]
    places = numpy.array([(-1, -1) if said is None else (said.start, said.end) for said in given], dtype=numpy.int64)
    return {
        "answer": ("BYTES", numpy.array(["" if said is None else said.text for said in given], dtype=object)),
        "start": ("INT64", places[:, 0]),
        "end": ("INT64", places[:, 1]),
        "score": ("FP32", numpy.array(scores, dtype=numpy.float32)),
        "no_answer_score": ("FP32", numpy.array([span.no_answer_score for span in answers.spans], dtype=numpy.float32)),
    }
