"""Pretraining an encoder on plain text."""

from .prepare import prepare_corpus
from .settings import PretrainSettings, published_learning_rate
from .stage import pretrain

__all__ = ["PretrainSettings", "prepare_corpus", "pretrain", "published_learning_rate"]
