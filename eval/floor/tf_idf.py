"""Texts as weighted counts of their words and pairs of words (TF-IDF, by scikit-learn)."""

from dataclasses import dataclass
from typing import Any

import numpy

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.records.files import read_json, write_json

_OPTIONS: dict[str, Any] = {
    "ngram_range": (1, 2),
    "sublinear_tf": True,
    "strip_accents": "unicode",
    "dtype": numpy.float32,
}
# Words of fewer rows than two are left out of data of so many rows.
_LARGE = 2000
_MOST_WORDS = 500_000
_VOCABULARY = "vocabulary.json"


@dataclass(frozen=True)
class TfIdf:
    """A vocabulary of words and pairs of words, with what each weighs.

    Attributes:
        vectorizer: scikit-learn's, fitted.
    """

    vectorizer: Any

    @classmethod
    def of(cls, texts: list[str]) -> "TfIdf":
        """The vocabulary of training texts.

        Raises:
            InvalidInput: no words.
        """
        from sklearn.feature_extraction.text import TfidfVectorizer

        fewest = 2 if len(texts) >= _LARGE else 1
        try:
            return cls(TfidfVectorizer(**_OPTIONS, min_df=fewest, max_features=_MOST_WORDS).fit(texts))
        except ValueError as error:  # scikit-learn's own for an empty vocabulary
            raise InvalidInput(
                "a floor by TF-IDF needs texts with words of two letters", got=str(error), repair="check --text-column"
            ) from None

    def vectors(self, texts: list[str]) -> Any:
        """Sparse, `[texts, words]`, of length 1."""
        return self.vectorizer.transform(texts)

    def save(self, directory: Any) -> dict[str, numpy.ndarray]:
        """Writes the vocabulary, in the order of its columns. Returns the tensors to keep with it."""
        write_json(directory / _VOCABULARY, self.vectorizer.get_feature_names_out().tolist())
        return {"idf": self.vectorizer.idf_.astype(numpy.float32)}

    @classmethod
    def open(cls, directory: Any, tensors: dict[str, numpy.ndarray]) -> "TfIdf":
        """What `save` wrote."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = read_json(directory / _VOCABULARY, what=_VOCABULARY, shape=list[str], repair="build the floor again")
        vectorizer = TfidfVectorizer(**_OPTIONS, vocabulary={word: place for place, word in enumerate(words)})
        vectorizer.idf_ = tensors["idf"]
        return cls(vectorizer)
