"""Words and the pieces that a tokenizer cuts them into: the first piece of a word stands for it, in training and in serving."""

from collections.abc import Sequence
from typing import Any

from ..errors import InvalidInput
from ..model_inputs import IGNORED

Span = tuple[int, int]
# Of a word without a piece: beyond the longest input, or of characters that the tokenizer drops.
UNSEEN = -1
# The label of a word whose tag nobody knows: it counts where a teacher answers, and no loss of labels reads it.
UNTAGGED = -1


def joined(words: Sequence[str]) -> tuple[str, list[Span]]:
    """A sentence's words with blanks between them, and the characters of each word there."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), spans


def empty_word(words: Sequence[str]) -> int | None:
    """The place of the first word that is nothing but blanks, which no piece could stand for."""
    return next((place for place, word in enumerate(words) if not word.strip()), None)


def first_pieces(text: str, offsets: Sequence[Span], spans: Sequence[Span]) -> list[int]:
    """For each word, in their order, the place of its first piece in a row of tokens, or `UNSEEN`.

    Args:
        offsets: the characters of the text that each token was made of; none of special tokens.
        spans: the characters of each word.
    """
    found = [UNSEEN] * len(spans)
    word = 0
    for place, (start, end) in enumerate(offsets):
        while start < end and text[start].isspace():  # some pieces begin with the blank before them
            start += 1
        if start == end:
            continue
        while word < len(spans) and spans[word][1] <= start:
            word += 1
        if word < len(spans) and spans[word][0] <= start and found[word] == UNSEEN:
            found[word] = place
    return found


def encode_words(
    sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[int]], tokenizer: Any, *, max_length: int
) -> dict[str, list[Any]]:
    """Token ids of sentences, with `labels`, the tag at the first piece of each word and -100 elsewhere, and `first_pieces`.

    Args:
        tags: of every word; none of rows without any, whose words are `UNTAGGED`.

    Raises:
        InvalidInput: a tokenizer that does not say which characters its pieces are of.
    """
    check_offsets(tokenizer)
    texts, spans = zip(*map(joined, sentences), strict=True)
    encoded = dict(tokenizer(list(texts), truncation=True, max_length=max_length, return_offsets_mapping=True))
    return word_rows(encoded, texts, spans, tags)


def word_rows(
    encoded: dict[str, list[Any]],
    texts: Sequence[str],
    spans: Sequence[Sequence[Span]],
    tags: Sequence[Sequence[int]],
) -> dict[str, list[Any]]:
    """Tokenised texts of words with `labels` and `first_pieces` in place of `offset_mapping`.

    Args:
        spans, tags: the characters and the tag of every word of each text.
    """
    offsets = encoded.pop("offset_mapping")
    encoded["first_pieces"] = [first_pieces(*row) for row in zip(texts, offsets, spans, strict=True)]
    encoded["labels"] = []
    for ids, pieces, of_row in zip(encoded["input_ids"], encoded["first_pieces"], tags, strict=True):
        labels = [IGNORED] * len(ids)
        for piece, tag in zip(pieces, of_row or [UNTAGGED] * len(pieces), strict=True):
            if piece != UNSEEN:
                labels[piece] = tag
        encoded["labels"].append(labels)
    return encoded


def check_offsets(tokenizer: Any) -> None:
    """Refuses a tokenizer that does not say which characters its pieces are of.

    Raises:
        InvalidInput: one that is not of the tokenizers library.
    """
    if not tokenizer.is_fast:
        raise InvalidInput(
            "a task of tags or spans needs a fast tokenizer, which says what characters its pieces are of",
            got=type(tokenizer).__name__,
            repair="use a model with a tokenizer.json, or convert the tokenizer into one",
        )
