"""The table of variants against the papers' counts and transformers' own models."""

import json

import pytest
import torch
import transformers
from safetensors import safe_open

from hf_albert_plus.config_building import derived_config, measure, parse_layers, variant_config
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusModel
from hf_albert_plus.variants import VARIANTS
from tests.support.small_models import small_config

# ALBERT, Tables 3 and 4: the grid at base size, counted from emb = (V+P+T)E+2E, proj = EH+H where E and H differ,
# att = 4(H²+H)+2H, ffn = 2HI+I+H+2H, pooler = H²+H. Beside it what the paper prints in millions; None where it prints
# nothing, or (xlarge 60, xxlarge 235 in its table and 233 in its text) what no count gives.
STUDY = {
    "albert-base-e64-all": (9_681_408, 10), "albert-base-e64-attention": (61_645_056, None),
    "albert-base-e64-ffn": (35_684_352, None), "albert-base-e64-none": (87_648_000, 87),
    "albert-base-e128-all": (11_683_584, 12), "albert-base-e128-attention": (63_647_232, 64),
    "albert-base-e128-ffn": (37_686_528, 38), "albert-base-e128-none": (89_650_176, 89),
    "albert-base-e256-all": (15_687_936, 16), "albert-base-e256-attention": (67_651_584, None),
    "albert-base-e256-ffn": (41_690_880, None), "albert-base-e256-none": (93_654_528, 93),
    "albert-base-e768-all": (31_114_752, 31), "albert-base-e768-attention": (83_078_400, 83),
    "albert-base-e768-ffn": (57_117_696, 57), "albert-base-e768-none": (109_081_344, 108),
    "albert-large-v2": (17_683_968, 18), "albert-xlarge-v2": (58_724_864, None),
    "albert-xxlarge-v2": (222_595_584, None),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDY)
def test_parameters_of_albert(name):
    exact, printed = STUDY[name]
    assert measure(variant_config(name), length=8).parameters == exact
    if printed is not None:
        # The paper counts the models without sharing without their pooler.
        counted = exact - (768 * 768 + 768 if name.endswith("none") else 0)
        assert round(counted / 1e6) == printed


def _bert(**fields):
    return transformers.BertModel, transformers.BertConfig(**fields)


def _width(hidden_size, layers, heads, **more):
    return {
        "hidden_size": hidden_size, "num_hidden_layers": layers, "num_attention_heads": heads,
        "intermediate_size": 4 * hidden_size, **more,
    }  # fmt: skip


THEIRS = {
    "bert-base": _bert(),
    "bert-large": _bert(**_width(1024, 24, 16)),
    "bert-medium": _bert(**_width(512, 8, 8)),
    "bert-small": _bert(**_width(512, 4, 8)),
    "bert-mini": _bert(**_width(256, 4, 4)),
    "bert-tiny": _bert(**_width(128, 2, 2)),
    "tinybert-4": _bert(**_width(312, 4, 12) | {"intermediate_size": 1200}),
    "tinybert-6": _bert(num_hidden_layers=6),
    "minilm-l6": _bert(**_width(384, 6, 12)),
    "minilm-l12": _bert(**_width(384, 12, 12)),
    "mobilebert": (transformers.MobileBertModel, transformers.MobileBertConfig(classifier_activation=False)),
    "albert-base-v2": (transformers.AlbertModel, transformers.AlbertConfig(**_width(768, 12, 12))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", THEIRS)
def test_parameters_of_transformers_own_models(name):
    kind, config = THEIRS[name]
    with torch.device("meta"):
        theirs = kind(config).num_parameters()
    assert measure(variant_config(name), length=8).parameters == theirs


def test_distilbert_counts_its_classifiers_dense_layer():
    with torch.device("meta"):
        theirs = transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig())
    head = theirs.classifier.weight.numel() + theirs.classifier.bias.numel()
    assert measure(variant_config("distilbert"), length=8).parameters == theirs.num_parameters() - head


# GFLOPs at 128 tokens. TinyBERT, Table 1: BERT-base 22.5, TinyBERT-4 1.2; MobileBERT, Table 4: 5.7.
@pytest.mark.parametrize(("name", "printed"), [("bert-base", 22.5), ("tinybert-4", 1.2), ("mobilebert", 5.7)])
def test_flops_are_the_papers(name, printed):
    assert measure(variant_config(name)).flops / 1e9 == pytest.approx(printed, rel=0.06)


def test_flops_worked_by_hand():
    """Sharing leaves them: L layers run whatever they read. A product of [S, a] and [a, b] has 2·S·a·b."""
    S, E, H, F, L = 10, 16, 32, 48, 4
    layer = 4 * S * H * H + 2 * S * S * H + 2 * S * H * F
    expected = 2 * (S * E * H + L * layer + H * H)
    for sharing in ("all", "none"):
        config = small_config(attention_sharing=sharing, ffn_sharing=sharing)
        assert measure(config, length=S).flops == expected


def test_file_size_is_that_of_a_saved_model(tmp_path):
    config = variant_config("bert-tiny")
    AlbertPlusModel(config).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    with safe_open(path, "pt") as file:
        header = len(json.dumps({key: [0, 0] for key in file.keys()})) * 8  # noqa: SIM118
    assert 0 < path.stat().st_size - measure(config, length=8).file_bytes < header


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_names_its_source_and_builds(name):
    assert any(char.isalpha() for char in VARIANTS[name].source)
    assert variant_config(name).num_hidden_layers > 0


def test_v1_and_v2_differ_in_dropout():
    for size in ("base", "large", "xlarge"):
        one, two = (variant_config(f"albert-{size}-v{version}") for version in (1, 2))
        assert one.hidden_dropout_prob == one.attention_probs_dropout_prob == 0.1
        assert two.hidden_dropout_prob == two.attention_probs_dropout_prob == 0
    assert variant_config("albert-xxlarge-v1").hidden_dropout_prob == 0


@pytest.mark.parametrize("name", VARIANTS)
def test_a_derived_config_is_the_variant_with_the_sources_words_and_labels(name):
    """Whatever the source is like: all of its own architecture is left behind."""
    source = small_config(
        vocab_size=77, pad_token_id=3, type_vocab_size=1, id2label={0: "a", 1: "b", 2: "c"}, norm_type="no_norm",
        bottleneck_size=16, num_feedforward_networks=3, pooler="none", hidden_act="relu", embedding_size=24,
        hidden_dropout_prob=0.3, layer_norm_eps=1e-3,
    )  # fmt: skip
    config, variant = derived_config(source, variant=name), variant_config(name)
    kept = {"vocab_size": 77, "pad_token_id": 3, "max_position_embeddings": 64}
    for field in type(config).__annotations__:
        expected = (
            min(variant.type_vocab_size, 1) if field == "type_vocab_size" else kept.get(field, getattr(variant, field))
        )
        assert getattr(config, field) == expected, field
    assert config.id2label == {0: "a", 1: "b", 2: "c"}


def test_overrides_win_over_the_source():
    settings = {"id2label": {0: "x"}, "label2id": {"x": 0}, "problem_type": "regression", "ffn_sharing": 2}
    config = derived_config(small_config(), variant=None, overrides=settings)
    assert (config.num_labels, config.problem_type, config.ffn_map) == (1, "regression", (0, 0, 1, 1))
    assert config.hidden_size == 32
    with pytest.raises(InvalidInput, match="'albert-base-v1'"):
        derived_config(small_config(), variant="albert-base")


@pytest.mark.parametrize("name", ["model_type", "attribute_map", "architectures", "dtype", "auto_map", "num_layers"])
def test_what_is_no_field_of_an_architecture_is_refused(name):
    with pytest.raises(InvalidInput, match=f"got '{name}'"):
        variant_config("bert-tiny", overrides={name: 1})


@pytest.mark.parametrize("text", ["", "1,", "a,b", "1;2", "-1"])
def test_layers_that_are_no_numbers(text):
    with pytest.raises(InvalidInput, match="use --layers 0,2,4,7,9,11"):
        parse_layers(text)
    assert parse_layers("0, 2,4") == [0, 2, 4]
