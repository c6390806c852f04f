"""Taggers on every runtime: transformers' own pipeline answers with an engine as it does with the model, and int8 whatever the batch."""

import importlib.util
import json

import pytest
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.invariance import BatchEffect
from hf_albert_plus.engines.parity import TOLERANCES
from hf_albert_plus.export.stage import export
from hf_albert_plus.modeling_albert_plus import AlbertPlusForTokenClassification
from tests.support.small_models import randomise, small_config

TEXTS = ["the doctor found the car in the garden last week .", "e\u0301te\u0301 Zürich 👩‍👩‍👧", "no", "a , b"]
TAGS = ("O", "B-who", "I-who", "B-what", "I-what")
RUNTIMES = ["torch", "onnx", "onnx-int8", *(["openvino"] if importlib.util.find_spec("openvino") else [])]
STRATEGIES = ("none", "simple", "first", "average", "max")


def make_tagger(directory, tokenizer_dir):
    """A tagger whose tags differ from token to token."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    names = {"id2label": dict(enumerate(TAGS)), "label2id": {name: number for number, name in enumerate(TAGS)}}
    model = randomise(
        AlbertPlusForTokenClassification(small_config(vocab_size=len(tokenizer), num_hidden_layers=2, **names))
    )
    with torch.no_grad():
        encoded = tokenizer(TEXTS, padding=True, return_tensors="pt")
        logits = model(**encoded).logits[encoded["attention_mask"].bool()]
        sizes = 3 / logits.std(dim=0)
        model.classifier.weight.mul_(sizes[:, None])
        model.classifier.bias.sub_(logits.mean(dim=0)).mul_(sizes)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return model


@pytest.fixture(scope="module")
def exported(tokenizer_dir, tmp_path_factory):
    source = tmp_path_factory.mktemp("tagger")
    make_tagger(source, tokenizer_dir)
    export(source, to=[name for name in RUNTIMES if name != "torch"], output=source.with_name("exported-tagger"))
    return source.with_name("exported-tagger")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("runtime", [name for name in RUNTIMES if name != "onnx-int8"])
def test_a_pipeline_answers_with_an_engine_as_with_the_model(exported, runtime, strategy):
    tokenizer = AutoTokenizer.from_pretrained(exported)
    engine, model = Engine.load(exported, runtime), AutoModelForTokenClassification.from_pretrained(exported)
    found, expected = (
        pipeline("token-classification", model=each, tokenizer=tokenizer, aggregation_strategy=strategy, device="cpu")(
            TEXTS
        )
        for each in (engine, model)
    )
    assert any(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [{**each, "score": 0} for each in ours] == [{**each, "score": 0} for each in theirs]
        scores = [float(each["score"]) for each in theirs]
        assert [float(each["score"]) for each in ours] == pytest.approx(scores, abs=TOLERANCES["fp32"])


def test_int8_answers_the_same_in_any_batch(exported):
    facts = json.loads((exported / "record.json").read_text())["result"]["exports"]["onnx-int8"]
    assert facts["changed_predictions"] == 0
    assert facts["difference_over_mean"] <= 1e-3
    assert facts["least_cosine"] >= 0.9
    tokenizer, engine = AutoTokenizer.from_pretrained(exported), Engine.load(exported, "onnx-int8")
    together = engine(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits
    for place, text in enumerate(TEXTS):
        alone = engine(**tokenizer(text, return_tensors="pt")).logits[0]
        torch.testing.assert_close(together[place, : len(alone)], alone, atol=1e-3, rtol=1e-3)


def test_changed_tags_are_counted_by_token():
    rows = [torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([[3.0, 1.0]])]
    others = [torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[1.0, 3.0]])]
    effect = BatchEffect.of(rows, others, decide=lambda logits: logits.argmax(axis=-1))
    assert effect == BatchEffect(pytest.approx(2 / (8 / 6)), 2)
