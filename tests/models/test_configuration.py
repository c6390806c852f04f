import pytest
from huggingface_hub.errors import StrictDataclassError

from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from tests.support.small_models import small_config


@pytest.mark.parametrize(
    ("sharing", "layers", "expected"),
    [
        ("all", 4, (0, 0, 0, 0)),
        ("none", 4, (0, 1, 2, 3)),
        (1, 3, (0, 0, 0)),
        (2, 5, (0, 0, 0, 1, 1)),
        (3, 4, (0, 0, 1, 2)),
        ([0, 1, 0, 1], 4, (0, 1, 0, 1)),
        ([0, 1, 1, 0], 4, (0, 1, 1, 0)),
        ("sequence:3", 6, (0, 0, 1, 1, 2, 2)),
        ("sequence:3", 7, (0, 0, 1, 1, 2, 2, 2)),
        ("cycle:3", 6, (0, 1, 2, 0, 1, 2)),
        ("cycle:3", 7, (0, 1, 2, 0, 1, 2, 0)),
        ("reversed_cycle:3", 6, (0, 1, 2, 2, 1, 0)),
        ("reversed_cycle:3", 9, (0, 1, 2, 0, 1, 2, 2, 1, 0)),
        ("reversed_cycle:2", 3, (0, 1, 1)),
        ("reversed_cycle:3", 3, (0, 1, 2)),
        ("cycle:1", 4, (0, 0, 0, 0)),
    ],
)
def test_maps_worked_by_hand(sharing, layers, expected):
    config = small_config(num_hidden_layers=layers, attention_sharing=sharing)
    assert config.attention_map == expected
    assert config.ffn_map == (0,) * layers


def test_groups_are_exact_where_the_float_formula_of_2019_is_not():
    """int(layer / 22 * 22) puts layer 15 into group 14."""
    assert int(15 / 22 * 22) == 14
    assert small_config(num_hidden_layers=22, ffn_sharing=22).ffn_map == tuple(range(22))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"attention_sharing": "some"}, ["attention_sharing", "'some'", "use 'all'"]),
        ({"ffn_sharing": 9}, ["ffn_sharing", "9", "num_hidden_layers (4)"]),
        ({"ffn_sharing": 0}, ["ffn_sharing", "0", "use 1"]),
        ({"ffn_sharing": [0, 1]}, ["4 layers", "2 entries"]),
        ({"attention_sharing": [0, 2, 2, 0]}, ["without a gap", "[0, 2]", "renumber"]),
        ({"num_attention_heads": 5}, ["hidden_size (32)", "(5)", "use one of"]),
        ({"hidden_dropout_prob": 1.5}, ["hidden_dropout_prob", "1.5"]),
        ({"num_hidden_layers": 0}, ["num_hidden_layers", "0"]),
        ({"pad_token_id": 500}, ["pad_token_id (500)", "vocab_size (120)"]),
        ({"hidden_size": "wide"}, ["hidden_size", "wide"]),
        ({"ffn_sharing": "cycle"}, ["ffn_sharing", "'cycle'", "cycle:M"]),
        ({"ffn_sharing": "cycle:two"}, ["ffn_sharing", "'cycle:two'", "cycle:M"]),
        ({"ffn_sharing": "cycle:9"}, ["ffn_sharing='cycle:9'", "num_hidden_layers (4)", "use 1"]),
        ({"attention_sharing": "reversed_cycle:0"}, ["attention_sharing", "got 0"]),
        ({"norm_type": "rms_norm"}, ["norm_type", "'rms_norm'", "layer_norm, no_norm"]),
        ({"pooler": "mean"}, ["pooler", "'mean'", "tanh, relu, none"]),
        ({"relative_attention_buckets": 3}, ["relative_attention_buckets must be from 4 to 256", "got 3"]),
        ({"layer_rank": 0}, ["layer_rank must be from 1", "got 0"]),
        ({"layer_rank": 4, "bottleneck_size": 16}, ["layer_rank", "bottleneck_size 16", "use null for one"]),
        ({"layer_rank": 4, "num_feedforward_networks": 2}, ["layer_rank", "num_feedforward_networks 2"]),
        ({"pooling": "max"}, ["pooling", "'max'", "first, mean"]),
        ({"hidden_act": "gelo"}, ["hidden_act", "'gelo'", "'gelu'"]),
        ({"bottleneck_size": 0}, ["bottleneck_size must be from 1 to 16384", "got 0"]),
        ({"bottleneck_size": 16388}, ["bottleneck_size must be from 1 to 16384", "got 16388"]),
        ({"bottleneck_size": 50}, ["bottleneck_size (50)", "num_attention_heads (4)", "use one of"]),
        ({"bottleneck_size": 10}, ["bottleneck_size (10)", "num_attention_heads (4)", "use one of"]),
        ({"num_feedforward_networks": 0}, ["num_feedforward_networks", "got 0"]),
        ({"layer_norm_eps": -1.0}, ["layer_norm_eps", "-1.0"]),
        ({"layer_norm_eps": float("nan")}, ["layer_norm_eps", "nan"]),
        ({"initializer": "uniform"}, ["initializer must be one of truncated_normal, normal", "got 'uniform'"]),
        ({"initializer_range": -2}, ["initializer_range", "got -2"]),
        ({"type_vocab_size": -1}, ["type_vocab_size", "got -1", "use 0"]),
    ],
)
def test_nonsense_is_refused_with_the_repair(fields, words):
    with pytest.raises(StrictDataclassError) as raised:
        small_config(**fields)
    for word in words:
        assert word in str(raised.value)


def test_integer_dropout_is_a_number():
    assert small_config(hidden_dropout_prob=0).hidden_dropout_prob == 0


@pytest.mark.parametrize("sharing", ["all", "none", 2, [0, 1, 0, 1], "reversed_cycle:2"])
def test_round_trip_through_json(tmp_path, sharing):
    config = small_config(attention_sharing=sharing)
    config.save_pretrained(tmp_path)
    again = AlbertPlusConfig.from_pretrained(tmp_path)
    assert again.attention_map == config.attention_map
    assert {**again.to_dict(), "_name_or_path": ""} == {**config.to_dict(), "_name_or_path": ""}
