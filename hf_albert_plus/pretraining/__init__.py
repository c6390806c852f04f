"""Pretraining an encoder on plain text."""

from .masked_lm import pretrain_masked_lm
from .prepare import prepare_corpus
from .settings import PretrainSettings, published_learning_rate
from .stage import pretrain

__all__ = ["PretrainSettings", "prepare_corpus", "pretrain", "pretrain_masked_lm", "published_learning_rate"]
