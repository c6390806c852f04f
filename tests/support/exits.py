"""Small classifiers with exits, inputs of many lengths, and the answers of every exit."""

import torch

from hf_albert_plus.compression.exits.thresholds import SearchRule, ThresholdSearch
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from tests.support.small_models import pair_inputs, randomise, small_config


def classifier(**fields):
    """A classifier with an exit after each layer but the last, with random weights."""
    config = small_config(**{"exit_layers": [1, 2, 3], "num_labels": 3, **fields})
    return randomise(AlbertPlusForSequenceClassification(config)).eval()


def batch_of(model, *, batch=12, length=9):
    """Inputs of every length up to the longest."""
    inputs = pair_inputs(model.config.vocab_size, batch=batch, length=length)
    lengths = torch.arange(batch) % length + 1
    inputs["attention_mask"] = (torch.arange(length) < lengths[:, None]).long()
    return inputs


def all_exits(model, inputs):
    """The logits of every exit and of the last layer. Shape: exits x batch x labels."""
    with torch.no_grad():
        output = model(**inputs, output_exits=True)
    return torch.stack([*output.exit_logits, output.logits])


def best_threshold(logits_JBC, *, score, max_drop, **rule):
    """The best threshold of rows by the fields of a `SearchRule`."""
    return ThresholdSearch(logits_JBC, SearchRule(**rule), score).best(max_drop)
