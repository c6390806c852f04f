"""Conversions: the same logits and hidden states as transformers' own models."""

import pytest
import torch
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AlbertForSequenceClassification,
    AlbertModel,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
)

from hf_albert_plus.convert import convert, max_difference, to_albert_plus
from hf_albert_plus.errors import InvalidInput
from tests.conftest import SMALL, pair_inputs, randomise

ALBERTS = {
    "one group": {},
    "two groups": {"num_hidden_groups": 2},
    "a group a layer": {"num_hidden_groups": 4},
    "two inner layers": {"num_hidden_groups": 2, "inner_group_num": 2},
    "a float-rounded group": {"num_hidden_layers": 18, "num_hidden_groups": 14},
    "erf gelu": {"hidden_act": "gelu"},
}


def _assert_same(source, converted):
    inputs = pair_inputs(120)
    kept = inputs["attention_mask"].bool()
    with torch.no_grad():
        one, other = source(**inputs, output_hidden_states=True), converted(**inputs, output_hidden_states=True)
    assert len(one.hidden_states) == len(other.hidden_states)
    for theirs, ours in zip(one.hidden_states, other.hidden_states, strict=True):
        torch.testing.assert_close(ours[kept], theirs[kept], atol=1e-6, rtol=1e-5)
    theirs, ours = one[0], other[0]
    torch.testing.assert_close(
        ours[kept] if ours.dim() == 3 else ours, theirs[kept] if theirs.dim() == 3 else theirs, atol=1e-6, rtol=1e-5
    )
    if "pooler_output" in one:
        torch.testing.assert_close(other.pooler_output, one.pooler_output, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", [AlbertModel, AlbertForSequenceClassification, AlbertForMaskedLM])
@pytest.mark.parametrize("name", ALBERTS)
def test_albert(kind, name):
    source = randomise(kind(AlbertConfig(**{**SMALL, "embedding_size": 16, **ALBERTS[name]})))
    converted = to_albert_plus(source)
    _assert_same(source, converted)
    # transformers never applies some dropouts but stores no more weights than we do.
    assert converted.num_parameters() == source.num_parameters()


@pytest.mark.parametrize("kind", [BertModel, BertForSequenceClassification, BertForMaskedLM])
def test_bert(kind):
    source = randomise(kind(BertConfig(**SMALL)))
    converted = to_albert_plus(source)
    assert converted.config.attention_map == (0, 1, 2, 3)
    assert converted.num_parameters() == source.num_parameters()
    _assert_same(source, converted)


def test_labels_and_dropout_come_along():
    config = BertConfig(**SMALL, id2label={0: "no", 1: "perhaps", 2: "yes"}, hidden_dropout_prob=0.2)
    converted = to_albert_plus(BertForSequenceClassification(config))
    assert converted.config.id2label == {0: "no", 1: "perhaps", 2: "yes"}
    assert converted.config.classifier_dropout_prob == 0.2


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            lambda: DistilBertModel(DistilBertConfig(dim=32, n_layers=1, n_heads=2, hidden_dim=32, vocab_size=50)),
            "distilbert",
        ),
        (lambda: BertForTokenClassification(BertConfig(**SMALL)), "BertForTokenClassification"),
        (lambda: AlbertModel(AlbertConfig(**SMALL, embedding_size=32)), "32 for both"),
    ],
)
def test_what_does_not_convert_is_refused(model, words):
    with pytest.raises(InvalidInput, match=words):
        to_albert_plus(model())


def test_directories(tmp_path, encoder_dir):
    record = convert(str(encoder_dir), output=tmp_path / "converted")
    assert record.result["architecture"] == "AlbertPlusModel"
    assert record.result["max_abs_difference"] < 1e-6
    AutoModelForSequenceClassification.from_pretrained(tmp_path / "converted")


def test_the_difference_sees_a_difference():
    one = randomise(BertModel(BertConfig(**SMALL)))
    other = to_albert_plus(one)
    with torch.no_grad():
        other.encoder.ffn[2].output.bias[0] += 1e-2
    assert max_difference(one, other) > 1e-3


def test_a_directory_with_another_head_or_missing_weights_is_refused(tmp_path):
    BertForTokenClassification(BertConfig(**SMALL)).save_pretrained(tmp_path / "ner")
    with pytest.raises(InvalidInput, match="got BertForTokenClassification"):
        convert(str(tmp_path / "ner"), output=tmp_path / "out")
    model = BertModel(BertConfig(**SMALL), add_pooling_layer=False)
    model.save_pretrained(tmp_path / "bare")
    with pytest.raises(InvalidInput, match="2 missing .pooler"):
        convert(str(tmp_path / "bare"), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pickled_weights_are_not_opened(tmp_path):
    model = BertModel(BertConfig(**SMALL))
    BertConfig(**SMALL, architectures=["BertModel"]).save_pretrained(tmp_path / "old")
    torch.save(model.state_dict(), tmp_path / "old" / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match="must hold its weights as safetensors"):
        convert(str(tmp_path / "old"), output=tmp_path / "out")


def test_a_config_with_fewer_layers_than_weights_is_refused(tmp_path):
    from hf_albert_plus.checkpoints import load_classifier
    from hf_albert_plus.glue import get_task

    BertModel(BertConfig(**SMALL)).save_pretrained(tmp_path)
    BertConfig(**{**SMALL, "num_hidden_layers": 3}, architectures=["BertModel"]).save_pretrained(tmp_path)
    with pytest.raises(InvalidInput, match=r"16 unread \(encoder.layer.3"):
        load_classifier(tmp_path, option="--model", task=get_task("sst2"))
