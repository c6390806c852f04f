"""Runs that stop early: when a row may leave, models that let it, and thresholds that hold a score."""
