"""Ranges of graphs, found on random tokens."""

from hf_albert_plus.export.precision.input_ranges import find_ranges
from hf_albert_plus.export.real_examples import as_arrays, random_example


def random_examples(config, lengths=(1, 7, 16, 24)):
    """Rows of token ids without padding."""
    return [random_example(config, length=length, seed=seed) for seed, length in enumerate(lengths)]


def random_ranges(model, graph):
    """The ranges of a graph of a model."""
    return find_ranges(graph, [as_arrays(example) for example in random_examples(model.config)])
