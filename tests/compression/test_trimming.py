"""Vocabularies cut to what some texts use: they read these as before, whatever kind of tokenizer it is."""

import json
import shutil

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast

from hf_albert_plus.compression import trim
from hf_albert_plus.compression.used_pieces import pieces_of, with_pieces
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.command_line import invoke

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "while",
    "other",
    "cats",
    "were",
    "sitting",
    "elsewhere",
    "and",
    "3",
    "dogs",
    "barked",
    "loudly",
    "at",
    "unbelievable",
    "noises",
]
USED = ["the cat sat", "cats were sitting on 3 mats", "unbelievable!"]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def made(kind):
    """A tokenizer of each kind, trained on words."""
    lines = [" ".join(WORDS[start:] + WORDS[:start]) for start in range(len(WORDS))]
    if kind == "WordPiece":
        backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        backend.pre_tokenizer, backend.normalizer = pre_tokenizers.Whitespace(), normalizers.Lowercase()
        trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=SPECIALS)
    elif kind == "Unigram":
        backend = Tokenizer(models.Unigram())
        backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=SPECIALS, unk_token="[UNK]")
    else:
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=SPECIALS, initial_alphabet=alphabet)
    backend.train_from_iterator(lines, trainer)
    specials = [(name, backend.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=specials
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIALS, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)


@pytest.mark.parametrize("kind", ["WordPiece", "Unigram", "BPE"])
def test_texts_are_read_as_before(kind, tmp_path):
    tokenizer = made(kind)
    before = [tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) for text in USED]
    kept = with_pieces(tokenizer, pieces_of(USED, tokenizer), tmp_path)
    after = AutoTokenizer.from_pretrained(tmp_path)
    assert len(after) == len(kept) < len(tokenizer)
    assert [after.convert_ids_to_tokens(after(text)["input_ids"]) for text in USED] == before
    assert after("the", "cat")["input_ids"][0] == after.cls_token_id
    # The ids are the old ones by their new places.
    assert [[kept[new] for new in after(text)["input_ids"]] for text in USED] == [
        tokenizer(text)["input_ids"] for text in USED
    ]
    # What no text has is read in smaller pieces and never lost.
    other = after.convert_ids_to_tokens(after("noises elsewhere")["input_ids"])
    assert "[UNK]" not in other
    assert len(other) > len(tokenizer("noises elsewhere")["input_ids"])


def test_other_kinds_are_refused(tmp_path):
    backend = Tokenizer(
        models.WordLevel({name: place for place, name in enumerate([*SPECIALS, "the"])}, unk_token="[UNK]")
    )
    with pytest.raises(InvalidInput, match="of the kinds WordPiece, Unigram, BPE, got WordLevel"):
        with_pieces(PreTrainedTokenizerFast(tokenizer_object=backend), {5}, tmp_path)


def test_a_classifier_answers_as_before(teachers, data_dir, tmp_path):
    teacher, task = teachers / "sst2", get_task("sst2")
    record = trim(str(teacher), data=str(data_dir), task=task, output=tmp_path / "trimmed")
    assert record.result["pieces"] < record.result["pieces_before"]
    texts = load_split(str(data_dir), task, "train")["sentence"][:20]
    answers = []
    for directory in (teacher, tmp_path / "trimmed"):
        tokenizer = AutoTokenizer.from_pretrained(directory)
        model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
        with torch.no_grad():
            answers.append(model(**tokenizer(texts, padding=True, return_tensors="pt")).logits)
        assert model.config.pad_token_id == tokenizer.pad_token_id
        assert model.config.vocab_size == len(tokenizer)
    assert torch.equal(*answers)


def test_what_was_trained_for_few_bits_is_not_cut(teachers, data_dir, tmp_path):
    """Its tables have one scale, which would be that of other rows."""
    source = shutil.copytree(teachers / "sst2", tmp_path / "few")
    (source / "quantisation.json").write_text("{}")
    with pytest.raises(InvalidInput, match="--model must not be trained for few bits already"):
        trim(str(source), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_verb_keeps_pieces_of_further_texts(teachers, data_dir, tmp_path):
    (tmp_path / "more.txt").write_text("zebras quiz foxes\n")
    pieces = []
    for out, more in (("a", ()), ("b", ("--corpus", tmp_path / "more.txt"))):
        printed = invoke("trim", "--model", teachers / "sst2", "--data", data_dir, "--task", "sst2", *more, "--out", tmp_path / out, "--json")  # fmt: skip
        result = json.loads(printed.stdout)["result"]
        pieces.append(result["pieces"])
        assert 0 <= result["texts_read_otherwise"]["sst2"] <= 1
    assert pieces[0] < pieces[1]
