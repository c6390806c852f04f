"""Ranges of graphs, found on random tokens."""

from hf_albert_plus.export.precision.input_ranges import find_ranges
from hf_albert_plus.export.real_examples import as_arrays
from hf_albert_plus.model_inputs import input_names, random_ids, seeded


def random_examples(config, lengths=(1, 7, 16, 24)):
    """Rows of token ids without padding."""
    examples = []
    for seed, length in enumerate(lengths):
        ids = random_ids(config, (length,), generator=seeded(seed)).tolist()
        values = {"input_ids": ids, "attention_mask": [1] * length, "token_type_ids": [0] * length}
        examples.append({name: values[name] for name in input_names(config)})
    return examples


def random_ranges(model, graph):
    """The ranges of a graph of a model."""
    return find_ranges(graph, [as_arrays(example) for example in random_examples(model.config)])
