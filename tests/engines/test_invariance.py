"""Whether answers depend on the batch: an engine that is told apart by it, and ones that are not."""

from types import SimpleNamespace

import pytest
import torch

from hf_albert_plus.engines.invariance import check_invariance, measure_invariance
from hf_albert_plus.errors import InvarianceError

CONFIG = SimpleNamespace(
    architectures=["AlbertPlusForSequenceClassification"], num_labels=2, id2label={0: "no", 1: "yes"}, problem_type=None
)
ROWS = [{"input_ids": list(range(1, 2 + number)), "attention_mask": [1] * (1 + number)} for number in range(20)]


def pad(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    return {name: torch.tensor([row[name] + [0] * (longest - len(row[name])) for row in rows]) for name in rows[0]}


class Sums:
    """Logits from the sum of a row's tokens, and from whatever else it is told to look at."""

    config = CONFIG

    def __init__(self, disturbed=lambda tensors: 0.0):
        self.disturbed = disturbed

    def __call__(self, **tensors):
        total = (tensors["input_ids"] * tensors["attention_mask"]).sum(1).float()
        return {"logits": torch.stack([total, 20 - total], dim=1) + self.disturbed(tensors)}


def measured(engine):
    return measure_invariance(engine, ROWS, pad=pad, batches=(3, 8), longest=40)


def test_rows_by_themselves():
    found = measured(Sums())
    assert (found.rows, found.difference_over_mean, found.changed_predictions) == (20, 0.0, 0)
    assert (found.in_batches_of, found.padded_to) == ((3, 8), 40)
    check_invariance(found, what="sums")


@pytest.mark.parametrize(
    "disturbed",
    [
        lambda tensors: 0.01 * tensors["input_ids"].max(),  # the range of a whole batch
        lambda tensors: 0.1 * len(tensors["input_ids"]),  # its size
        lambda tensors: float(tensors["input_ids"].shape[1] >= 40),  # its padding
        lambda tensors: 5.0 * torch.arange(len(tensors["input_ids"]))[:, None],  # its order
    ],
    ids=["neighbours", "size", "padding", "order"],
)
def test_answers_that_depend_on_the_batch(disturbed):
    found = measured(Sums(disturbed))
    assert found.difference_over_mean > 1e-3
    with pytest.raises(
        InvarianceError, match="sums: the answer to a text must be the same alone .* nothing was written"
    ):
        check_invariance(found, what="sums")


def test_a_changed_prediction_is_counted():
    # Rows are told apart by which of two numbers is larger: three in a batch turn them round.
    found = measured(Sums(lambda tensors: torch.tensor([1e3, 0.0]) * (len(tensors["input_ids"]) > 2)))
    assert found.changed_predictions > 0
