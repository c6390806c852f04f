"""What models compute for each row by itself, without padding, and the papers' formulas of it, written out anew: a sum of losses that is
worked out here shares no code with the package's."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


@dataclass
class Seen:
    """What a model computed for one row.

    Attributes:
        logits: `[C]`, or `[S, V]` of a masked language model.
        hidden: the first layer's input and every layer's output, `[S, H]` each.
        attention: every layer's probabilities, `[N, S, S]` each.
        queries, keys, values: every layer's, as the layer's products of these names gave them, `[S, H]` each.
        exits: the logits of every exit, `[C]` each.
        heads: of the model's attention.
        order: the logits of whether the second segment follows the first, `[2]`, of a model for pretraining.
    """

    logits: torch.Tensor
    hidden: list[torch.Tensor]
    attention: list[torch.Tensor]
    exits: list[torch.Tensor]
    heads: int
    queries: list[torch.Tensor] = field(default_factory=list)
    keys: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)
    order: torch.Tensor | None = None

    def scores(self, layer: int) -> torch.Tensor:
        """Q·Kᵀ/√D of a layer, from 1, before the softmax: `[N, S, S]`."""
        return relations(self.queries[layer - 1], self.keys[layer - 1], heads=self.heads)


def rows_of(batch: Mapping[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    """Every row as a batch of its own, cut to its real tokens."""
    for row, real in enumerate(batch["attention_mask"].sum(dim=1).tolist()):
        yield {name: batch[name][row : row + 1, :real] for name in INPUTS if name in batch}


def watch(model: Any, batch: Mapping[str, torch.Tensor]) -> list[Seen]:
    """Runs a model on each row by itself, with eager attention, and notes what it says and what its products gave."""
    model = copy.deepcopy(model).eval()
    model.set_attn_implementation("eager")
    has_exits = bool(getattr(model.config, "exit_layers", None))
    options = {"output_hidden_states": True, "output_attentions": True} | ({"output_exits": True} if has_exits else {})
    notes: dict[str, list[torch.Tensor]] = {"query": [], "key": [], "value": []}
    for path, module in model.named_modules():
        name = path.rpartition(".")[2]
        if name in notes and "exits." not in path:
            module.register_forward_hook(lambda _, __, given, name=name: notes[name].append(given[0]))
    seen = []
    for row in rows_of(batch):
        for each in notes.values():
            each.clear()
        with torch.no_grad():
            output = model(**row, **options)
        words = next((name for name in ("logits", "prediction_logits") if name in output), None)
        logits = torch.empty(0) if words is None else output[words][0]
        order = output["sop_logits"][0] if "sop_logits" in output else None
        inside = [[states[0] for states in output[name]] for name in ("hidden_states", "attentions")]
        exits = [each[0] for each in output["exit_logits"]] if has_exits else []
        products = [list(notes[name]) for name in ("query", "key", "value")]
        seen.append(Seen(logits, *inside, exits, model.config.num_attention_heads, *products, order))
    return seen


# Formulas


def softmax(scores: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    powers = (scores / temperature).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


def divergence(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """KL(p ‖ q) of probabilities along the last axis."""
    return (p * (p / q).log()).sum(dim=-1)


def cross_entropy(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """-Σ p log q of probabilities along the last axis."""
    return -(p * q.log()).sum(dim=-1)


def soft_targets(teacher: torch.Tensor, student: torch.Tensor, temperature: float) -> torch.Tensor:
    """T²·KL(teacher ‖ student) of logits at a temperature."""
    return temperature**2 * divergence(softmax(teacher, temperature), softmax(student, temperature))


def surprise(logits: torch.Tensor, label: Any) -> torch.Tensor:
    """-log of a label's probability."""
    return -softmax(logits)[int(label)].log()


def squared(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The mean squared difference."""
    return ((a - b) ** 2).sum() / a.numel()


def relations(left_SH: torch.Tensor, right_SH: torch.Tensor, *, heads: int) -> torch.Tensor:
    """left·rightᵀ/√D of each of the heads that the width is split into: `[N, S, S]`."""
    width = left_SH.shape[1] // heads
    parts = [slice(head * width, (head + 1) * width) for head in range(heads)]
    return torch.stack([left_SH[:, part] @ right_SH[:, part].T / width**0.5 for part in parts])


def through(projection: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """What a learned map makes of states; what does nothing where there is none."""
    if projection is None:
        return lambda states: states
    return lambda states: states @ projection.weight.T + projection.bias


def mean(values: list[torch.Tensor]) -> torch.Tensor:
    """The mean of numbers."""
    return sum(values) / len(values)


# What phases have in common


def labels_of(student: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The cross-entropy with the labels."""
    seen = zip(watch(student, batch), batch["labels"], strict=True)
    return mean([surprise(row.logits, label) for row, label in seen])


def both(student: Any, teacher: Any, batch: Mapping[str, torch.Tensor]) -> list[tuple[Seen, Seen]]:
    """What the two models computed for each row."""
    return list(zip(watch(student, batch), watch(teacher, batch), strict=True))


def soft_of(student: Any, teacher: Any, batch: Mapping[str, torch.Tensor], temperature: float) -> torch.Tensor:
    """Hinton's T²·KL of the classes."""
    return mean([soft_targets(b.logits, a.logits, temperature) for a, b in both(student, teacher, batch)])


def masked_of(batch: Mapping[str, torch.Tensor]) -> list[list[tuple[int, int]]]:
    """Which real tokens of every row are masked, and their originals."""
    rows = zip(batch["labels"], batch["attention_mask"].sum(1).tolist(), strict=True)
    return [[(place, label) for place, label in enumerate(labels[:n].tolist()) if label >= 0] for labels, n in rows]


def masked_words_of(student: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The cross-entropy of the masked words."""
    rows = zip(watch(student, batch), masked_of(batch), strict=True)
    return mean([mean([surprise(row.logits[place], label) for place, label in masked]) for row, masked in rows])


def check_sum(found: torch.Tensor, *terms: tuple[float, torch.Tensor]) -> None:
    """Checks a loss against its terms, each a weight and a value, none of which is too small for its absence to be seen."""
    expected = sum(weight * value for weight, value in terms)
    for weight, value in terms:
        assert weight * value > 2e-4 * expected, f"{weight} · {value} of {expected}"
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=0)
