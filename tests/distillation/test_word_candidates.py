"""Words that may stand for another: against numbers set by hand, transformers' own fill-mask and brute force."""

from random import Random

import numpy
import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, BertForMaskedLM, pipeline

from hf_albert_plus.distillation.augmentation import candidates as masked_words
from hf_albert_plus.distillation.augmentation import candidates as word_vectors
from hf_albert_plus.distillation.augmentation.candidates import NONE, MaskedLmCandidates, head_at, read_word_vectors
from hf_albert_plus.distillation.augmentation.stage import find_candidates
from hf_albert_plus.distillation.augmentation.words import WholeWords, split_words
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from tests.distillation.masked_lms import (
    WORDPIECES,
    byte_level,
    save_biased_lm,
    save_masked_lm,
    sentencepiece,
    wordpiece,
)
from tests.support.small_models import SMALL, randomise


def brute_force_neighbours(query, words, vectors, count):
    """Cosines one by one, punctuation and the word itself in any letters left out."""
    cosines = {
        word: float(vectors[query] @ vectors[word] / numpy.linalg.norm(vectors[query]) / numpy.linalg.norm(vectors[word]))
        for word in words
        if any(map(str.isalnum, word)) and word.lower() != query.lower()
    }  # fmt: skip
    return set(sorted(cosines, key=cosines.__getitem__, reverse=True)[:count])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it 's good , right ?", [("it", ""), ("'s", ""), ("good", ""), ("", ","), ("right", ""), ("", "?")]),
        ('What is U.S. "law"?', [("What", ""), ("is", ""), ("U.S", "."), ('"law', '"?')]),
        ("so -- ... 3.5", [("so", ""), ("", "--"), ("", "..."), ("3.5", "")]),
        ("", []),
    ],
)
def test_words_are_parted_from_the_punctuation_after_them(text, expected):
    assert split_words(text) == expected
    assert " ".join(stem + tail for stem, tail in split_words(text)) == text


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (wordpiece, {"the", "film", "movie", "story", "good", "great", "bad", "was"}),
        (sentencepiece, {"the", "film", "movie", "story", "good", "good."}),
        (byte_level, {"a", "at"}),
    ],
)
def test_whole_words_are_those_that_begin_after_a_space(make, words):
    vocabulary = WholeWords(make())
    assert set(vocabulary.words.values()) == words
    assert len(vocabulary.words) == len(words)
    assert vocabulary.lower_cases == (make is wordpiece)


def test_pieces_are_those_inside_a_sentence():
    tokenizer = sentencepiece()
    pieces = WholeWords(tokenizer).pieces(["film", "films", "goodness."])
    named = {word: tokenizer.convert_ids_to_tokens(ids) for word, ids in pieces.items()}
    assert named == {"film": ["▁film"], "films": ["▁film", "s"], "goodness.": ["▁good", "ness", "."]}


def words_at(model: MaskedLmCandidates, text: str, *, count: int) -> list[list[str]]:
    found = model.candidates([text], count=count)[text]
    return [[model.vocabulary.words[i] for i in ids if i != NONE] for ids in found.tolist()]


def test_the_most_likely_whole_words_by_hand(biased_lm):
    """`##s`, `[SEP]`, `.` and `[unused0]` rank high and are no words; "Film" is not offered for itself; "films" is two
    pieces."""
    found = words_at(MaskedLmCandidates(biased_lm), "The Film films goodness , good.", count=3)
    assert [set(words) for words in found] == [
        {"film", "movie", "good"}, {"movie", "good", "story"}, set(), set(), set(), {"film", "movie", "story"},
    ]  # fmt: skip


def test_sentencepiece_whole_words(tmp_path):
    save_biased_lm(tmp_path, sentencepiece(), ["film", "ness", "▁", "▁story", "▁good.", "▁film", "s", "▁the"])
    found = words_at(MaskedLmCandidates(tmp_path), "the films movie. good.", count=2)
    # "▁good" is a piece, but not of "good.", which is one itself.
    assert [set(words) for words in found] == [{"story", "good."}, set(), {"story", "good."}, set()]


def test_there_may_be_fewer_candidates_than_asked_for(biased_lm):
    (found,) = words_at(MaskedLmCandidates(biased_lm), "film", count=50)
    assert set(found) == set(WholeWords(wordpiece()).words.values()) - {"film"}


def test_candidates_are_those_of_fill_mask(masked_lm, data_dir):
    """The same model through transformers' pipeline, which masks one word at a time without batches."""
    texts = load_split(str(data_dir), get_task("sst2"), "train")["sentence"][:6]
    model = MaskedLmCandidates(masked_lm)
    fill = pipeline("fill-mask", model=str(masked_lm), device="cpu", top_k=60)
    asked = 0
    for text, found in model.candidates(texts, count=5).items():
        words = text.split()
        for place, word in enumerate(words):
            ids = model.tokenizer(word, add_special_tokens=False)["input_ids"]
            if len(ids) > 1 or not word.isalnum():
                assert (found[place] == NONE).all()
                continue
            masked = " ".join([*words[:place], "[MASK]", *words[place + 1 :]])
            likely = [model.tokenizer.convert_ids_to_tokens(answer["token"]) for answer in fill(masked)]
            likely = [piece for piece in likely if piece.isalnum() and piece != word.lower()]
            # A letter that the tokenizer's alphabet has as a piece is a word of one letter.
            assert {model.vocabulary.words[i] for i in found[place]} == set(likely[:5])
            asked += 1
    assert asked > 20


@pytest.mark.parametrize("name", ["albert", "albert_plus", "bert", "deberta-v2", "distilbert", "electra", "modernbert", "mpnet", "roberta"])  # fmt: skip
def test_the_head_of_every_architecture_reads_the_mask_alone(name):
    """What it says there is what it says of the whole text at that place."""
    torch.manual_seed(0)
    fields = {**SMALL, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64} if name == "distilbert" else SMALL
    config = AutoConfig.for_model(
        name, **{**fields, "vocab_size": 90, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    )
    model = randomise(AutoModelForMaskedLM.from_config(config))
    ids_BS, places = torch.randint(3, 90, (3, 8)), [1, 4, 6]
    with torch.no_grad():
        whole_BSV = model(input_ids=ids_BS).logits
        with head_at(model, places):
            at_the_places_BSV = model(input_ids=ids_BS).logits
        assert torch.equal(model(input_ids=ids_BS).logits, whole_BSV)
    torch.testing.assert_close(at_the_places_BSV[:, 0], whole_BSV[range(3), places])
    assert at_the_places_BSV.shape[1] == 1


@pytest.mark.parametrize("size", [1, 7])
def test_candidates_do_not_depend_on_the_batch_size(masked_lm, data_dir, monkeypatch, size):
    texts = load_split(str(data_dir), get_task("mrpc"), "train")["sentence1"][:12]
    model = MaskedLmCandidates(masked_lm)
    whole = model.candidates(texts, count=5)
    monkeypatch.setattr(masked_words, "BATCH_SIZE", size)
    for text, ids in model.candidates(texts, count=5).items():
        numpy.testing.assert_array_equal(ids, whole[text])


def test_long_texts_are_cut_around_the_mask(tmp_path):
    """With 10 positions 8 pieces are read: the candidates at a place are those of the 8 around it."""
    save_masked_lm(tmp_path, wordpiece(), max_position_embeddings=10)
    model = MaskedLmCandidates(tmp_path)
    words = Random(0).choices(sorted(model.vocabulary.words.values()), k=30)
    found = words_at(model, " ".join(words), count=4)
    assert words_at(model, " ".join(words[8:16]), count=4)[4] == found[12]
    assert words_at(model, " ".join(words[:8]), count=4)[1] == found[1]
    assert words_at(model, " ".join(words[-8:]), count=4)[7] == found[29]


def test_long_texts_are_cut_where_positions_begin_past_the_padding(tmp_path):
    """RoBERTa's first position is that after the padding token's: with 12 rows of positions it reads 11 tokens."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    tokenizer = wordpiece()
    torch.manual_seed(0)
    fields = {**SMALL, "vocab_size": len(tokenizer), "max_position_embeddings": 12, "pad_token_id": 0}
    randomise(RobertaForMaskedLM(RobertaConfig(**fields))).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = MaskedLmCandidates(tmp_path)
    words = Random(0).choices(sorted(model.vocabulary.words.values()), k=30)
    assert len(words_at(model, " ".join(words), count=4)) == 30


def test_nearest_words_are_those_of_brute_force(glove, monkeypatch):
    vectors = {
        line.split()[0]: numpy.array(line.split()[1:], dtype=float)
        for line in glove.read_text().splitlines()
        if not line.startswith(". .")
    }
    queries = ["films", "Rome", "'s", "1999", "word7", "unheard"]
    monkeypatch.setattr(word_vectors, "_SIMILARITIES", 100)  # two words at a time
    found = read_word_vectors(glove).nearest(queries, count=6)
    assert set(found) == set(queries) - {"unheard"}
    for word, nearest in found.items():
        assert len(nearest) == 6
        assert set(nearest) == brute_force_neighbours(word, vectors, vectors, 6)


def test_words_are_looked_up_as_they_stand_and_then_in_small_letters(glove):
    vectors = read_word_vectors(glove)
    found = vectors.vectors(["Rome", "rome", "MOVIES"])
    assert not torch.equal(found["Rome"], found["rome"])
    torch.testing.assert_close(found["MOVIES"], vectors.vectors(["movies"])["movies"])


def test_input_embeddings_are_word_vectors(biased_lm):
    """ "films" is the mean of `film` and `##s`; a word with an unknown piece has no vector."""
    table = BertForMaskedLM.from_pretrained(biased_lm).get_input_embeddings().weight.detach().double().numpy()
    at = WORDPIECES.index
    whole = WholeWords(wordpiece()).words
    vectors = {word: table[i] for i, word in whole.items()}
    vectors["films"] = (table[at("film")] + table[at("##s")]) / 2
    found = read_word_vectors(biased_lm).nearest(["films", "Good", "good", "xyz"], count=3)
    assert set(found) == {"films", "Good", "good"}
    assert set(found["films"]) == brute_force_neighbours("films", whole.values(), vectors, 3)
    assert set(found["good"]) == set(found["Good"]) == brute_force_neighbours("good", whole.values(), vectors, 3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"good 0.1 0.2\nbad 0.1\n", "line 2 of"),
        (b"good 0.1 0.2\nbad 0.1 0.2\nfine 0.1 0.2 0.3\n", "line 3 of"),
        (b"good 0.1 0.2\n1999 0.1\n", "line 2 of"),
        (b"good 0.1 0.2\nbad 0.1 ten\n", "'bad 0.1 ten' in line 2 of"),
        (b"good 0.1 0.2\nbad 0.1 nan\n", "line 2 of"),
        (b"good 0.1 0.2\n\nbad 0.1 0.2\n", "line 2 of"),
        (b"400000 300\ngood 0.1 0.2\n", "line 1 of .* remove a first line that counts"),
        (b"good 0.1 0.2\nfine\xe2\x80\xa8 0.1 0.2\nbad\n", "line 3 of"),
        (b", 0.1 0.2\n", "must hold words"),
        (b"", "must hold words"),
    ],
)
def test_broken_word_vectors_are_refused_with_the_line(tmp_path, content, words):
    (tmp_path / "vectors.txt").write_bytes(content)
    with pytest.raises(InvalidInput, match=f"--word-vectors .*{words}"):
        read_word_vectors(tmp_path / "vectors.txt")


def test_word_vectors_serve_what_the_masked_lm_does_not(biased_lm, glove):
    text = "The Films , good unheardof"
    both = find_candidates(
        [text], masked_lm=MaskedLmCandidates(biased_lm), word_vectors=read_word_vectors(glove), count=3
    )
    alone = find_candidates([text], masked_lm=MaskedLmCandidates(biased_lm), word_vectors=None, count=3)
    vectors = find_candidates([text], masked_lm=None, word_vectors=read_word_vectors(glove), count=3)
    # The masked LM reads small letters, so its multi-piece words are looked up in them.
    lower = read_word_vectors(glove).nearest(["films"], count=3)["films"]
    assert [list(options) for options in both(text)][1] == lower
    assert [bool(options) for options in both(text)] == [True, True, False, True, False]
    assert [bool(options) for options in alone(text)] == [True, False, False, True, False]
    assert [bool(options) for options in vectors(text)] == [False, True, False, False, False]
