"""The answer to a question, of the logits of all windows of its context.

n windows of S tokens, T tokens of a context, L tokens of the longest answer.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy
from numpy.lib.stride_tricks import sliding_window_view

from ..tasks.question_windows import CHARACTERS, FIRST, NOWHERE, NUMBER, TEXT, TEXT_START, TOKEN
from .marks import is_joined, without_unseen_end
from .text_answers import AnswerRule, AnswerSpan

_NEVER = -numpy.inf


def side_by_side(outputs: Sequence[numpy.ndarray]) -> numpy.ndarray:
    """The logits of a model: its only output, or start and end of spans as `[batch, S, 2]`."""
    return outputs[0] if len(outputs) == 1 else numpy.stack(outputs, axis=-1)


def best_spans(
    rows: Sequence[Mapping[str, Any]], logits: Sequence[numpy.ndarray], rule: AnswerRule
) -> list[AnswerSpan]:
    """The best span of each question, in their order.

    Args:
        rows: the windows of one question after each other.
        logits: of each, as `best_span` takes them.
    """
    spans = []
    for _, group in groupby(zip(rows, logits, strict=True), key=lambda pair: pair[0][NUMBER]):
        pairs = list(group)
        spans.append(best_span([row for row, _ in pairs], [logits_S2 for _, logits_S2 in pairs], rule))
    return spans


def best_span(rows: Sequence[Mapping[str, Any]], logits: Sequence[numpy.ndarray], rule: AnswerRule) -> AnswerSpan:
    """The span with the largest sum of its start's and its end's logit, in the window that gives it most (Devlin et al. 2019, section 4.2).

    No answer has the sum of both logits at the first token, in the window that gives it least, as the script of SQuAD 2.0 there.

    Args:
        rows: the windows of one question, as `question_rows` gives them.
        logits: of each, start and end, `[S, 2]`.
        rule: of the model, which says how long an answer may be and whether there may be none.

    Returns:
        The span; one without a text where no token of the context could be an answer, and one whose numbers are NaN where logits are.
    """
    longest = rule.longest_answer
    tokens = max(row[TOKEN] + len(row[CHARACTERS]) for row in rows)
    sums_TL = numpy.full((tokens, longest), _NEVER)
    for row, logits_S2 in zip(rows, logits, strict=True):
        begin, count = row[TOKEN], len(row[CHARACTERS])
        if count:
            part = sums_TL[begin : begin + count]
            numpy.maximum(part, _sums(row, logits_S2, longest), out=part)
    nothing = min(float(logits_S2[NOWHERE].sum(dtype=numpy.float64)) for logits_S2 in logits)
    may_lack = rule.no_answer_threshold is not None
    best = float(sums_TL.max(initial=_NEVER))
    if numpy.isnan(best + nothing):
        return AnswerSpan("", 0, 0, numpy.nan, numpy.nan, numpy.nan)
    if best == _NEVER:
        return AnswerSpan("", 0, 0, 0.0, 1.0 if may_lack else 0.0, numpy.inf)
    largest = max(best, nothing)
    weights = float(numpy.exp(sums_TL - largest).sum()) + (float(numpy.exp(nothing - largest)) if may_lack else 0.0)
    first, more = divmod(int(sums_TL.argmax()), longest)
    text, start = _text_of(rows, first, first + more)
    return AnswerSpan(
        text=text,
        start=start,
        end=start + len(text),
        score=float(numpy.exp(best - largest)) / weights,
        no_answer_score=float(numpy.exp(nothing - largest)) / weights if may_lack else 0.0,
        margin=nothing - best,
    )


def _sums(row: Mapping[str, Any], logits_S2: numpy.ndarray, longest: int) -> numpy.ndarray:
    """The logits of the spans that begin with each token of a window and are 1, 2, … tokens long, `[tokens, L]`; never those that begin or end
    with a token of no letter."""
    first, characters = row[FIRST], row[CHARACTERS]
    text, shift = row[TEXT], row[TEXT_START]
    blank = [not without_unseen_end(text[start - shift : end - shift]) for start, end in characters]
    start_W, end_W = logits_S2[first : first + len(characters)].astype(numpy.float64).T
    start_W, end_W = numpy.where(blank, _NEVER, start_W), numpy.where(blank, _NEVER, end_W)
    ends_WL = sliding_window_view(numpy.concatenate([end_W, numpy.full(longest - 1, _NEVER)]), longest)
    sums_WL: numpy.ndarray = start_W[:, None] + ends_WL
    return sums_WL


def _text_of(rows: Sequence[Mapping[str, Any]], first: int, last: int) -> tuple[str, int]:
    """The text of a span of tokens, with the marks that belong to its last letter and without blanks at either end or format characters behind it, and its first
    character."""
    row = next(row for row in rows if row[TOKEN] <= first and last < row[TOKEN] + len(row[CHARACTERS]))
    characters, text, shift = row[CHARACTERS], row[TEXT], row[TEXT_START]
    start, end = characters[first - row[TOKEN]][0] - shift, characters[last - row[TOKEN]][1] - shift
    while end < len(text) and is_joined(text[end]):
        end += 1
    said = without_unseen_end(text[start:end])
    return said.lstrip(), start + shift + len(said) - len(said.lstrip())
