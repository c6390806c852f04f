"""Words as what can be seen of them without an encoder: the word, its beginning and end, its shape and its neighbours, each 0 or 1.

These are the features of scikit-learn's and NLTK's own examples of taggers. Boundaries of a sentence are neighbours too. F features.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy

from hf_albert_plus.records.files import read_json, write_json

Sentence = Sequence[str]
# Letters of a word's beginning and end.
_AFFIXES = (1, 2, 3)
# Words before and after one that are seen with it.
_AROUND = (-2, -1, 1, 2)
_OUTSIDE = "\n"
# Features of fewer words than two are left out of so many words.
_LARGE = 20_000
_FEATURES = "features.json"


@dataclass(frozen=True)
class WordFeatures:
    """A vocabulary of features.

    Attributes:
        vectorizer: scikit-learn's, with a column for each.
    """

    vectorizer: Any
    sees_around: ClassVar[bool] = True

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> "WordFeatures":
        """The features of training sentences."""
        fewest = 2 if sum(map(len, sentences)) >= _LARGE else 1
        vectorizer = _vectorizer(min_df=fewest if cls.sees_around else 1)
        return cls(vectorizer.fit(cls._described(sentences)))

    @classmethod
    def _described(cls, sentences: Sequence[Sentence]) -> Iterator[list[str]]:
        """What is seen of each word, sentence after sentence."""
        for words in sentences:
            for place, word in enumerate(words):
                yield seen_of(words, place) if cls.sees_around else [word]

    def vectors(self, sentences: Sequence[Sentence]) -> Any:
        """Sparse, `[words of all sentences, F]`."""
        return self.vectorizer.transform(self._described(sentences))

    def save(self, directory: Path) -> dict[str, numpy.ndarray]:
        """Writes the features, in the order of their columns. There are no tensors to keep with them."""
        write_json(directory / _FEATURES, self.vectorizer.get_feature_names_out().tolist())
        return {}

    @classmethod
    def open(cls, directory: Path, tensors: dict[str, numpy.ndarray]) -> "WordFeatures":
        """What `save` wrote."""
        names = read_json(directory / _FEATURES, what=_FEATURES, shape=list[str], repair="build the floor again")
        return cls(_vectorizer(vocabulary={name: place for place, name in enumerate(names)}))


class WordsAlone(WordFeatures):
    """A vocabulary of words as they are written."""

    sees_around = False


def seen_of(words: Sentence, place: int) -> list[str]:
    """What is seen of a word in its sentence, by names such as `word=paris`, `end=is`, `shape=Xx` and `-1=in`."""
    word = words[place]
    small = word.lower()
    seen = [f"word={small}", f"shape={shape_of(word)}"]
    seen += [f"{side}={part}" for size in _AFFIXES for side, part in (("begin", small[:size]), ("end", small[-size:]))]
    for step in _AROUND:
        beside = words[place + step] if 0 <= place + step < len(words) else _OUTSIDE
        seen += [f"{step:+}={beside.lower()}", f"{step:+} shape={shape_of(beside)}"]
    return list(dict.fromkeys(seen))


def shape_of(word: str) -> str:
    """The kinds of a word's characters, runs as one: `X` capitals, `x` other letters, `0` digits, anything else as it is."""
    kinds = "".join(
        "X" if each.isupper() else "x" if each.isalpha() else "0" if each.isdigit() else each for each in word
    )
    return re.sub(r"(.)\1+", r"\1", kinds, flags=re.DOTALL)


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(analyzer=list, dtype=numpy.float32, **options)
