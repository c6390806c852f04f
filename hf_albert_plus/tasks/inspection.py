"""A look at data before anything is trained on them: what a record and a report say, and what somebody should see."""

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..records.progress import say
from .doubts import doubts_of_classes, doubts_of_near_copies, doubts_of_numbers, doubts_of_splits
from .joined_answers import windows_a_text
from .long_rows import numbers_of
from .long_texts import MOST_WINDOWS, Way
from .near_copies import stand_nearly_in
from .own_data import holds_out
from .question_windows import MOST_CONTEXT_WINDOWS, NOWHERE, NUMBER, POSITIONS
from .row_texts import texts_of
from .rows import encode
from .splits import evaluated_splits, load_split
from .task import Task
from .word_pieces import UNSEEN

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

# Rows that the share of cut texts is counted on, the first of the training split.
_TOKENISED = 2_000
# A share of cut texts that somebody should see.
_MANY_CUT = 0.05
_SHOWN = 5


@dataclass(frozen=True)
class DataFacts:
    """What is in a task's data.

    Attributes:
        rows: split -> rows.
        classes: label -> training rows with it, or words of a tag, the most frequent first; none for numbers.
        bounds: smallest and largest number of the training rows.
        empty_texts: split -> rows with a text of nothing but blanks.
        repeated: other split -> its rows whose texts stand in the training split too.
        nearly_repeated: other split -> its rows of which a training row has nearly all words, in runs of three, those that are repeated among
            them.
        contradictions: texts that stand in the training split with different labels.
        without_label: training rows with none of several labels.
        cut: share of the training rows that are longer than `max_length` tokens; None where nobody counted.
        doubts: what else to look at, in words.
        long: what happens to these, where they are not just cut.
        windows: that the training texts are read in, where they are, or the contexts of questions: how many in the mean, and the most; None
            where nobody counted.
        words: of the training rows, where each has a tag: how many in the mean, and in the longest.
        cut_words: the share of these that `max_length` leaves out; None where nobody counted.
        lost_answers: the share of the training rows with an answer of which no window has it whole; None where nobody counted.
        without_answer: training rows without an answer; None of other kinds.
    """

    rows: dict[str, int]
    classes: dict[str, int]
    bounds: tuple[float, float] | None
    empty_texts: dict[str, int]
    repeated: dict[str, int]
    contradictions: int
    without_label: int
    nearly_repeated: dict[str, int] = field(default_factory=dict)
    cut: float | None = None
    max_length: int | None = None
    doubts: list[str] = field(default_factory=list)
    long: Way | None = None
    windows: tuple[float, int] | None = None
    words: tuple[float, int] | None = None
    cut_words: float | None = None
    lost_answers: float | None = None
    without_answer: int | None = None

    def describe(self) -> dict[str, Any]:
        of_some = ("long", "windows", "words", "cut_words", "lost_answers", "without_answer")
        return {name: value for name, value in asdict(self).items() if name not in of_some or value is not None}

    @property
    def of_long_texts(self) -> str | None:
        """How many texts are long and what happens to them, in words; None where nobody counted, or they are just cut."""
        if self.cut is None or self.long is None:
            return None
        longer = f"{100 * self.cut:.1f} % of the texts are longer than {self.max_length} tokens"
        if self.windows is None:
            return f"{longer}: of these the beginning and the end are read"
        return (
            f"{longer}: they are read in windows, {self.windows[0]:g} a text in the mean and {self.windows[1]} at most"
        )

    @property
    def warnings(self) -> list[str]:
        """What should be looked at: rule, value and repair of each."""
        said = []
        rare = [name for name, count in self.classes.items() if count < 2]
        if rare:
            names = ", ".join(repr(name) for name in rare[:_SHOWN])
            said.append(
                f"a label should have at least 2 training rows, got {len(rare)} with fewer ({names}): add rows or merge them"
            )
        for split, count in self.empty_texts.items():
            if count:
                said.append(f"texts should have words, got {count} empty ones in {split}: drop these rows")
        for split, count in self.repeated.items():
            if count:
                said.append(
                    f"no text should stand in two splits, got {count} of the {self.rows[split]} of {split} in the training "
                    "rows too: scores of these say nothing of new texts; remove them from one"
                )
        if self.contradictions:
            said.append(f"a text should have one label, got {self.contradictions} with several: correct or drop them")
        if self.cut is not None and self.cut > _MANY_CUT and self.long is None:
            said.append(
                f"most texts should fit into --max-length, got {100 * self.cut:.0f} % longer than {self.max_length} tokens: "
                "raise it if the model has positions, or use --long head-tail or --long windows"
            )
        if self.lost_answers:
            said.append(
                f"answers should be whole in a window of their context, got {100 * self.lost_answers:.1f} % that are longer than what two "
                f"windows of {self.max_length} tokens share, or beyond the {MOST_CONTEXT_WINDOWS} that are read: raise --max-length, or cut contexts"
            )
        if self.cut_words:
            said.append(_unread_words(self.cut_words, self.long, self.max_length))
        if self.windows is not None and self.windows[1] >= _most_windows(has_spans=self.without_answer is not None):
            said.append(_unread(self.max_length, has_spans=self.without_answer is not None))
        return [*said, *self.doubts]


def _most_windows(*, has_spans: bool) -> int:
    return MOST_CONTEXT_WINDOWS if has_spans else MOST_WINDOWS


def _unread(max_length: int | None, *, has_spans: bool) -> str:
    return (
        f"a {'context' if has_spans else 'text'} should have fewer than {_most_windows(has_spans=has_spans)} windows of {max_length} tokens, "
        "got one with as many or more: what is beyond them is not read; cut it into several"
    )


def _unread_words(share: float, long: Way | None, max_length: int | None) -> str:
    repair = (
        f"cut rows into several, as a row has {MOST_WINDOWS} windows at most"
        if long == "windows"
        else "raise it if the model has positions, use --long windows, or cut rows into several"
    )
    return f"words should be read to have a tag of their own, got {100 * share:.2f} % that are not with --max-length {max_length}: {repair}"


def say_unread(rows: "Dataset", task: Task, *, max_length: int) -> None:
    """Says where encoded rows have a text or a context that may not be read to its end, and how many words have no piece."""
    numbers = numbers_of(rows)
    if numbers is not None and windows_a_text(numbers)[1] >= _most_windows(has_spans=task.has_spans):
        say(f"look at this: {_unread(max_length, has_spans=task.has_spans)}")
    if task.has_tags and (share := _cut_words(rows)):
        say(f"look at this: {_unread_words(share, task.long.way, max_length)}")


def _cut_words(rows: "Dataset") -> float:
    """The share of the words of encoded rows that no piece stands for."""
    pieces = [piece for row in rows["first_pieces"] for piece in row]
    return sum(piece == UNSEEN for piece in pieces) / len(pieces)


def inspected(data: str, task: Task, *, tokenizer: "PreTrainedTokenizerBase", max_length: int) -> dict[str, Any]:
    """What a training's record says of data of one's own, under `data`; warnings are printed. A benchmark's data are known."""
    if task.benchmark:
        return {}
    facts = look_at(data, task, tokenizer=tokenizer, max_length=max_length)
    say(f"{task.name}: " + ", ".join(f"{count:,} rows of {split}" for split, count in facts.rows.items()))
    if facts.of_long_texts is not None:
        say(f"{task.name}: {facts.of_long_texts}")
    for warning in facts.warnings:
        say(f"look at this: {warning}")
    return {"data": facts.describe()}


def look_at(
    data: str, task: Task, *, tokenizer: "PreTrainedTokenizerBase | None" = None, max_length: int | None = None
) -> DataFacts:
    """Counts what is in a task's data.

    Args:
        tokenizer, max_length: with both, the share of texts that are cut is counted too.

    Raises:
        InvalidInput: rows that are not the task's.
    """
    train = load_split(data, task, "train")
    splits = {"train": train} | {
        split: load_split(data, task, split) for split in evaluated_splits(data, task).values()
    }
    texts = {split: texts_of(rows, task) for split, rows in splits.items()}
    known = set(texts["train"])
    labels = train["label"][:]
    counts = {split: len(rows) for split, rows in splits.items()}
    classes = _classes(labels, task)
    repeated = {split: sum(text in known for text in rows) for split, rows in texts.items() if split != "train"}
    nearly_repeated = _nearly_repeated(texts)
    if task.is_regression:  # one number among those that judge moves a correlation most
        doubts = doubts_of_numbers([number for rows in splits.values() for number in rows["label"][:]])
    else:
        doubts = doubts_of_classes(classes, task, rows=len(train))
    doubts += doubts_of_near_copies(
        {split: (nearly_repeated[split] - count, counts[split]) for split, count in repeated.items()},
        held_out="validation" if holds_out(data, task) else None,
    )
    return DataFacts(
        rows=counts,
        classes=classes,
        bounds=(min(labels), max(labels)) if task.is_regression else None,
        empty_texts={
            split: sum(not any(part.strip() for part in text) for text in rows) for split, rows in texts.items()
        },
        repeated=repeated,
        nearly_repeated=nearly_repeated,
        contradictions=_contradictions(texts["train"], labels),
        without_label=sum(not any(row) for row in labels) if task.has_several_labels else 0,
        cut=None
        if tokenizer is None or max_length is None or task.has_spans
        else _cut(texts["train"], tokenizer, max_length),
        max_length=max_length,
        doubts=[*doubts, *doubts_of_splits(counts)],
        long=None if task.long.is_cut else task.long.way,
        **(_of_words(train, task, tokenizer, max_length) if task.has_tags else {}),
        **(_of_questions if task.has_spans else _of_windows)(train, task, tokenizer, max_length),
    )


def _of_questions(
    train: "Dataset", task: Task, tokenizer: "PreTrainedTokenizerBase | None", max_length: int | None
) -> dict[str, Any]:
    """What is counted of questions and their contexts."""
    facts: dict[str, Any] = {"without_answer": sum(not answers["text"] for answers in train["label"])}
    if tokenizer is not None and max_length is not None:
        looked_at = train.select(range(min(len(train), _TOKENISED)))
        rows = encode(looked_at, task, tokenizer, max_length=max_length)
        facts["windows"] = windows_a_text(rows[NUMBER])
        found = {number for number, start in zip(rows[NUMBER], rows[POSITIONS[0]], strict=True) if start != NOWHERE}
        answered = sum(bool(answers["text"]) for answers in looked_at["label"])
        facts["lost_answers"] = 1 - len(found) / answered if answered else 0.0
    return facts


def _of_windows(
    train: "Dataset", task: Task, tokenizer: "PreTrainedTokenizerBase | None", max_length: int | None
) -> dict[str, Any]:
    """What is counted of the windows that texts are read in."""
    if tokenizer is None or max_length is None or not task.long.has_windows:
        return {}
    looked_at = train.select(range(min(len(train), _TOKENISED)))
    numbers = numbers_of(encode(looked_at, task, tokenizer, max_length=max_length))
    return {"windows": None if numbers is None else windows_a_text(numbers)}


def _of_words(
    train: "Dataset", task: Task, tokenizer: "PreTrainedTokenizerBase | None", max_length: int | None
) -> dict[str, Any]:
    """What is counted of the words of tagged rows."""
    lengths = [len(tags) for tags in train["label"]]
    facts: dict[str, Any] = {"words": (round(sum(lengths) / len(lengths), 2), max(lengths))}
    if tokenizer is not None and max_length is not None:
        looked_at = train.select(range(min(len(train), _TOKENISED)))
        facts["cut_words"] = _cut_words(encode(looked_at, task, tokenizer, max_length=max_length))
    return facts


def _classes(labels: list[Any], task: Task) -> dict[str, int]:
    if task.is_regression or task.has_spans:
        return {}
    if task.has_tags:
        labels = [tag for row in labels for tag in row]
    ids = (i for row in labels for i, held in enumerate(row) if held) if task.has_several_labels else labels
    counts = Counter(dict.fromkeys(task.labels, 0))
    counts.update(task.labels[i] for i in ids)
    return dict(counts.most_common())


def _nearly_repeated(texts: dict[str, list[tuple[str, ...]]]) -> dict[str, int]:
    joined = {split: [" ".join(parts) for parts in rows] for split, rows in texts.items()}
    return {split: sum(stand_nearly_in(rows, joined["train"])) for split, rows in joined.items() if split != "train"}


def _contradictions(texts: list[tuple[str, ...]], labels: list[Any]) -> int:
    of_text: dict[tuple[str, ...], list[Any]] = defaultdict(list)
    for text, label in zip(texts, labels, strict=True):
        of_text[text].append(label)
    return sum(any(one != other for one, other in pairwise(said)) for said in of_text.values())


def _cut(texts: list[tuple[str, ...]], tokenizer: Any, max_length: int) -> float:
    looked_at = texts[:_TOKENISED]
    columns = [list(column) for column in zip(*looked_at, strict=True)]
    lengths = [len(ids) for ids in tokenizer(*columns, truncation=False, verbose=False)["input_ids"]]
    return sum(length > max_length for length in lengths) / len(lengths)
