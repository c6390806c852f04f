"""What a look at an exit costs, against torch's own count of what the layers and the exits multiply."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from hf_albert_plus.compression.exits.prices import prices_of_exits
from tests.support.exits import classifier
from tests.support.small_models import small_config

GRID = {
    "branch": {},
    "narrow branch": {"exit_size": 8, "num_labels": 2},
    "pooled": {"exit_head": "pooled"},
    "shared": {"exit_head": "shared"},
    "no pooler": {"exit_head": "shared", "pooler": "none"},
    "bottleneck": {"bottleneck_size": 16, "num_feedforward_networks": 2},
    "wide bottleneck": {"bottleneck_size": 48},
    "wide bottleneck without one of queries and keys": {"bottleneck_size": 48, "query_key_bottleneck": False},
    "pruned": {"ffn_sharing": "none", "block_attention_heads": [3], "block_intermediate_sizes": [8, 16, 24, 48]},
}


def counted(run) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("fields", GRID.values(), ids=GRID)
@pytest.mark.parametrize("length", [1, 9, 16])
def test_prices_are_what_torch_counts(fields, length):
    model = classifier(**fields)
    model.set_attn_implementation("eager")
    hidden = torch.randn(1, length, model.config.hidden_size)
    layers = counted(lambda: model.albert_plus.encoder.run(hidden))
    exit_ = counted(lambda: model.exit(0, hidden, torch.ones(1, length, dtype=torch.long)))
    expected = exit_ / (layers / model.config.num_hidden_layers)
    assert prices_of_exits(model.config, length=length) == pytest.approx([expected] * 3, abs=1e-6)


def test_a_price_by_hand():
    """H = 32 and I = 64: a layer at 10 tokens multiplies 10 x (4 x 32 x 32 + 2 x 10 x 32 + 2 x 32 x 64) times, the pooler 32 x 32 and the
    classifier 32 x 3."""
    config = small_config(
        exit_layers=[1, 2],
        exit_head="pooled",
        hidden_size=32,
        intermediate_size=64,
        num_labels=3,
        block_intermediate_sizes=None,
    )
    layer = 10 * (4 * 32 * 32 + 2 * 10 * 32 + 2 * 32 * 64)
    assert prices_of_exits(config, length=10) == pytest.approx([(32 * 32 + 32 * 3) / layer] * 2, abs=1e-6)
    assert prices_of_exits(config, length=10, flat=0.2) == [0.2, 0.2]
