"""What a look at an exit costs: its multiply-adds over those of a layer, on rows of a given length.

The products are counted and nothing else: what an engine spends on a look besides is not in the price.
"""

from typing import Any

from ...exits_albert_plus import BRANCH_HEADS


def prices_of_exits(config: Any, *, length: float, flat: float | None = None) -> list[float]:
    """The price of each exit in layers, a layer being the mean of all.

    Args:
        config: of a classifier with exits.
        length: tokens that a row has in the mean.
        flat: a price to take for all instead.
    """
    exits = list(config.exit_layers or ())
    if flat is not None:
        return [flat] * len(exits)
    layers = [
        _of_layer(config, heads=config.attention_heads[attention], inner=config.intermediate_sizes[ffn], length=length)
        for attention, ffn in zip(config.attention_map, config.ffn_map, strict=True)
    ]
    of_exit = _of_branch(config, length) if config.exit_head == "branch" else _of_pooled(config)
    return [round(of_exit * len(layers) / sum(layers), 6)] * len(exits)


def _of_layer(config: Any, *, heads: int, inner: int, length: float) -> float:
    """Multiply-adds of a layer: four products of attention, its scores and its sums, and two products a network; with a bottleneck, two
    ways into it (one where queries and keys have none) and one out, with layers that differ, two thin products beside each."""
    hidden, width = config.hidden_size, config.bottleneck_size or config.hidden_size
    all_heads = heads * (width // config.num_attention_heads)
    has_bottleneck = config.bottleneck_size is not None
    reduces = has_bottleneck and config.query_key_bottleneck
    matched = width if reduces else hidden
    attention = (2 * matched + hidden + width) * all_heads + 2 * length * all_heads
    networks = config.num_feedforward_networks * 2 * width * inner
    ways = (2 * has_bottleneck + reduces) * hidden * width
    differences = (config.layer_rank or 0) * (4 * (hidden + all_heads) + 2 * (hidden + inner))
    return length * (attention + networks + ways + differences)


def _of_branch(config: Any, length: float) -> float:
    """Multiply-adds of a branch: every token is narrowed, and one asks them all."""
    width = config.exit_size
    every_token = length * (config.hidden_size * width + 2 * BRANCH_HEADS * width)
    one_token = (3 + 2 * BRANCH_HEADS) * width * width + width * config.num_labels
    return every_token + one_token


def _of_pooled(config: Any) -> float:
    """Multiply-adds of the pooler and a classifier, on one token."""
    pooler = 0 if config.pooler == "none" else config.hidden_size**2
    return pooler + config.hidden_size * config.num_labels
