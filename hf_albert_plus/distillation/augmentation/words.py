"""Words and pieces: which words of a text can be replaced, and which pieces of a tokenizer stand for a whole word."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CLOSING = '.,;:!?)]"'
# A text, whose words have blanks between them, or its words one by one.
Text = str | tuple[str, ...]


class Word(NamedTuple):
    """A word between spaces: `stem` can be replaced, the punctuation in `tail` stays. Punctuation alone has no stem."""

    stem: str
    tail: str


def words_in(text: Text) -> Sequence[str]:
    """The words of a text as they stand there."""
    return text.split() if isinstance(text, str) else text


def split_words(text: Text) -> list[Word]:
    """The words of a text; those of GLUE's texts that are not tokenised carry the punctuation after them."""
    words = words_in(text)
    stems = [word.rstrip(_CLOSING) if is_word(word) else "" for word in words]
    return [Word(stem, word.removeprefix(stem)) for word, stem in zip(words, stems, strict=True)]


def is_word(text: str) -> bool:
    return any(character.isalnum() for character in text)


class WholeWords:
    """The words that a tokenizer has a piece of their own for.

    A piece is a whole word if its text, with a space before it, is tokenised into that piece again. So are WordPiece's
    pieces without `##`, SentencePiece's with `▁` and byte-level BPE's with `Ġ`; special and unused ones are not.

    Attributes:
        words: id of the piece -> word.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase"):
        self.tokenizer = tokenizer
        ids = sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids))
        texts = tokenizer.batch_decode([[i] for i in ids], clean_up_tokenization_spaces=False)
        candidates = {i: text.strip() for i, text in zip(ids, texts, strict=True) if is_word(text)}
        pieces = self.pieces(candidates.values())
        self.words = {i: word for i, word in candidates.items() if pieces[word] == [i]}

    def pieces(self, words: Iterable[str]) -> dict[str, list[int]]:
        """Word -> the ids of its pieces inside a sentence."""
        distinct = list(dict.fromkeys(words))
        if not distinct:
            return {}
        encoded = self.tokenizer([f" {word}" for word in distinct], add_special_tokens=False)
        return dict(zip(distinct, encoded["input_ids"], strict=True))

    @cached_property
    def lower_cases(self) -> bool:
        """Whether the tokenizer reads capitals as small letters."""
        normalizer = getattr(getattr(self.tokenizer, "backend_tokenizer", None), "normalizer", None)
        return normalizer is not None and "A" not in normalizer.normalize_str("A")


def spellings(words: dict[int, str]) -> dict[str, list[int]]:
    """Lower-cased word -> the ids of its spellings: a word is no candidate for itself in other letters."""
    ids: dict[str, list[int]] = {}
    for i, word in words.items():
        ids.setdefault(word.lower(), []).append(i)
    return ids


def highest(scores_BV: torch.Tensor, *, count: int, excluded: list[list[int]]) -> list[list[int]]:
    """For each row the ids of its `count` highest scores but for the excluded ones and those of -inf.

    They come in the order of the ids, so that two scores that are equal up to rounding do not swap candidates.

    Shape: `[batch, vocabulary]`, which is overwritten.
    """
    for row, ids in enumerate(excluded):
        scores_BV[row, ids] = -torch.inf
    best_BK, ids_BK = scores_BV.topk(min(count, scores_BV.shape[1]))
    return [
        sorted(i for i, score in zip(ids, best, strict=True) if score > -torch.inf)
        for ids, best in zip(ids_BK.tolist(), best_BK.tolist(), strict=True)
    ]
