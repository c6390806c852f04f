"""What the config of a model of spans says of answers: how long one may be, and from where on there is none.

The longest answer is that of the training rows, or 30 tokens where these are shorter. The threshold of no answer is the one that gives the
validation rows the highest F1, as SQuAD 2.0's official script finds it: what a model is scored on these rows is a little rosy for it.
"""

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy
from transformers import PreTrainedTokenizerBase

from ..engines.classifier_config import MOST_ANSWER_TOKENS, answer_rule_of
from ..engines.span_answers import best_spans
from ..engines.text_answers import LONGEST_ANSWER, AnswerSpan
from ..errors import InvalidInput
from ..records.progress import say
from ..tasks.answer_texts import text_f1
from ..tasks.question_windows import NOWHERE, POSITIONS
from ..tasks.rows import encode
from ..tasks.splits import evaluated_splits, load_split
from ..tasks.task import Task
from .collators import collator_of
from .row_logits import batches_of_logits


def check_threshold(threshold: float | None, task: Task) -> None:
    """Refuses a threshold of no answer that is no number, or of a task whose questions always have one.

    Raises:
        InvalidInput: it is such a one.
    """
    if threshold is None:
        return
    if not task.may_lack_answer:
        raise InvalidInput(
            "--no-answer-threshold is for questions of which some have no answer in their context",
            got=f"{threshold:g} for {task.name}",
            repair="leave it out",
        )
    if not math.isfinite(threshold):
        raise InvalidInput("--no-answer-threshold must be a finite number", got=threshold, repair="use 0")


def set_answer_limits(
    model: Any, rows: Any, *, data: str, task: Task, tokenizer: PreTrainedTokenizerBase, max_length: int,
    threshold: float | None = None,
) -> None:  # fmt: skip
    """Puts `longest_answer` and `no_answer_threshold` into the config of a model that was trained on a task of spans; the config of another
    task has neither.

    Args:
        rows: encoded training rows.
        threshold: of no answer, where somebody gives one.
    """
    for name in ("longest_answer", "no_answer_threshold"):
        if hasattr(model.config, name):
            delattr(model.config, name)
    if not task.has_spans:
        return
    starts, ends = (numpy.asarray(rows[name][:]) for name in POSITIONS)
    longest = int((ends - starts + 1)[starts != NOWHERE].max(initial=LONGEST_ANSWER))
    model.config.longest_answer = min(longest, MOST_ANSWER_TOKENS)
    if task.may_lack_answer:
        model.config.no_answer_threshold = threshold
        set_missing_threshold(model, data=data, task=task, tokenizer=tokenizer, max_length=max_length)


def lacks_threshold(config: Any, task: Task) -> bool:
    """Whether a config does not say from where on there is no answer, which a task needs to know."""
    return bool(task.may_lack_answer) and getattr(config, "no_answer_threshold", None) is None


def set_missing_threshold(
    model: Any, *, data: str, task: Task, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> None:
    """Puts `no_answer_threshold` into the config of a model of spans that lacks it: what suits the validation rows best, or 0 without any."""
    if not lacks_threshold(model.config, task):
        return
    model.config.no_answer_threshold = 0.0
    splits = evaluated_splits(data, task)
    if not splits:
        return
    held = load_split(data, task, next(iter(splits.values())))
    encoded = encode(held, task, tokenizer, max_length=max_length).to_list()
    found = best_threshold(
        spans_of(model, encoded, collator_of(task, tokenizer)), [each["text"] for each in held["label"]]
    )
    model.config.no_answer_threshold = found
    say(
        f"no answer where its logit exceeds the best span's by more than {found:.3g}, which suits the validation rows best"
    )


def spans_of(model: Any, rows: Sequence[dict[str, Any]], collator: Any) -> list[AnswerSpan]:
    """The best span of each question.

    Args:
        rows: encoded, the windows of one question after each other.
    """
    logits: list[numpy.ndarray] = []
    for batch, logits_BS2 in batches_of_logits(model, list(rows), collator):
        kept_BS = batch["attention_mask"].bool()
        logits += [each[kept].numpy() for each, kept in zip(logits_BS2, kept_BS, strict=True)]
    return best_spans(rows, logits, answer_rule_of(model.config))


def best_threshold(spans: Sequence[AnswerSpan], right: Sequence[Sequence[str]]) -> float:
    """The threshold with the highest mean F1 on some questions, midway between two margins: 0 where it is one of the best, else the one of these
    next to it.

    Args:
        right: the right answers of each question, none where none is right.
    """
    gains = ((span.margin, gain) for span, gain in zip(spans, _gains(spans, right), strict=True) if span.text)
    pairs = sorted(gains, key=itemgetter(0))
    margins = numpy.array([margin for margin, _ in pairs])
    # Of the thresholds below all margins, and after each of them.
    gained = numpy.concatenate([[0.0], numpy.cumsum([gain for _, gain in pairs])])
    is_end = numpy.concatenate([[True], margins[1:] > margins[:-1], [True]])[: len(gained)]
    lows, highs = numpy.concatenate([[-numpy.inf], margins]), numpy.concatenate([margins, [numpy.inf]])
    best = numpy.flatnonzero(is_end & numpy.isclose(gained, gained[is_end].max(), rtol=0, atol=1e-9))
    ranges = [_finite(lows[place], highs[place]) for place in best]
    return min((0.0 if low <= 0.0 < high else (low + high) / 2 for low, high in ranges), key=abs)


def _gains(spans: Sequence[AnswerSpan], right: Sequence[Sequence[str]]) -> list[float]:
    """By how much the F1 of each question is more with its span than with no answer."""
    return [text_f1(span.text, texts) - text_f1("", texts) for span, texts in zip(spans, right, strict=True)]


def _finite(low: float, high: float) -> tuple[float, float]:
    """A range of thresholds, one beyond the last margin where it has no end."""
    if numpy.isinf(low) and numpy.isinf(high):
        return -1.0, 1.0
    return (high - 2.0, high) if numpy.isinf(low) else (low, low + 2.0) if numpy.isinf(high) else (low, high)
