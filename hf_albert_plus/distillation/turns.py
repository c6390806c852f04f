"""Whose turn it is to learn: one layer of the student, those below it slowly, and nothing above it.

MobileBERT (Sun et al. 2020), section 3.5, progressive knowledge transfer. In its release a layer below learns at a tenth of the rate.
The embeddings, which the release copies from the teacher and leaves as they are, learn as the layers below do: a student's need
not be the teacher's.
"""

from typing import Any

import torch


def rates_of_turn(student: Any, *, layer: int, lower: float) -> dict[int, float]:
    """The share of the learning rate that each parameter of a student has, by its id. A block that several layers share has that of the
    one whose turn it is, where that is among them.

    Args:
        student: an ALBERT-plus model.
        layer: the one whose turn it is, from 1.
        lower: the share of what is below it.
    """
    encoder, config = student.base_model.encoder, student.config
    rates = {id(parameter): 0.0 for parameter in student.parameters()}

    def give(module: torch.nn.Module, rate: float) -> None:
        for parameter in module.parameters():
            rates[id(parameter)] = max(rates[id(parameter)], rate)

    give(student.base_model.embeddings, lower)
    for number, (attention, ffn) in enumerate(zip(config.attention_map, config.ffn_map, strict=True), start=1):
        rate = 1.0 if number == layer else lower if number < layer else 0.0
        for module in (encoder.layers[number - 1], encoder.attention[attention], encoder.ffn[ffn]):
            give(module, rate)
    return rates


def give_rates(optimizer: torch.optim.Optimizer, rates: dict[int, float]) -> None:
    """Moves parameters into groups whose learning rates are these shares of their group's; what has no share keeps it."""
    for group in list(optimizer.param_groups):
        shares = [rates.get(id(parameter), 1.0) for parameter in group["params"]]
        members = group["params"]
        group["params"] = [parameter for parameter, share in zip(members, shares, strict=True) if share == 1]
        for share in sorted(set(shares) - {1.0}):
            own = [parameter for parameter, of_it in zip(members, shares, strict=True) if of_it == share]
            optimizer.add_param_group({**group, "params": own, "lr": share * group["lr"]})
