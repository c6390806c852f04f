"""The layers that a classifier's logits come out of."""

from typing import Any

from torch import nn


def last_layers(classifier: Any) -> dict[str, nn.Linear] | None:
    """The linear layers that give logits, by the depth that they follow: of every exit that has its own, and `last`, which is
    `classifier` or `classifier.out_proj`. None where a classifier ends in no such layer."""
    head = getattr(classifier, "classifier", None)
    last = getattr(head, "out_proj", head)
    if not isinstance(last, nn.Linear) or last.out_features != classifier.num_labels:
        return None
    depths = getattr(classifier.config, "exit_layers", None) or ()
    exits = {str(depth): each.classifier for depth, each in zip(depths, getattr(classifier, "exits", ()), strict=False)}
    return {**exits, "last": last}
