"""Words of texts: where they begin and end in any text, and the entities that their tags are."""

from random import Random

import numpy
import pytest

from hf_albert_plus.engines.text_answers import TAGGING, AnswerRule, TextAnswers
from hf_albert_plus.engines.text_words import tagged_texts, words_of
from hf_albert_plus.tasks.tag_schemes import scheme_of_labels

LABELS = ("O", "B-who", "I-who")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t ", []),
        ("play it", ["play", "it"]),
        ("Paris, (France)!", ["Paris", ",", "(", "France", ")", "!"]),
        ("o'clock 3.14 U.S. re-read", ["o'clock", "3.14", "U.S", ".", "re-read"]),
        ("...", [".", ".", "."]),
        ("e\u0301te\u0301\u00a0Zu\u0308rich", ["e\u0301te\u0301", "Zu\u0308rich"]),
        ("hi 👩‍👩‍👧! 👍🏽", ["hi", "👩‍👩‍👧", "!", "👍🏽"]),
        ("東京の天気。", ["東京の天気", "。"]),
        ("a!\u0308 b", ["a!\u0308", "b"]),
        ("$5 a_b", ["$5", "a_b"]),
    ],
)
def test_words_are_what_blanks_and_marks_at_their_ends_separate(text, words):
    assert [text[start:end] for start, end in words_of(text)] == words


def test_every_character_but_blanks_is_of_one_word():
    random = Random(0)
    characters = "ab.,(!- \u00a0\n\u0301\u200d👩é東🏽\u2028'"
    for _ in range(500):
        text = "".join(random.choice(characters) for _ in range(random.randint(0, 12)))
        spans = words_of(text)
        assert all(start < end for start, end in spans)
        places = [place for start, end in spans for place in range(start, end)]
        assert places == [place for place, character in enumerate(text) if not character.isspace()]


def test_entities_are_words_together_with_their_characters_and_mean_score():
    text, spans = "Ann Lee, saw Bob", [(0, 3), (4, 7), (7, 8), (9, 12), (13, 16)]
    probabilities = numpy.array([[0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.9, 0.05, 0.05], [0.2, 0.7, 0.1]])
    logits = numpy.log(numpy.r_[probabilities, probabilities[:1]])
    rule = AnswerRule(LABELS, TAGGING, scheme="IOB2")
    # The last word was cut off, and the fourth has two pieces.
    offsets = [(0, 3), (4, 7), (7, 8), (9, 11), (11, 12)]
    (said,) = tagged_texts([(text, spans)], TextAnswers([logits], [5], [True], [offsets]), rule)
    assert [word["tag"] for word in said.words] == ["B-who", "I-who", "O", "B-who", "O"]
    assert [word["score"] for word in said.words] == [*map(pytest.approx, (0.8, 0.6, 0.9, 0.7)), None]
    assert said.entities == [
        {"label": "who", "text": "Ann Lee", "start": 0, "end": 7, "score": pytest.approx(0.7), "words": (0, 2)},
        {"label": "who", "text": "saw", "start": 9, "end": 12, "score": pytest.approx(0.7), "words": (3, 4)},
    ]


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [(LABELS, "IOB2"), (("O", "I-a"), "IOB1"), (("B-a", "E-a", "I-a", "S-a", "O"), "IOBES"), (("O", "U-a"), "BILOU"), (("O", "a"), "runs"), (("NN", "VB"), "plain")],
)  # fmt: skip
def test_names_tell_the_scheme_where_no_task_does(labels, scheme):
    assert scheme_of_labels(labels) == scheme
