"""The server over a tagger: words, entities and characters of any text against transformers' own model, and the protocol's tensors."""

import numpy
import pytest
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.settings import ServeSettings
from tests.support.kinds import CLOSE, KINDS, make_classifier
from tests.support.local_server import Running
from tests.support.taggers import TAGS, TEXTS, make_tagger


@pytest.fixture(scope="module")
def directory(tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tagger")
    make_tagger(directory, tokenizer_dir)
    return directory


@pytest.fixture(scope="module")
def served(directory, tokenizer_dir, tmp_path_factory):
    settings = ServeSettings(cores=1)
    texts = tmp_path_factory.mktemp("texts")
    make_classifier(texts, tokenizer_dir, **KINDS["one of three"])
    models = {name: {1: QueuedModel(path, "torch", settings)} for name, path in (("tags", directory), ("texts", texts))}
    running = Running(Catalogue(models), settings, Gate())
    yield running
    running.stop()


def tag(served, **body):
    status, _, content = served.ask("POST", "/tag", {"model": "tags", **body})
    return status, content


def expected_words(directory, text):
    """The best tag, and its probability, at the token that a word's first character that any token has is of."""
    model, tokenizer = (each.from_pretrained(directory) for each in (AutoModelForTokenClassification, AutoTokenizer))
    encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
    offsets = encoded.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        probabilities = model(**encoded).logits[0].softmax(dim=-1)
    said, place = [], 0
    for word in text.split():
        start = text.index(word, place)
        place = start + len(word)
        token = min(number for number, (begin, end) in enumerate(offsets) if start <= begin < end <= place)
        best = int(probabilities[token].argmax())
        said.append((word, start, place, TAGS[best], float(probabilities[token, best])))
    return said


@pytest.mark.parametrize("text", [text for text in TEXTS if "(" not in text])
def test_words_have_the_tags_of_the_models_first_pieces(served, directory, text):
    words = text.replace(".", " .").split()
    status, content = tag(served, inputs=text)
    assert status == 200
    (prediction,) = content["predictions"]
    expected = expected_words(directory, text)
    assert [each[0] for each in expected] == [word["word"] for word in prediction["words"]] == words
    for word, (_, start, end, best, score) in zip(prediction["words"], expected, strict=True):
        assert (word["start"], word["end"], word["tag"]) == (start, end, best)
        assert word["score"] == pytest.approx(score, abs=CLOSE)


def test_characters_are_of_the_text_as_it_came(served):
    status, content = tag(served, inputs=TEXTS)
    assert status == 200
    assert any(each["entities"] for each in content["predictions"])
    for text, prediction in zip(TEXTS, content["predictions"], strict=True):
        for each in prediction["words"]:
            assert text[each["start"] : each["end"]] == each["word"]
        for each in prediction["entities"]:
            assert text[each["start"] : each["end"]] == each["text"]
            first, after = each["words"]
            members = prediction["words"][first:after]
            assert (members[0]["start"], members[-1]["end"]) == (each["start"], each["end"])
            assert members[0]["tag"] == f"B-{each['label']}"
            assert {word["tag"] for word in members[1:]} <= {f"I-{each['label']}"}
            assert each["score"] == pytest.approx(sum(word["score"] for word in members) / len(members))


def test_words_may_be_given(served):
    words = TEXTS[0].split()
    _, of_text = tag(served, inputs=[TEXTS[0]])
    _, of_words = tag(served, inputs={"words": words})
    assert of_words["predictions"] == of_text["predictions"]
    _, whole = tag(served, inputs={"words": ["the doctor", "found"]})
    assert [(word["word"], word["start"]) for word in whole["predictions"][0]["words"]] == [
        ("the doctor", 0),
        ("found", 11),
    ]


def test_words_beyond_the_longest_text_are_there_without_a_score(served):
    text = "the doctor " * 60
    status, content = tag(served, inputs=text, truncate=False)
    assert status == 422
    assert "tokens, and the model takes at most 64" in content["error"]
    (prediction,) = tag(served, inputs=text, truncate=True)[1]["predictions"]
    assert prediction["truncated"]
    scores = [word["score"] for word in prediction["words"]]
    assert len(scores) == 120
    unseen = scores.index(None)
    assert set(scores[unseen:]) == {None}
    assert {word["tag"] for word in prediction["words"][unseen:]} == {"O"}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["a text", "its words"])
def test_a_megabyte_is_refused_or_cut_and_said(served, form):
    words = ["doctor"] * 140_000
    given = " ".join(words) if form == "a text" else {"words": words}
    status, content = tag(served, inputs=given, truncate=False)
    assert status == 422
    assert 'shorten it, or send "truncate": true' in content["error"]
    status, content = tag(served, inputs=given, truncate=True)
    assert status == 200
    (prediction,) = content["predictions"]
    assert prediction["truncated"]
    assert len(prediction["words"]) == len(words)
    seen = [word["score"] is not None for word in prediction["words"]]
    assert seen == sorted(seen, reverse=True)
    assert 0 < sum(seen) <= 62
    assert {word["tag"] for word in prediction["words"][sum(seen) :]} == {"O"}


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/tag", {"model": "texts", "inputs": "a"}, "texts gives texts labels, and words no tag: ask /classify"),
        ("/classify", {"model": "tags", "inputs": "a"}, "tags gives each word a tag, and texts no label: ask /tag"),
        ("/tag", {"model": "tags", "inputs": {"words": []}}, 'inputs.words: the words of a text must be a list of at least one string, got []; give ["as", "this"]'),
        ("/tag", {"model": "tags", "inputs": {"words": ""}}, "inputs.words: the words of a text must be a list of at least one string, got ''; give"),
        ("/tag", {"model": "tags", "inputs": ["a", {"words": ["a", ""]}]}, "inputs.1.words: words of a text must not be empty, got '' as word 2; leave it out"),
        ("/tag", {"model": "tags", "inputs": {"words": [" "]}}, "inputs.words: words of a text must not be empty, got ' ' as word 1; leave it out"),
        ("/tag", {"model": "tags", "inputs": {"words": ["a", 3]}}, "inputs.words: the words of a text must be a list of at least one string, got ['a', 3]"),
        ("/tag", {"model": "tags", "inputs": "a \ud800"}, "a text must be made of characters, and this one has half of a surrogate pair"),
        ("/tag", {"model": "tags", "inputs": 3}, "must be a text, an object with words, or a list of these"),
    ],
)  # fmt: skip
def test_what_is_asked_wrongly_is_refused(served, path, body, said):
    status, _, content = served.ask("POST", path, body)
    assert status == 422
    assert said in content["error"]


def test_a_text_without_words_has_no_tags(served):
    (prediction,) = tag(served, inputs="  ")[1]["predictions"]
    assert (prediction["words"], prediction["entities"]) == ([], [])


@pytest.mark.parametrize("binary", [True, False])
def test_the_protocol_gives_every_token(served, directory, binary):
    client_of = pytest.importorskip("tritonclient.http")
    client = client_of.InferenceServerClient(f"127.0.0.1:{served.port}")
    tokenizer = AutoTokenizer.from_pretrained(directory)
    encoded = tokenizer(TEXTS, padding=True, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")
    with torch.no_grad():
        expected = AutoModelForTokenClassification.from_pretrained(directory)(**encoded).logits
    mask = encoded["attention_mask"].bool()
    outputs = client.get_model_metadata("tags")["outputs"]
    assert {each["name"]: each["shape"] for each in outputs} == {
        "logits": [-1, -1, 5], "scores": [-1, -1, 5], "tag": [-1, -1], "offsets": [-1, -1, 2],
    }  # fmt: skip
    text = client_of.InferInput("text", [len(TEXTS)], "BYTES")
    text.set_data_from_numpy(numpy.array(TEXTS, dtype=object))
    of_texts = client.infer(
        "tags", [text], outputs=[client_of.InferRequestedOutput(each["name"], binary_data=binary) for each in outputs]
    )
    tensors = []
    for name in ("input_ids", "attention_mask"):
        tensors.append(client_of.InferInput(name, list(mask.shape), "INT64"))
        tensors[-1].set_data_from_numpy(encoded[name].numpy(), binary_data=binary)
    of_ids = client.infer("tags", tensors)
    for answer in (of_texts, of_ids):
        numpy.testing.assert_allclose(answer.as_numpy("logits")[mask], expected[mask], atol=CLOSE)
        numpy.testing.assert_allclose(answer.as_numpy("scores")[mask], expected[mask].softmax(dim=-1), atol=CLOSE)
        assert (answer.as_numpy("logits")[~mask] == 0).all()
        tags = [each.decode() if isinstance(each, bytes) else each for each in answer.as_numpy("tag")[mask.numpy()]]
        assert tags == [TAGS[best] for best in expected[mask].argmax(dim=-1)]
    assert (of_texts.as_numpy("offsets")[mask] == offsets[mask].numpy()).all()
    assert of_ids.as_numpy("offsets") is None
    client.close()


def test_the_pages_describe_it(served):
    described = served.ask("GET", "/openapi.json")[2]
    assert {"TagRequest", "TagResponse", "TaggedWord", "TaggedEntity"} <= set(described["components"]["schemas"])
    said = served.ask("GET", "/v2/models/tags")[2]["parameters"]
    assert (said["problem_type"], said["tag_scheme"]) == ("token_classification", "IOB2")
