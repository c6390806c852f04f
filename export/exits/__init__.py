"""Graphs of encoders with exits."""
