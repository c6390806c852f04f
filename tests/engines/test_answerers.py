"""Models of spans on every runtime: the same answers as the model's own, found span by span, with and without transformers, of any text."""

import importlib.util
import json
import shutil
from dataclasses import replace

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.parity import TOLERANCES
from hf_albert_plus.engines.span_answers import best_span
from hf_albert_plus.engines.text_answers import QUESTION_ANSWERING, AnswerRule, AnswerSpan
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.stage import export
from hf_albert_plus.serving.weights_comparison import check_as_weights
from hf_albert_plus.tasks.question_windows import MOST_CONTEXT_WINDOWS
from tests.support.questions import ASKED, make_answerer

EXPORTS = ["onnx", "onnx-int8", *(["openvino"] if importlib.util.find_spec("openvino") else [])]


@pytest.fixture(scope="module")
def exported(tokenizer_dir, tmp_path_factory):
    source = tmp_path_factory.mktemp("answerer")
    make_answerer(source, tokenizer_dir, no_answer_threshold=1.0, longest_answer=6)
    export(source, to=EXPORTS, output=source.with_name("exported-answerer"))
    return source.with_name("exported-answerer")


@pytest.fixture(scope="module")
def plain(exported):
    return TextClassifier(exported, "onnx", cores=1, max_length=None)


def spans_by_hand(exported, question, context, *, longest=6):
    """Every span of a context that fits into one window: its characters, its probability, and that of no answer."""
    model, tokenizer = (each.from_pretrained(exported) for each in (AutoModelForQuestionAnswering, AutoTokenizer))
    encoded = tokenizer(question, context, return_offsets_mapping=True, return_tensors="pt")
    offsets, sequences = encoded.pop("offset_mapping")[0].tolist(), encoded.sequence_ids()
    with torch.no_grad():
        output = model.eval()(**encoded)
    start, end = output.start_logits[0].double(), output.end_logits[0].double()
    inside = [place for place, sequence in enumerate(sequences) if sequence == 1]
    places = [(one, other) for one in inside for other in inside if one <= other < one + longest]
    sums = torch.stack([start[one] + end[other] for one, other in places] + [start[0] + end[0]])
    shares = sums.softmax(dim=0).tolist()
    return [
        (offsets[one][0], offsets[other][1], share) for (one, other), share in zip(places, shares, strict=False)
    ], shares[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("question", "context"), ASKED[:4])
def test_the_answer_is_the_most_probable_span(exported, plain, question, context):
    spans, nothing = spans_by_hand(exported, question, context)
    start, end, share = max(spans, key=lambda span: span[2])
    found = plain.answer([(question, context)]).spans[0]
    assert (found.score, found.no_answer_score) == pytest.approx((share, nothing), abs=1e-3)
    assert found.margin == pytest.approx(numpy.log(nothing / share), abs=1e-2)
    assert found.start == start
    assert context[found.start : found.end] == found.text
    # Marks that belong to the last letter are there too.
    assert found.text[: end - start] == context[start:end]
    (given,) = plain.ask([(question, context)])
    assert (given is None) is (found.margin > 1.0)
    assert plain.ask([(question, context)], threshold=found.margin + 1) == [found]
    assert plain.ask([(question, context)], threshold=found.margin - 1) == [None]


@pytest.mark.parametrize("runtime", ["torch", *EXPORTS])
def test_every_runtime_answers_as_the_model(exported, plain, runtime):
    asked = TextClassifier(exported, runtime, cores=1, max_length=None)
    expected = plain.answer(ASKED).spans
    assert type(plain.engine).__name__ == "PlainOnnx"
    assert [len(asked.asked([each]).rows) for each in ASKED][-1] > 1
    if runtime == "onnx-int8":
        # Each answer is that of the question by itself.
        expected = [asked.answer([each]).spans[0] for each in ASKED]
    for ours, theirs in zip(asked.answer(ASKED).spans, expected, strict=True):
        assert (ours.text, ours.start, ours.end) == (theirs.text, theirs.start, theirs.end)
        assert ours.score == pytest.approx(theirs.score, abs=10 * TOLERANCES["fp32"])


def test_exports_are_verified_at_both_outputs(exported):
    exports = json.loads((exported / "record.json").read_text())["result"]["exports"]
    for name in EXPORTS:
        assert {each["output"] for each in exports[name]["parity"]} == {"start_logits", "end_logits"}
    assert exports["onnx-int8"]["difference_over_mean"] <= 1e-3
    output = Engine.load(exported, "onnx")(
        **AutoTokenizer.from_pretrained(exported)("who ?", "the doctor", return_tensors="pt")
    )
    assert type(output).__name__ == "QuestionAnsweringModelOutput"


def test_an_export_is_held_against_the_weights_beside_it(exported, plain, tmp_path):
    check_as_weights(exported, plain.engine.runtime)
    shutil.copytree(exported, tmp_path / "mixed")
    weights = tmp_path / "mixed" / "model.safetensors"
    tensors = load_file(weights)
    # That of ends alone.
    tensors["qa_outputs.weight"][1] *= 2
    save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(
        InvalidInput,
        match="must compute what the weights beside it do.*start_logits differ by .*e-0.*end_logits differ by [1-9]",
    ):
        check_as_weights(tmp_path / "mixed", plain.engine.runtime)


def window(token, count, *, text, characters=None):
    characters = characters or [[2 * (token + place), 2 * (token + place) + 1] for place in range(count)]
    return {
        "first": 2,
        "token": token,
        "characters": characters,
        "text": text[characters[0][0] :],
        "text_start": characters[0][0],
    }


def logits_of(starts, ends):
    return numpy.array([starts, ends], dtype=numpy.float32).T


def test_the_best_of_all_windows_by_hand():
    rule = AnswerRule(("start", "end"), QUESTION_ANSWERING, longest_answer=2, no_answer_threshold=0.0)
    text = "a b c d e"
    rows = [window(0, 3, text=text), window(2, 3, text=text)]
    # The first token of each, a token of the question, the context's, the last one.
    first = logits_of([-1, 9, 1, 0, 2, 9], [-2, 9, 0, 1, 0, 9])
    second = logits_of([-5, 9, 0, 3, 0, 9], [1, 9, 0, 0, 2.5, 9])
    # "d e" has 3 + 2.5, from its third token to the fourth of five; no answer has min(-3, -4).
    found = best_span(rows, [first, second], rule)
    sums = {(0, 0): 1, (0, 1): 2, (1, 1): 1, (1, 2): 0, (2, 2): 2, (2, 3): 0, (3, 3): 3, (3, 4): 5.5, (4, 4): 2.5}
    total = sum(numpy.exp(value) for value in sums.values()) + numpy.exp(-4)
    assert (found.text, found.start, found.end, found.margin) == ("d e", 6, 9, -9.5)
    assert found.score == pytest.approx(numpy.exp(5.5) / total)
    assert found.no_answer_score == pytest.approx(numpy.exp(-4) / total)
    always = best_span(rows, [first, second], AnswerRule(("start", "end"), QUESTION_ANSWERING, longest_answer=2))
    assert always.score == pytest.approx(numpy.exp(5.5) / (total - numpy.exp(-4)))
    assert always.no_answer_score == 0.0
    assert always.is_given(None)


def test_an_end_before_its_start_and_a_span_too_long_are_none():
    rule = AnswerRule(("start", "end"), QUESTION_ANSWERING, longest_answer=2)
    row = window(0, 4, text="a b c d")
    found = best_span([row], [logits_of([0, 0, 5, 0, 0, 4, 0], [0, 0, 0, 4.5, 0, 5, 0])], rule)
    assert found.text == "a b"
    found = best_span([row], [logits_of([0, 0, 0, 0, 9, 0, 0], [0, 0, 9, 0, 0, 0, 0])], rule)
    assert found.text in ("c", "c d", "a", "b c")


@pytest.mark.parametrize(
    ("text", "characters", "said"),
    [
        ("cafe\u0301 x", [[0, 4], [6, 7]], "cafe\u0301"),
        ("a\u200d b", [[0, 1], [3, 4]], "a\u200d"),
        ("lamp\u200f x", [[0, 4], [6, 7]], "lamp"),
        ("lamp\u200b\u200d x", [[0, 6], [7, 8]], "lamp"),
        ("lamp\u00ad \ufeff x", [[0, 7], [8, 9]], "lamp"),
        ("lamp\u200d\u200e x", [[0, 4], [7, 8]], "lamp\u200d"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e007f x", [[0, 1], [5, 6]], "\U0001f3f4\U000e0067\U000e0062\U000e007f"),
        (" \u2581the  sailor ", [[0, 6], [6, 13]], "\u2581the"),
        ("the sailor", [[0, 3], [3, 10]], "the"),
    ],
)  # fmt: skip
def test_marks_belong_to_the_letter_before_them_and_blanks_to_nothing(text, characters, said):
    rule = AnswerRule(("start", "end"), QUESTION_ANSWERING)
    found = best_span(
        [window(0, 2, text=text, characters=characters)], [logits_of([0, 0, 5, 0, 0], [0, 0, 5, 0, 0])], rule
    )
    assert found.text == said
    assert text[found.start : found.end] == said


def test_a_token_of_format_characters_is_no_answer():
    row = window(0, 2, text="\u200b lamp", characters=[[0, 1], [2, 6]])
    logits = logits_of([0, 0, 9, 0, 0], [0, 0, 9, 0, 0])
    assert best_span([row], [logits], AnswerRule(("start", "end"), QUESTION_ANSWERING)).text == "lamp"


def test_a_context_of_dropped_characters_has_no_answer(exported, plain):
    assert plain.ask([("who ?", "\u0000\u0001")]) == [None]
    empty = {"first": 3, "token": 0, "characters": [], "text": "", "text_start": 0}
    always = AnswerRule(("start", "end"), QUESTION_ANSWERING)
    may_lack = replace(always, no_answer_threshold=0.0)
    for rule, nothing in ((always, 0.0), (may_lack, 1.0)):
        found = best_span([empty], [logits_of([0, 0, 0, 0], [0, 0, 0, 0])], rule)
        assert found == AnswerSpan("", 0, 0, 0.0, nothing, numpy.inf)
        assert not found.is_given(rule.no_answer_threshold)


def test_logits_that_are_no_numbers_give_no_answer():
    row = window(0, 2, text="a b")
    for starts in ([0, 0, float("nan"), 0, 0], [float("nan"), 0, 0, 0, 0]):
        found = best_span([row], [logits_of(starts, [0.0] * 5)], AnswerRule(("start", "end"), QUESTION_ANSWERING))
        assert numpy.isnan(found.score)
        assert not found.is_given(None)


def test_long_contexts_are_read_in_windows_and_bounded(plain):
    context = "no " * 40 + "the sailor sold the lamp . " + "no " * 40
    assert plain.asked([("who sold the lamp ?", context)]).truncated == [False]
    asked = plain.asked([("who sold the lamp ?", context * 200), ("who ?", "the doctor")])
    assert len(asked.places[0]) == MOST_CONTEXT_WINDOWS < asked.windows[0]
    assert asked.truncated == [True, False]
    assert [len(part) for part in asked.places] == [MOST_CONTEXT_WINDOWS, 1]
    assert max(asked.lengths) <= plain.facts.max_length


def test_what_is_asked_wrongly_is_refused(plain, exported):
    with pytest.raises(InvalidInput, match="a question must have words, got an empty one in text 1"):
        plain.ask([("who ?", "the doctor"), (" ", "the doctor")])
    with pytest.raises(InvalidInput, match="a context must have words"):
        plain.ask([("who ?", "\n")])
    with pytest.raises(InvalidInput, match="a question is asked of a context, got text 0 without one"):
        plain.answer(["who ?"])
    with pytest.raises(
        InvalidInput,
        match="must leave room for 8 tokens of its context within 64 tokens, got text 1, .*or serve with a larger",
    ):
        plain.ask([("who ?", "the doctor"), ("who " * 70, "the doctor found the car in the garden .")])
    for call in (plain.classify, plain.tag):
        with pytest.raises(InvalidInput, match=r"call ask\(\)"):
            call(["who ?"])
    config = json.loads((exported / "config.json").read_text())
    for name, value in (("longest_answer", 0), ("no_answer_threshold", "high")):
        (exported / "config.json").write_text(json.dumps({**config, name: value}))
        with pytest.raises(InvalidInput, match=f"{name} of config.json must be"):
            TextClassifier(exported, "onnx", cores=1, max_length=None, verify=False)
    (exported / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (("a", "b", "c"), r"a pair of strings with its context, got \('a', 'b', 'c'\) as text 1; give \(question"),
        (("who ?", None), r"a pair of strings with its context, got \('who \?', None\) as text 1"),
        ((1, "x"), "a pair of strings with its context"),
        (None, "a pair of strings with its context, got None as text 1"),
        (("who ?", "the \ud83d"), "a context must be made of characters, got half of a surrogate pair in text 1"),
    ],
)
def test_what_is_no_question_is_refused(plain, text, said):
    with pytest.raises(InvalidInput, match=said):
        plain.ask([ASKED[0], text])
    assert plain.ask([list(ASKED[0])]) == plain.ask([ASKED[0]])


@pytest.mark.parametrize("threshold", ["0", float("nan"), float("inf"), True])
def test_a_threshold_that_is_no_number_is_refused(plain, threshold):
    with pytest.raises(InvalidInput, match="threshold must be a finite number, got .*; use 0.0"):
        plain.ask(ASKED[:1], threshold=threshold)
    assert plain.ask(ASKED[:1], threshold=numpy.float32(1)) == plain.ask(ASKED[:1], threshold=1)


def test_a_model_that_always_answers_takes_no_threshold(tokenizer_dir, tmp_path):
    make_answerer(tmp_path, tokenizer_dir)
    model = TextClassifier(tmp_path, "torch", cores=1, max_length=None)
    (answer,) = model.ask(ASKED[:1])
    assert answer.text
    with pytest.raises(
        InvalidInput,
        match="threshold is of models that may give no answer, got 0 for one without no_answer_threshold in",
    ):
        model.ask(ASKED[:1], threshold=0.0)
    assert model.ask([]) == []
