"""What the config of a classifier of texts says: its labels, and how its logits become answers."""

from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from ..heads import architecture_of, gives_labels, is_answerer, is_tagger
from ..model_inputs import length_taken, longest_input
from ..tasks.answer_spans import START_AND_END
from ..tasks.long_texts import CUT, LongTexts
from ..tasks.tag_schemes import scheme_of_labels
from ..tasks.task_file import read_long_task
from .text_answers import LONGEST_ANSWER, QUESTION_ANSWERING, TAGGING, AnswerRule, is_finite_number

# Of an answer: what a config may say at most.
MOST_ANSWER_TOKENS = 512
# From which probability one of several labels is given, where the config does not say.
DEFAULT_THRESHOLD = 0.5


def labels_of(config: Any) -> tuple[str, ...]:
    """The names of a classifier's labels, in the order of its logits."""
    return tuple(str(config.id2label[number]) for number in range(config.num_labels))


def problem_type_of(config: Any) -> str:
    """A classifier's problem type: the config's own where it names one, else what transformers takes it for. One of tokens, and one of spans, has its
    own."""
    if is_tagger(config):
        return TAGGING
    if is_answerer(config):
        return QUESTION_ANSWERING
    if config.problem_type is not None:
        return str(config.problem_type)
    return "regression" if config.num_labels == 1 else "single_label_classification"


def answer_rule_of(config: Any) -> AnswerRule:
    """How a classifier's logits become answers; of a tagger by the scheme that the names of its labels tell, and of one of spans by the limits
    that its config has.

    Raises:
        InvalidInput: thresholds or limits that do not fit.
    """
    if is_answerer(config):
        longest, threshold = span_limits_of(config)
        return AnswerRule(START_AND_END, QUESTION_ANSWERING, longest_answer=longest, no_answer_threshold=threshold)
    labels = labels_of(config)
    scheme = scheme_of_labels(labels) if is_tagger(config) else "plain"
    return AnswerRule(labels, problem_type_of(config), label_thresholds_of(config), scheme)


def span_limits_of(config: Any) -> tuple[int, float | None]:
    """What a config says of spans: `longest_answer`, tokens of an answer at most, by default 30; and `no_answer_threshold`, by which the logit
    of no answer may exceed that of the best one (see `AnswerRule`), None of a model that always answers.

    Raises:
        InvalidInput: no whole number of tokens, or no finite threshold.
    """
    longest, threshold = getattr(config, "longest_answer", None), getattr(config, "no_answer_threshold", None)
    if longest is not None and (type(longest) is not int or not 1 <= longest <= MOST_ANSWER_TOKENS):
        raise InvalidInput(
            f"longest_answer of config.json must be a number of tokens from 1 to {MOST_ANSWER_TOKENS}",
            got=repr(longest),
            repair=f"use {LONGEST_ANSWER}, or leave it out",
        )
    if threshold is not None and not is_finite_number(threshold):
        raise InvalidInput(
            "no_answer_threshold of config.json must be a finite number",
            got=repr(threshold),
            repair="use 0.0, or leave it out for a model that always answers",
        )
    return LONGEST_ANSWER if longest is None else longest, None if threshold is None else float(threshold)


def label_thresholds_of(config: Any) -> tuple[float, ...]:
    """The probability from which each of several labels is given: `label_thresholds` of the config, in the order of the labels, or 0.5.

    Returns:
        A threshold for each label, none where the model's labels exclude each other or its answer is a number.

    Raises:
        InvalidInput: another number of thresholds than of labels, one that no probability can both reach and miss, or some of a model
            whose labels have none.
    """
    given, problem_type = getattr(config, "label_thresholds", None), problem_type_of(config)
    if problem_type != "multi_label_classification":
        if given is not None:
            raise InvalidInput(
                "label_thresholds of config.json are of a multi_label_classification",
                got=f"a {problem_type} with label_thresholds",
                repair='remove them, or set problem_type to "multi_label_classification"',
            )
        return ()
    if given is None:
        return (DEFAULT_THRESHOLD,) * config.num_labels
    if not isinstance(given, list | tuple) or len(given) != config.num_labels:
        raise InvalidInput(
            f"label_thresholds of config.json must be a list with a threshold for each of the {config.num_labels} labels",
            got=f"{len(given)} of them" if isinstance(given, list | tuple) else repr(given),
            repair=f"give one a label in the order of id2label, or leave them out for {DEFAULT_THRESHOLD} each",
        )
    for label, threshold in zip(labels_of(config), given, strict=True):
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold < 1:
            raise InvalidInput(
                f"each of label_thresholds of config.json must be a probability above 0 and below 1, that of {label!r} too",
                got=repr(threshold),
                repair=f"use {DEFAULT_THRESHOLD}, or leave them all out",
            )
    return tuple(float(threshold) for threshold in given)


def check_label_names(config: Any, directory: str | Path) -> None:
    """Refuses two labels of one name, which an answer could not tell apart.

    Raises:
        InvalidInput: there are such labels.
    """
    labels = labels_of(config)
    if len(set(labels)) != len(labels):
        raise InvalidInput(
            f"id2label in {Path(directory) / 'config.json'} must name every label, each by another name",
            got=config.id2label,
            repair="give each number from 0 a name",
        )


def check_gives_labels(config: Any, directory: str | Path) -> None:
    """Refuses a model that is no classifier.

    Raises:
        InvalidInput: it is none.
    """
    if not gives_labels(config):
        raise InvalidInput(
            "texts are classified by sequence classifiers, their words by token classifiers, and questions answered by models of spans",
            got=f"{architecture_of(config)} in {directory}",
            repair="fine-tune one: albert-plus finetune",
        )


def long_texts_of(directory: str | Path) -> LongTexts:
    """What happens to texts that are longer than a classifier takes, as it was trained.

    Raises:
        InvalidInput: a task.json that describes no task.
    """
    task = read_long_task(directory)
    return CUT if task is None else task.long


def classifier_length(config: Any, directory: str | Path, *, max_length: int | None) -> int:
    """Tokens of a row that a classifier takes. Unless told otherwise these are all of its positions; where long texts are not just cut, so many
    as it was trained with.

    Raises:
        InvalidInput: it has fewer positions, or windows would share too many of their tokens.
    """
    taken = length_taken(config, directory, max_length=max_length)
    task = read_long_task(directory)
    if task is None:
        return taken
    taken = max_length or min(task.max_length, longest_input(config))
    task.long.check(taken)
    return taken
