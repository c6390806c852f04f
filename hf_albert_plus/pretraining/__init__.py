"""Pretraining an encoder on plain text."""

from .masked_lm import pretrain_masked_lm

__all__ = ["pretrain_masked_lm"]
