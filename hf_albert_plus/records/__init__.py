"""Stages and their records: what is written whole or not at all, and what was run to make it."""
