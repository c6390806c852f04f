"""Conversions that keep the function: checkpoints of transformers' architectures <-> ALBERT-plus models."""
