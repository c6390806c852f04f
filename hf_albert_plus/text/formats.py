"""Input formats: from the sentences of documents to the segments of examples (RoBERTa, section 4.2; ALBERT, section 3.1).

Sentences are lists of token ids, documents lists of sentences. A format yields one example after the other. The sentences
come from a document's paragraphs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any, Literal

from ..errors import InvalidInput, need

Sentence = list[int]
Document = list[Sentence]
Order = Literal["sentence-order", "next-sentence", "none"]
NO_ORDER = -100


@dataclass(frozen=True)
class Example:
    """One input.

    Attributes:
        first: tokens of the first segment.
        second: tokens of the second one; empty where there is one segment.
        label: of two segments, 0 as in the text, 1 swapped (sentence order) or from another document (next sentence);
            -100 where there is nothing to tell.
    """

    first: list[int]
    second: list[int]
    label: int = NO_ORDER


def segment_pairs(
    documents: Iterable[Document],
    *,
    room: int,
    order: Order,
    random: Random,
    short_share: float = 0.1,
    elsewhere: Sequence[Document] = (),
) -> Iterator[Example]:
    """Segments of several sentences, two an example (BERT's create_pretraining_data.py).

    Sentences are gathered up to `room` tokens, or for `short_share` of the examples up to a length that is drawn from 2 to
    `room`, and parted between two of them. BERT draws that length once a document, which makes far more than a tenth of
    its examples short where documents are long; here it is drawn once an example.
    What is too long loses tokens of the longer segment, at its front or back with equal chance.

    Args:
        elsewhere: for next-sentence, where second segments of other documents are taken from; it may hold these documents too.
    """
    for document in documents:
        position = 0
        while position < len(document):
            target = random.randint(2, room) if random.random() < short_share else room
            end, size = position, 0
            while end < len(document) and size < target:
                size += len(document[end])
                end += 1
            split = position + (random.randint(1, end - position - 1) if end - position > 1 else 1)
            first, rest = document[position:split], document[split:end]
            # A single sentence has no second half: BERT gives it another document's text, sentence order nothing.
            if order == "next-sentence" and _has_other(elsewhere, document) and (not rest or random.random() < 0.5):
                second = _from_another(elsewhere, document, target - sum(map(len, first)), random)
                yield _cut(_joined(first), _joined(second), room, 1, random)
                position = split
                continue
            yield _pair(_joined(first), _joined(rest), room, order, random)
            position = end


def sentence_pairs(
    documents: Iterable[Document], *, room: int, order: Order, random: Random, elsewhere: Sequence[Document] = ()
) -> Iterator[Example]:
    """Two natural sentences an example (RoBERTa, section 4.2): short inputs, for larger batches. `elsewhere` as for segment
    pairs."""
    for document in documents:
        position = 0
        while position < len(document):
            first, rest = document[position], document[position + 1 : position + 2]
            if order == "next-sentence" and _has_other(elsewhere, document) and (not rest or random.random() < 0.5):
                (second,) = _from_another(elsewhere, document, 1, random)
                yield _cut(list(first), list(second), room, 1, random)
                position += 1
                continue
            yield _pair(list(first), _joined(rest), room, order, random)
            position += 2


def full_sentences(documents: Iterable[Document], *, room: int, separator: int) -> Iterator[Example]:
    """Whole sentences up to `room` tokens, over the ends of documents, which a separator marks (RoBERTa, section 4.2)."""
    held: list[int] = []
    for document in documents:
        if held:
            held.append(separator)
        for sentence in document:
            if held and len(held) + len(sentence) > room:
                yield Example(held[:-1] if held[-1] == separator else held, [])
                held = []
            held = held + sentence
    if held:
        yield Example(held, [])


def doc_sentences(documents: Iterable[Document], *, room: int) -> Iterator[Example]:
    """Whole sentences up to `room` tokens, none over the end of a document (RoBERTa, section 4.2)."""
    for document in documents:
        # Without another document there is no separator to set.
        yield from full_sentences([document], room=room, separator=NO_ORDER)


def _pair(first: list[int], second: list[int], room: int, order: Order, random: Random) -> Example:
    """Two consecutive segments, for sentence order swapped with even chance; one without a second has no label."""
    if not second or order == "none":
        return _cut(first, second, room, NO_ORDER, random)
    if order == "sentence-order" and random.random() < 0.5:
        return _cut(second, first, room, 1, random)
    return _cut(first, second, room, 0, random)


def _has_other(elsewhere: Sequence[Document], document: Document) -> bool:
    return len(elsewhere) > 1 or (len(elsewhere) == 1 and elsewhere[0] is not document)


def _from_another(elsewhere: Sequence[Document], document: Document, size: int, random: Random) -> Document:
    """Sentences of another document from a random one on, until there are `size` tokens."""
    other = document
    while other is document:
        other = elsewhere[random.randrange(len(elsewhere))]
    start = end = random.randrange(len(other))
    tokens = 0
    while end < len(other) and (end == start or tokens < size):
        tokens += len(other[end])
        end += 1
    return other[start:end]


def _cut(first: list[int], second: list[int], room: int, label: int, random: Random) -> Example:
    """Drops tokens of the longer segment, each from its front or its back, until both fit."""
    if not second:
        return Example(first[: room + 1], [], label)
    ends = [[0, len(first)], [0, len(second)]]
    while sum(end - start for start, end in ends) > room:
        longer = ends[0] if ends[0][1] - ends[0][0] > ends[1][1] - ends[1][0] else ends[1]
        front = random.random() < 0.5
        longer[0 if front else 1] += 1 if front else -1
    return Example(first[slice(*ends[0])], second[slice(*ends[1])], label)


def _joined(sentences: Iterable[Sentence]) -> list[int]:
    return list(chain.from_iterable(sentences))


# Lines that are sentences already, as in the text that BERT's code reads.
LINES = "none"


def check_language(language: str) -> None:
    """Refuses what is no language code; sentencex falls back to a related language, in the end English."""
    if language != LINES and not (2 <= len(language) <= 3 and language.isascii() and language.islower()):
        raise InvalidInput(
            "--language must be an ISO 639 code",
            got=repr(language),
            repair="use --language en, or none for a sentence a line",
        )


def sentence_ids(paragraphs: Iterable[str], tokenizer: Any, *, language: str, longest: int) -> Document:
    """Every sentence's ids without special tokens; one of more than `longest` tokens comes in pieces, so that none is lost.

    Args:
        tokenizer: of the tokenizers library.
        language: its ISO 639 code; `none` takes the paragraphs for sentences.
    """
    if language != LINES:
        segment = need("sentencex", extra="pretrain").segment
        paragraphs = (sentence for paragraph in paragraphs for sentence in segment(language, paragraph))
    texts = [text for sentence in paragraphs if (text := sentence.strip())]
    document = []
    for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
        ids = encoding.ids
        document += [ids[start : start + longest] for start in range(0, len(ids), longest)]
    return document
