"""Models beside simulations of their few bits."""

import copy

import torch

from hf_albert_plus.compression.quantisation.fake_quantisation import FakeQuantisation
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from tests.support.small_models import pair_inputs, randomise, small_config


def model_and_simulation(steps=0, *, model=None, weights=None, others=None, decay=0.9, ranges="corrected", **fields):
    """A model, and its simulation after some steps of training mode, which set its ranges."""
    model = copy.deepcopy(model) or randomise(
        AlbertPlusForSequenceClassification(
            small_config(
                hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout_prob=0.0, **fields
            )
        )
    )
    fake_quantisation = FakeQuantisation(model, weights=weights, others=others, decay=decay, ranges=ranges)
    model.train()
    torch.manual_seed(0)  # of its dropout
    for length in range(8, 8 + steps):
        with torch.no_grad():
            model(**pair_inputs(model.config.vocab_size, length=length))
    model.eval()
    return model, fake_quantisation
