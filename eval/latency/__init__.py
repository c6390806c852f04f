"""Latency of targets, in turns, and what explains it."""
