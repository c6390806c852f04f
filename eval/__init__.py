"""Scores, latency and the table that sets them side by side."""

if __name__ != "hf_albert_plus.eval":
    raise ImportError("import this package as hf_albert_plus.eval, from an installed hf-albert-plus")
