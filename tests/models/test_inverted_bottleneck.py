"""Bottlenecks wider than the hidden size, as MobileBERT's teacher has them: against transformers' MobileBERT, and against the paper."""

import pytest
import torch
from torch import nn
from transformers import AutoTokenizer, MobileBertConfig, MobileBertForSequenceClassification, MobileBertModel

from hf_albert_plus.config_building import measure, variant_config
from hf_albert_plus.conversion.families import FAMILIES
from hf_albert_plus.conversion.models import from_albert_plus, max_difference, to_albert_plus
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import (
    AlbertPlusForMaskedLM,
    AlbertPlusForSequenceClassification,
    AlbertPlusModel,
)
from tests.support.command_line import invoke
from tests.support.small_models import SMALL, pair_inputs, randomise, small_config

# Where transformers has two widths of epsilon: see `MOBILEBERT_EPS`.
_LAYER_NORM = {"normalization_type": "layer_norm", "layer_norm_eps": 1e-5}
_WIDE = {"embedding_size": 16, "intra_bottleneck_size": 48}
CONFIGS = {
    "wide": _WIDE,
    "wide, layer norms": {**_WIDE, **_LAYER_NORM},
    "wide, networks in a row": {**_WIDE, "num_feedforward_networks": 2, "classifier_activation": False},
    "of the hidden width": {"embedding_size": 16, "intra_bottleneck_size": 32, **_LAYER_NORM},
    "queries and keys read the hidden states": {
        "embedding_size": 16, "intra_bottleneck_size": 32, "key_query_shared_bottleneck": False, **_LAYER_NORM,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", [MobileBertModel, MobileBertForSequenceClassification])
@pytest.mark.parametrize("fields", CONFIGS.values(), ids=CONFIGS)
def test_transformers_mobilebert_there_and_back(kind, fields):
    theirs = randomise(kind(MobileBertConfig(**SMALL, **fields)))
    ours = to_albert_plus(theirs)
    assert max_difference(theirs, ours) <= 1e-6
    assert ours.num_parameters() == theirs.num_parameters()
    back = from_albert_plus(ours, to="mobilebert")
    assert type(back) is kind
    state = theirs.state_dict()
    assert list(back.state_dict()) == list(state)
    assert all(torch.equal(tensor, state[name]) for name, tensor in back.state_dict().items())
    for name in (
        "hidden_size",
        "intra_bottleneck_size",
        "true_hidden_size",
        "key_query_shared_bottleneck",
        "normalization_type",
    ):
        assert getattr(back.config, name) == getattr(theirs.config, name), name


def test_the_teacher_of_the_release_by_transformers_own_layers():
    """The release's teacher is wider inside than between its blocks, and its queries and keys read the hidden states: transformers'
    layers run that once these products have the hidden states' width."""
    fields = {**_WIDE, **_LAYER_NORM, "key_query_shared_bottleneck": False, "num_feedforward_networks": 1}
    theirs = MobileBertModel(MobileBertConfig(**SMALL, **fields))
    for layer in theirs.encoder.layer:
        layer.attention.self.query, layer.attention.self.key = nn.Linear(32, 48), nn.Linear(32, 48)
    randomise(theirs)
    config = small_config(
        attention_sharing="none", ffn_sharing="none", bottleneck_size=48, query_key_bottleneck=False, trigram_embeddings=True,
        hidden_act="relu", layer_norm_eps=1e-5,
    )  # fmt: skip
    ours = AlbertPlusModel(config).eval()
    names = FAMILIES["mobilebert"].modules(theirs.config, config, "Model")
    tensors = {}
    for key, tensor in theirs.state_dict().items():
        module, _, leaf = key.rpartition(".")
        tensors[f"{names[module]}.{leaf}"] = tensor
    ours.load_state_dict(tensors)
    inputs = pair_inputs(120)
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        one, other = theirs(**inputs), ours(**inputs)
    torch.testing.assert_close(other.last_hidden_state[real], one.last_hidden_state[real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(other.pooler_output, one.pooler_output, atol=1e-5, rtol=1e-5)
    with pytest.raises(InvalidInput, match="query_key_bottleneck False beside bottleneck_size 48"):
        from_albert_plus(ours, to="mobilebert")
    with pytest.raises(InvalidInput, match="key_query_shared_bottleneck False: .* one width alone"):
        to_albert_plus(theirs)


def test_parameters_of_the_papers_teacher():
    """Worked by hand from Table 1 (linear 512 -> 1024, attention 512 -> 1024 with 4 heads, FFN 1024 -> 4096 -> 1024, linear
    1024 -> 512, 24 times), which says 293M for it."""
    H, W, F, E, V = 512, 1024, 4096, 128, 30522
    norm = lambda width: 2 * width  # noqa: E731
    attention = (H * W + W + norm(W)) + 3 * (H * W + W) + (W * W + W) + norm(W)
    ffn = (W * F + F) + (F * W + W) + norm(W) + (W * H + H) + norm(H)
    embeddings = V * E + (3 * E * H + H) + (512 + 2) * H + norm(H)
    expected = 24 * (attention + ffn) + embeddings + H * H + H
    assert measure(variant_config("ib-bert"), length=8).parameters == expected
    assert expected / 1e6 == pytest.approx(293, abs=2)


def test_a_student_of_it_has_its_hidden_states_and_heads():
    """What MobileBERT compares, layer by layer, has one width in both."""
    teacher, student = variant_config("ib-bert"), variant_config("mobilebert")
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "embedding_size", "vocab_size"):
        assert getattr(teacher, name) == getattr(student, name), name


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (AlbertPlusModel, {"trigram_embeddings": True}, "bottleneck_size None"),
        (AlbertPlusModel, {"bottleneck_size": 48}, "trigram_embeddings False"),
        (AlbertPlusModel, {"bottleneck_size": 48, "trigram_embeddings": True}, "layer_norm_eps 1e-12, where two .* have 1e-05"),
        (AlbertPlusForMaskedLM, {"bottleneck_size": 48, "trigram_embeddings": True}, "E columns a word, where that has H"),
        (
            AlbertPlusForSequenceClassification,
            {"bottleneck_size": 48, "trigram_embeddings": True, "norm_type": "no_norm", "pooler": "relu"},
            "pooler 'relu'; keep it",
        ),
    ],
)  # fmt: skip
def test_what_transformers_mobilebert_cannot_compute_is_refused(kind, fields, words):
    with pytest.raises(InvalidInput, match=words):
        from_albert_plus(kind(small_config(**fields)), to="mobilebert")


def test_layer_norms_of_another_epsilon_do_not_convert():
    source = MobileBertModel(MobileBertConfig(**SMALL, **_WIDE, normalization_type="layer_norm"))
    with pytest.raises(InvalidInput, match="layer_norm_eps 1e-12: two of its norms have 1e-05"):
        to_albert_plus(source)


def test_the_command_line_converts_both_ways(tmp_path, tokenizer_dir):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    config = MobileBertConfig(**{**SMALL, "vocab_size": len(tokenizer)}, **_WIDE)
    randomise(MobileBertModel(config)).save_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(tmp_path / "theirs")
    result = invoke("convert", str(tmp_path / "theirs"), "--out", str(tmp_path / "ours"))
    assert result.exit_code == 0, result.output
    result = invoke("convert", str(tmp_path / "ours"), "--to", "mobilebert", "--out", str(tmp_path / "back"))
    assert result.exit_code == 0, result.output
    back = MobileBertModel.from_pretrained(tmp_path / "back")
    assert max_difference(MobileBertModel.from_pretrained(tmp_path / "theirs").eval(), back) <= 1e-6
