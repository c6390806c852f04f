"""Input formats: every token of a made-up text is a number of its own, so that where each came from can be read off."""

from collections import Counter
from itertools import chain, pairwise
from random import Random

import pytest

from hf_albert_plus.text.formats import NO_ORDER, doc_sentences, full_sentences, segment_pairs, sentence_pairs

ROOM = 61
SEPARATOR = -3


def make_documents(*, documents: int, sentences: int, seed: int = 0, longest: int = 25):
    """Documents of consecutive numbers, 10,000,000 apart, and a look-up from each number to its document."""
    random = Random(seed)
    made = []
    for index in range(documents):
        number = index * 10_000_000
        document = []
        for _ in range(sentences):
            length = random.randint(1, longest)
            document.append(list(range(number, number + length)))
            number += length
        made.append(document)
    return made


def document_of(token: int) -> int:
    return token // 10_000_000


def is_run(tokens) -> bool:
    return all(b == a + 1 for a, b in pairwise(tokens))


def starts_of(documents):
    return {sentence[0] for document in documents for sentence in document}


@pytest.mark.parametrize("make", [segment_pairs, sentence_pairs])
def test_order_swaps_half_of_consecutive_segments_and_takes_no_other_document(make):
    documents = make_documents(documents=40, sentences=300)
    examples = list(make(documents, room=ROOM, order="sentence-order", random=Random(1)))
    starts, ends = starts_of(documents), {sentence[-1] for document in documents for sentence in document}
    labels = Counter(example.label for example in examples)
    for example in examples:
        assert len({document_of(token) for token in example.first + example.second}) == 1
        assert is_run(example.first)
        assert is_run(example.second)
        assert len(example.first) + len(example.second) <= ROOM + (not example.second)
        if example.second:
            a, b = (example.second, example.first) if example.label else (example.first, example.second)
            assert a[-1] < b[0]
            # Truncation aside, nothing lies between them, and they meet where one sentence ends.
            if len(a) + len(b) < ROOM:
                assert b[0] == a[-1] + 1
                assert b[0] in starts
                assert a[-1] in ends
        else:
            assert example.label == NO_ORDER
    both = labels[0] + labels[1]
    assert both > 2000
    assert abs(labels[1] / both - 0.5) < 4 * 0.5 / both**0.5


@pytest.mark.parametrize("make", [segment_pairs, sentence_pairs])
def test_next_sentence_takes_half_from_other_documents_and_puts_back_what_it_left(make):
    documents = make_documents(documents=40, sentences=300)
    examples = list(make(documents, room=ROOM, order="next-sentence", random=Random(1), elsewhere=documents))
    labels = Counter(example.label for example in examples)
    assert set(labels) == {0, 1}
    for example in examples:
        same = document_of(example.first[0]) == document_of(example.second[0])
        assert same == (example.label == 0)
        assert len({document_of(token) for token in example.second}) == 1
        if same and len(example.first) + len(example.second) < ROOM:
            assert example.second[0] == example.first[-1] + 1
    # What ends a document alone has no next sentence: those are the other documents' too.
    assert 0.5 - 0.03 < labels[1] / len(examples) < 0.56
    others = Counter(document_of(example.second[0]) for example in examples if example.label)
    assert len(others) == len(documents)


@pytest.mark.parametrize("make", [segment_pairs, sentence_pairs])
def test_a_document_alone_takes_others_from_where_they_are(make):
    alone, *others = make_documents(documents=6, sentences=300)
    examples = list(make([alone], room=ROOM, order="next-sentence", random=Random(1), elsewhere=[alone, *others]))
    taken = Counter(document_of(example.second[0]) for example in examples if example.label)
    assert set(taken) == {1, 2, 3, 4, 5}
    assert 0.4 < sum(taken.values()) / len(examples) < 0.6


def test_no_label_keeps_the_same_segments():
    documents = make_documents(documents=5, sentences=100)
    plain = list(segment_pairs(documents, room=ROOM, order="none", random=Random(3)))
    assert {example.label for example in plain} == {NO_ORDER}
    assert all(example.second[0] > example.first[-1] for example in plain if example.second)


def test_nothing_between_examples_is_lost():
    """Where nothing is cut, the examples give the text again."""
    documents = make_documents(documents=3, sentences=200, longest=1)
    for make in (segment_pairs, sentence_pairs):
        examples = make(documents, room=ROOM, order="none", random=Random(3))
        found = [token for example in examples for token in example.first + example.second]
        assert found == [token for document in documents for sentence in document for token in sentence]


def test_a_tenth_is_short_and_its_lengths_are_even():
    """One-token sentences: an example is as long as it was meant to be."""
    documents = make_documents(documents=1, sentences=200_000, longest=1)
    examples = list(segment_pairs(documents, room=ROOM, order="sentence-order", random=Random(5)))
    lengths = [len(example.first) + len(example.second) for example in examples]
    short = [length for length in lengths if length < ROOM]
    # 1 of the 60 lengths that are drawn, 2 to 61, is the full one.
    expected = 0.1 * 59 / 60
    assert abs(len(short) / len(lengths) - expected) < 4 * (expected / len(lengths)) ** 0.5
    mean = sum(short) / len(short)
    assert abs(mean - 31) < 4 * 17 / len(short) ** 0.5
    assert min(short) == 2
    splits = Counter(len(example.first) for example in examples if len(example.first + example.second) == ROOM)
    assert set(splits) == set(range(1, ROOM))
    whole = sum(splits.values())
    assert max(abs(count - whole / 60) for count in splits.values()) < 5 * (whole / 60) ** 0.5


def test_the_longer_segment_is_cut_at_both_ends_alike():
    front = back = 0
    for seed in range(300):
        document = [list(range(60)), list(range(60, 90))]
        (example,) = segment_pairs([document], room=ROOM, order="none", random=Random(seed), short_share=0)
        assert example.second == document[1]
        assert len(example.first) == ROOM - 30
        assert is_run(example.first)
        front += example.first[0]
        back += 59 - example.first[-1]
    assert front + back == 300 * (90 - ROOM)
    assert abs(front - back) < 4 * (front + back) ** 0.5


def test_both_are_cut_to_the_same_length_where_both_are_long():
    document = [list(range(59)), list(range(59, 200))]
    (example,) = segment_pairs([document], room=60, order="none", random=Random(0), short_share=0)
    assert (len(example.first), len(example.second)) == (30, 30)


def test_full_sentences_go_over_documents_with_a_separator():
    documents = make_documents(documents=9, sentences=7)
    examples = list(full_sentences(documents, room=ROOM, separator=SEPARATOR))
    starts = starts_of(documents)
    stream = [example.first for example in examples]
    assert [token for tokens in stream for token in tokens if token != SEPARATOR] == list(chain(*chain(*documents)))
    for tokens, following in pairwise(stream):
        assert tokens[0] in starts
        assert len(tokens) <= ROOM
        # The next sentence would not have fit, with a separator where it begins a document.
        (sentence,) = (s for document in documents for s in document if s[0] == following[0])
        new = document_of(sentence[0]) != document_of(tokens[-1])
        assert len(tokens) + new + len(sentence) > ROOM
    for tokens in stream:
        for a, b in pairwise(tokens):
            if SEPARATOR not in (a, b):
                assert document_of(a) == document_of(b)
        assert SEPARATOR not in (tokens[0], tokens[-1])
    assert any(SEPARATOR in tokens for tokens in stream)
    assert {(tuple(example.second), example.label) for example in examples} == {((), NO_ORDER)}


def test_doc_sentences_end_with_their_document():
    documents = make_documents(documents=9, sentences=7)
    examples = list(doc_sentences(documents, room=ROOM))
    assert [token for example in examples for token in example.first] == list(chain(*chain(*documents)))
    assert all(len({document_of(token) for token in example.first}) == 1 for example in examples)
    assert len(examples) > len(list(full_sentences(documents, room=ROOM, separator=SEPARATOR)))


@pytest.mark.parametrize("order", ["sentence-order", "next-sentence", "none"])
@pytest.mark.parametrize("make", [segment_pairs, sentence_pairs])
def test_a_text_of_one_sentence_is_one_segment(make, order):
    (example,) = make([[[1, 2, 3]]], room=ROOM, order=order, random=Random(0))
    assert (example.first, example.second, example.label) == ([1, 2, 3], [], NO_ORDER)
