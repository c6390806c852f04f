"""Taggers on every runtime: transformers' own pipeline answers with an engine as it does with the model, and int8 whatever the batch."""

import importlib.util
import json

import pytest
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.invariance import BatchEffect
from hf_albert_plus.engines.parity import TOLERANCES
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.stage import export
from tests.support.taggers import TEXTS, make_tagger

RUNTIMES = ["torch", "onnx", "onnx-int8", *(["openvino"] if importlib.util.find_spec("openvino") else [])]
STRATEGIES = ("none", "simple", "first", "average", "max")


@pytest.fixture(scope="module")
def exported(tokenizer_dir, tmp_path_factory):
    source = tmp_path_factory.mktemp("tagger")
    make_tagger(source, tokenizer_dir)
    export(source, to=[name for name in RUNTIMES if name != "torch"], output=source.with_name("exported-tagger"))
    return source.with_name("exported-tagger")


@pytest.mark.slow
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


def test_words_are_tagged_alike_with_and_without_transformers(exported):
    """In torch, tokenised by transformers, and as a graph, tokenised by the tokenizers library alone."""
    one, other = (TextClassifier(exported, runtime, cores=1, max_length=None) for runtime in ("torch", "onnx"))
    assert (type(one.engine).__name__, type(other.engine).__name__) == ("AlbertPlusForTokenClassification", "PlainOnnx")
    for ours, theirs in zip(one.tag(TEXTS), other.tag(TEXTS), strict=True):
        assert [{**word, "score": 0} for word in ours.words] == [{**word, "score": 0} for word in theirs.words]
        scores = [word["score"] for word in theirs.words]
        assert [word["score"] for word in ours.words] == pytest.approx(scores, abs=TOLERANCES["fp32"])
    assert one.tag([["the", "doctor"]])[0].words == one.tag(["the doctor"])[0].words
    with pytest.raises(InvalidInput, match=r"a tagger answers words, not texts"):
        one.classify(TEXTS)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([["a", ""]], "words of a text must not be empty, got '' as word 2; leave it out"),
        (["a", [" "]], "words of a text must not be empty, got ' ' as word 1; leave it out"),
        ([[]], r'the words of a text must be a list of at least one string, got \[\]; give \["as", "this"\]'),
        ([["a", 3]], r"the words of a text must be a list of at least one string, got \['a', 3\]; give"),
        (["a", 3], 'a text must be a string or a list of its words, got 3 as text 1; give "as this" or'),
        ("the doctor", r'texts must be in a list, got \'the doctor\'; give \["a text"\]'),
        (["a", "b \ud800"], "a text must be made of characters, got half of a surrogate pair in text 1; decode it again"),
        ([["\udfff"]], "a text must be made of characters, got half of a surrogate pair in text 0; decode it again"),
    ],
)  # fmt: skip
def test_what_is_no_text_and_no_words_is_refused(exported, texts, said):
    with pytest.raises(InvalidInput, match=said):
        TextClassifier(exported, "onnx", cores=1, max_length=None).tag(texts)


def test_changed_tags_are_counted_by_token():
    rows = [torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([[3.0, 1.0]])]
    others = [torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[1.0, 3.0]])]
    effect = BatchEffect.of(rows, others, decide=lambda logits: logits.argmax(axis=-1))
    assert effect == BatchEffect(pytest.approx(2 / (8 / 6)), 2)
