"""Tokenizers of one's own: unigram and WordPiece vocabularies, and SentencePiece models such as ALBERT's."""

from .sentencepiece_model import read_sentencepiece
from .stage import TokenizerSettings, import_tokenizer, train_tokenizer
from .unigram import train_unigram
from .wordpiece import train_wordpiece

__all__ = [
    "TokenizerSettings",
    "import_tokenizer",
    "read_sentencepiece",
    "train_tokenizer",
    "train_unigram",
    "train_wordpiece",
]
