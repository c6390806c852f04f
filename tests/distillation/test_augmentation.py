"""Augmentation: candidates against numbers set by hand, transformers' own fill-mask and brute force; draws counted."""

import json
import math
import shutil
from collections import Counter
from pathlib import Path
from random import Random

import numpy
import pytest
import torch
import typer
from datasets import ClassLabel
from pyarrow import parquet
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, PreTrainedTokenizerFast, pipeline
from typer.testing import CliRunner

from hf_albert_plus.distillation.augmentation import candidates as masked_words
from hf_albert_plus.distillation.augmentation import candidates as word_vectors
from hf_albert_plus.distillation.augmentation import stage
from hf_albert_plus.distillation.augmentation.candidates import NONE, MaskedLmCandidates, read_word_vectors
from hf_albert_plus.distillation.augmentation.stage import augment, find_candidates, replace_in_row, replace_words
from hf_albert_plus.distillation.augmentation.words import WholeWords, split_words
from hf_albert_plus.distillation.settings import AugmentSettings
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import load_split
from tests.support.small_models import SMALL, randomise

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDPIECES = [*SPECIAL, "[unused0]", "the", "film", "movie", "story", "good", "great", "bad", "was", "##s", "##ness", ".", ","]  # fmt: skip
SENTENCEPIECES = [*SPECIAL, "▁the", "▁film", "▁movie", "▁story", "film", "ness", "▁", "s", "▁good", ".", "▁good."]
FEW = AugmentSettings(copies=3, candidates=4, seed=1)


def _wrapped(tokenizer) -> PreTrainedTokenizerFast:
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, SPECIAL, strict=True)))


def wordpiece() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(WORDPIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return _wrapped(tokenizer)


def sentencepiece() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in SENTENCEPIECES], unk_id=1))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return _wrapped(tokenizer)


def byte_level() -> PreTrainedTokenizerFast:
    pieces = [*SPECIAL, "a", "t", "Ġ", "Ġa", "at", "Ġat"]
    merges = [("a", "t"), ("Ġ", "at"), ("Ġ", "a")]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return _wrapped(tokenizer)


def save_masked_lm(directory: Path, tokenizer: PreTrainedTokenizerFast, **fields) -> BertForMaskedLM:
    torch.manual_seed(0)
    config = BertConfig(**{**SMALL, "vocab_size": len(tokenizer), **fields}, pad_token_id=0)
    model = randomise(BertForMaskedLM(config))
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return model


def save_biased_lm(directory: Path, tokenizer: PreTrainedTokenizerFast, ranking: list[str]) -> None:
    """A masked LM that expects the same at every place: its head sees zeros, and the bias ranks the pieces."""
    model = save_masked_lm(directory, tokenizer)
    with torch.no_grad():
        model.cls.predictions.transform.LayerNorm.weight.zero_()
        model.cls.predictions.transform.LayerNorm.bias.zero_()
        model.cls.predictions.bias.fill_(-100.0)
        for rank, piece in enumerate(ranking):
            model.cls.predictions.bias[tokenizer.convert_tokens_to_ids(piece)] = -float(rank)
    model.save_pretrained(directory)


RANKING = ["##s", "[SEP]", "film", ".", "[unused0]", "movie", "good", "story", "the", "great"]


@pytest.fixture(scope="module")
def biased_lm(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("biased")
    save_biased_lm(directory, wordpiece(), RANKING)
    return directory


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory, tokenizer_dir) -> Path:
    """At random weights, with the vocabulary of the demo's data."""
    directory = tmp_path_factory.mktemp("masked")
    save_masked_lm(directory, AutoTokenizer.from_pretrained(tokenizer_dir))
    return directory


@pytest.fixture(scope="module")
def small_data(tmp_path_factory, data_dir) -> Path:
    """The demo's tasks with few training rows."""
    directory = tmp_path_factory.mktemp("small") / "data"
    shutil.copytree(data_dir, directory)
    for path in directory.glob("*/train-*"):
        parquet.write_table(parquet.read_table(path)[:15], path)
    return directory


@pytest.fixture(scope="module")
def glove(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("glove") / "vectors.txt"
    random = numpy.random.default_rng(0)
    words = ["films", "Films", "movies", "stories", ",", "'s", "Rome", "rome", "goodness", "--", "1999", *(f"word{i}" for i in range(40))]  # fmt: skip
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in random.normal(size=8))}" for word in words]
    lines.append(". . . " + " ".join(["0.5"] * 8))  # as in GloVe's 840B file
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def brute_force_neighbours(query, words, vectors, count):
    """Cosines one by one, punctuation and the word itself in any letters left out."""
    cosines = {
        word: float(vectors[query] @ vectors[word] / numpy.linalg.norm(vectors[query]) / numpy.linalg.norm(vectors[word]))
        for word in words
        if any(map(str.isalnum, word)) and word.lower() != query.lower()
    }  # fmt: skip
    return set(sorted(cosines, key=cosines.__getitem__, reverse=True)[:count])


# --- words and pieces


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


# --- candidates of the masked LM


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


# --- candidates of word vectors


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


# --- both, and the draws


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


def test_a_share_of_the_words_is_replaced_evenly_by_their_candidates():
    text = "a b, c d ."
    candidates = [["x", "y", "z"], ["x", "y", "z"], [], ["w"], []]
    random, draws, probability = Random(0), 20_000, 0.4
    seen = [Counter() for _ in candidates]
    for _ in range(draws):
        copy, replaced = replace_words(text, candidates, probability=probability, random=random)
        words = copy.split()
        assert replaced == sum(word != other for word, other in zip(words, text.split(), strict=True))
        for counter, word in zip(seen, words, strict=True):
            counter[word] += 1
    assert seen[2] == {"c": draws}
    assert seen[4] == {".": draws}

    def about(share):  # five standard deviations
        return pytest.approx(draws * share, abs=5 * math.sqrt(draws * share * (1 - share)))

    assert seen[0]["a"] == seen[1]["b,"] + seen[0]["a"] - seen[1]["b,"] == about(0.6)
    assert seen[3] == {"d": about(0.6), "w": about(0.4)}
    for option in "xyz":
        assert seen[0][option] == about(0.4 / 3)
        assert seen[1][f"{option},"] == about(0.4 / 3)


def test_the_sentences_of_a_pair_change_independently_and_from_the_original():
    row = {"sentence1": "a", "sentence2": "a", "label": 1, "idx": 5}
    candidates = {"sentence1": [["x"]], "sentence2": [["y"]]}
    random, draws = Random(0), 4000
    seen: Counter = Counter()
    for _ in range(draws):
        copy, _ = replace_in_row(row, candidates, probability=0.5, random=random)
        seen[copy["sentence1"], copy["sentence2"]] += 1
    assert row == {"sentence1": "a", "sentence2": "a", "label": 1, "idx": 5}
    assert set(seen) == {("a", "a"), ("a", "y"), ("x", "a"), ("x", "y")}
    assert all(count == pytest.approx(draws / 4, abs=5 * math.sqrt(draws * 3 / 16)) for count in seen.values())


# --- the stage


def written(output: Path, task: str) -> Path:
    return output / task / "train-00000-of-00001.parquet"


@pytest.mark.parametrize("name", ["sst2", "mrpc", "stsb"])
def test_the_folder_is_one_that_every_verb_reads(tmp_path, masked_lm, small_data, tokenizer_dir, name):
    task = get_task(name)
    record = augment(str(small_data), task=task, output=tmp_path / "out", settings=FEW, masked_lm=str(masked_lm))
    before, after = (load_split(str(folder), task, "train") for folder in (small_data, tmp_path / "out"))
    assert record.result["rows"] == len(before)
    assert record.result["copies"] == 3 * len(before)
    assert after.features == before.features
    assert isinstance(after.features["label"], ClassLabel) == (not task.is_regression)
    assert after["idx"] == list(range(4 * len(before)))
    columns = [*task.columns, "label"]
    assert after[::4].keys() == before[:].keys()
    assert {column: after[::4][column] for column in columns} == {column: before[:][column] for column in columns}
    for i, row in enumerate(after):
        original = before[i // 4]
        assert row["label"] == original["label"]
        for column in task.columns:
            assert len(row[column].split()) == len(original[column].split())
    for path in (small_data / name).glob("validation*"):
        assert (tmp_path / "out" / name / path.name).read_bytes() == path.read_bytes()
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    assert len(encode(after, task, tokenizer, max_length=32)) == len(after)


def test_the_counts_are_those_of_the_written_words(tmp_path, masked_lm, small_data):
    task = get_task("mrpc")
    settings = AugmentSettings(copies=5, candidates=4, probability=0.3)
    record = augment(str(small_data), task=task, output=tmp_path / "out", settings=settings, masked_lm=str(masked_lm))
    rows = load_split(str(tmp_path / "out"), task, "train").to_list()
    words = replaced = 0
    for i, row in enumerate(rows):
        for column in task.columns:
            original = rows[i - i % 6][column].split()
            words += len(original) if i % 6 == 0 else 0
            replaced += sum(a != b for a, b in zip(original, row[column].split(), strict=True))
    assert record.result["words"] == words
    assert record.result["words_replaced"] == pytest.approx(replaced / words / 5, abs=1e-4)
    share = 0.3 * record.result["words_with_candidates"]
    assert replaced == pytest.approx(5 * words * share, abs=5 * math.sqrt(5 * words * share))
    # Both sentences differ from copy to copy.
    for column in task.columns:
        assert len({row[column] for row in rows[1:6]}) > 1


def test_same_seed_same_bytes_other_seed_others(tmp_path, masked_lm, small_data, monkeypatch):
    task = get_task("sst2")
    for name, seed in (("one", 1), ("other", 2)):
        settings = AugmentSettings(copies=2, candidates=4, seed=seed)
        augment(str(small_data), task=task, output=tmp_path / name, settings=settings, masked_lm=str(masked_lm))
    monkeypatch.setattr(masked_words, "BATCH_SIZE", 5)
    settings = AugmentSettings(copies=2, candidates=4, seed=1)
    augment(str(small_data), task=task, output=tmp_path / "again", settings=settings, masked_lm=str(masked_lm))
    one, again, other = (written(tmp_path / name, "sst2").read_bytes() for name in ("one", "again", "other"))
    assert one == again
    assert one != other


def test_draws_depend_on_a_rows_place_alone(tmp_path, masked_lm, small_data, monkeypatch):
    task = get_task("sst2")
    rows = []
    for size in (1000, 7):
        monkeypatch.setattr(stage, "_ROWS_AT_A_TIME", size)
        augment(str(small_data), task=task, output=tmp_path / str(size), settings=FEW, masked_lm=str(masked_lm))
        rows.append(load_split(str(tmp_path / str(size)), task, "train").to_list())
    assert rows[0] == rows[1]


def test_a_second_run_is_the_first(tmp_path, biased_lm, glove):
    data = tsv_data(tmp_path / "tsv")
    given = {"task": get_task("sst2"), "output": tmp_path / "out", "settings": FEW, "word_vectors": glove}
    first = augment(str(data), **given, masked_lm=str(biased_lm))
    second = augment(str(data), **given, masked_lm=str(biased_lm))
    assert not first.reused
    assert second.reused
    assert set(second.parents) == {"data", "masked_lm", "word_vectors"}
    assert second.settings == {"task": "sst2", "copies": 3, "probability": 0.4, "candidates": 4, "seed": 1}


def tsv_data(root: Path, text: str = "The film was good ,") -> Path:
    (root / "SST-2").mkdir(parents=True)
    (root / "SST-2" / "train.tsv").write_text(f"sentence\tlabel\n{text}\t1\n")
    (root / "SST-2" / "dev.tsv").write_text("sentence\tlabel\nbad films\t0\n")
    (root / "SST-2" / "test.tsv").write_text("index\tsentence\n7\tgood films\n")
    return root


def test_glues_own_files_become_parquet(tmp_path, biased_lm):
    task = get_task("sst2")
    augment(str(tsv_data(tmp_path / "tsv")), task=task, output=tmp_path / "out", settings=FEW, masked_lm=str(biased_lm))
    assert len(load_split(str(tmp_path / "out"), task, "train")) == 4
    for split in ("validation", "test"):
        there = [load_split(str(tmp_path / name), task, split, labelled=False).to_list() for name in ("tsv", "out")]
        assert there[0] == there[1]


# --- bad input


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"copies": 0}, "--copies must be at least 1 and at most 10,000, got 0"),
        ({"probability": 0}, "--probability must be .*, got 0"),
        ({"probability": 1.1}, "--probability must be .*, got 1.1"),
        ({"candidates": 0}, "--candidates must be at least 1 and at most 10,000, got 0"),
        ({"seed": -1}, "--seed must be .*, got -1"),
    ],
)
def test_settings_are_checked(fields, words):
    with pytest.raises(InvalidInput, match=words):
        AugmentSettings(**fields)


def test_sources_are_checked(tmp_path, small_data, classifier_dir, encoder_dir, biased_lm):
    (tmp_path / "vectors.txt").write_text("Ουγγαρία 0.1 0.2\nΡώμη 0.2 0.1\n", encoding="utf-8")
    for sources, words in (
        ({}, "--masked-lm, --word-vectors or both, got neither"),
        ({"masked_lm": str(tmp_path / "none")}, "--masked-lm .* got .*none"),
        ({"masked_lm": str(classifier_dir)}, "--masked-lm must be a model with a masked-LM head, got .*without it"),
        ({"masked_lm": str(encoder_dir)}, "--masked-lm must be a model with a masked-LM head, got .*without it"),
        ({"word_vectors": tmp_path / "none.txt"}, "--word-vectors must be a file .* got .*none.txt"),
        ({"word_vectors": tmp_path / "vectors.txt"}, "candidates for some of the words, got none for the [0-9]+ words"),
    ):
        with pytest.raises(InvalidInput, match=words):
            augment(str(small_data), task=get_task("sst2"), output=tmp_path / "out", settings=FEW, **sources)
    with pytest.raises(InvalidInput, match="ax has the splits test, got train"):
        augment(str(small_data), task=get_task("ax"), output=tmp_path / "out", settings=FEW, masked_lm=str(biased_lm))
    assert [path.name for path in tmp_path.iterdir()] == ["vectors.txt"]


def test_a_model_without_a_masked_lm_is_refused(tmp_path):
    from transformers import GPT2Config

    GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=1).save_pretrained(tmp_path)
    with pytest.raises(InvalidInput, match="--masked-lm .* got .*the architecture gpt2"):
        MaskedLmCandidates(tmp_path)


def test_the_verb(tmp_path, biased_lm, glove):
    from hf_albert_plus.cli.distil import augment as verb

    app = typer.Typer()
    app.command()(verb)
    words = ["--data", tsv_data(tmp_path / "tsv"), "--task", "sst2", "--masked-lm", biased_lm, "--word-vectors", glove, "--copies", 2,
             "--probability", 1, "--candidates", 3, "--out", tmp_path / "out", "--json"]  # fmt: skip
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["result"] == {
        "rows": 1, "copies": 2, "words": 5, "words_with_candidates": 0.8, "words_replaced": 0.8,
    }  # fmt: skip
    rows = load_split(str(tmp_path / "out"), get_task("sst2"), "train").to_list()
    ranked = [word for word in RANKING if word in WholeWords(wordpiece()).words.values()]
    for row in rows[1:]:
        for word, other in zip(["the", "film", "was", "good"], row["sentence"].split(), strict=False):
            assert other in [candidate for candidate in ranked if candidate != word][:3]
