"""Text for pretraining: documents, sentences, input formats, and the stage that makes a corpus of examples."""

from .build import build_corpus
from .formats import Example, doc_sentences, full_sentences, segment_pairs, sentence_pairs
from .settings import CorpusSettings

__all__ = [
    "CorpusSettings",
    "Example",
    "build_corpus",
    "doc_sentences",
    "full_sentences",
    "segment_pairs",
    "sentence_pairs",
]
