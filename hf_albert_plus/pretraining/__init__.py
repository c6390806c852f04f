"""Pretraining an encoder on plain text."""
