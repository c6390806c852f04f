"""Towers that read letter trigrams: hashing, words and vectors against plain Python on the words themselves, and the whole way from a
teacher to a search."""

import pytest
import torch
from transformers import AutoModelForTextEncoding, AutoTokenizer

import hf_albert_plus as plus
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.retrieval.towers import open_towers
from hf_albert_plus.export.stage import export
from hf_albert_plus.letters_albert_plus import FIRST_LETTER, AlbertPlusLetterTrigrams, trigram_rows
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.text.letter_tokenizer import letter_tokenizer
from hf_albert_plus.training.settings import TrainSettings
from tests.support.command_line import invoke
from tests.support.small_models import randomise, small_config

ROWS = 400
LETTERS = {"letter_trigrams": True, "vocab_size": ROWS, "type_vocab_size": 0}
TEXTS = ["Cheap shoes", "a", "Schuhe  für Kinder,\tgünstig", "日本 語"]


def _trigrams(word: str) -> list[bytes]:
    """Of a word between two boundary marks: #cheap# has #ch, che, hea, eap, ap#."""
    marked = b" " + word.encode() + b" "
    return [marked[begin : begin + 3] for begin in range(len(marked) - 2)]


def _row(trigram: bytes, rows: int = ROWS) -> int:
    number = int.from_bytes(trigram, "big") * 2654435761 % 2**32
    number = (number ^ number >> 15) * 0x7FEB352D % 2**32
    return 5 + number * (rows - 5) // 2**32


def _words(text: str) -> list[str]:
    return text.lower().split()


def _batch(texts, **options):
    return letter_tokenizer()(texts, padding=True, return_tensors="pt", return_token_type_ids=False, **options)


def test_the_tokenizer_gives_bytes_with_a_mark_before_each_word():
    for text in TEXTS:
        expected = b"".join(b" " + word.encode() for word in _words(text))
        ids = letter_tokenizer()(text)["input_ids"]
        assert ids == [2, *(5 + byte for byte in expected), 3]


@pytest.mark.parametrize("rows", [261, 400, 50_000, 1 << 24])
def test_trigrams_are_those_of_the_words(rows):
    """One a letter, each from three bytes of the word between its marks; special tokens have their own rows."""
    batch = _batch(TEXTS)
    found = trigram_rows(batch["input_ids"], rows=rows)
    assert found.min() >= 0
    assert found.max() < rows
    for text, ids, row in zip(TEXTS, batch["input_ids"], found, strict=True):
        expected = [2]
        for word in _words(text):
            expected += [None, *(_row(trigram, rows) for trigram in _trigrams(word))]
        expected += [3, *[0] * (len(ids) - len(expected) - 1)]
        assert [want if want is None else int(got) for got, want in zip(row, expected, strict=True)] == expected


def test_trigrams_spread_over_the_rows():
    """All 17,576 of a to z fill a table as evenly as draws do."""
    letters = range(ord("a"), ord("z") + 1)
    ids = torch.tensor([[5 + a, 5 + b, 5 + c] for a in letters for b in letters for c in letters])
    rows = 50_000
    found = trigram_rows(ids, rows=rows)[:, 1]
    distinct, drawn = len(found.unique()), (rows - 5) * (1 - (1 - 1 / (rows - 5)) ** 26**3)
    assert distinct > 0.98 * drawn


def test_a_words_embedding_is_the_sum_of_its_trigrams():
    table = torch.nn.Embedding(ROWS, 16)
    batch = _batch(TEXTS)
    words, mask = AlbertPlusLetterTrigrams()(batch["input_ids"], batch["attention_mask"], table)
    assert mask.sum(1).tolist() == [len(_words(text)) + 2 for text in TEXTS]
    assert words.shape == (4, max(mask.sum(1)), 16)
    for row, text in enumerate(TEXTS):
        expected = [table.weight[2]]
        expected += [torch.stack([table.weight[_row(t)] for t in _trigrams(word)]).sum(0) for word in _words(text)]
        expected.append(table.weight[3])
        torch.testing.assert_close(words[row, : len(expected)], torch.stack(expected), atol=1e-5, rtol=1e-5)
        assert not words[row, len(expected) :].any()


def test_a_vector_by_hand():
    """The encoder on the sums of trigrams, each text alone, its words' states weighed by the learned scores."""
    model = randomise(plus.AlbertPlusTwinModel(small_config(**LETTERS)))
    table = model.albert_plus.embeddings.word_embeddings.weight
    with torch.no_grad():
        found = model.encode(**_batch(TEXTS))
        for row, text in enumerate(TEXTS):
            words = [table[2], *(sum(table[_row(t)] for t in _trigrams(word)) for word in _words(text)), table[3]]
            states = model.albert_plus(inputs_embeds=torch.stack(words)[None]).last_hidden_state[0]
            weights = (states @ model.pooling.score.weight[0]).softmax(0)
            torch.testing.assert_close(found[row], weights @ states, atol=2e-5, rtol=2e-5)


def test_words_that_share_trigrams_are_alike_before_any_training():
    """What letter trigrams are for: a misspelt word is near the right one."""
    table = torch.nn.Embedding(50_000, 64)
    torch.manual_seed(0)
    torch.nn.init.normal_(table.weight)
    batch = _batch(["restaurant", "restaurnat", "bicycles"])
    words, _ = AlbertPlusLetterTrigrams()(batch["input_ids"], batch["attention_mask"], table)
    right, misspelt, other = words[:, 1]
    assert torch.cosine_similarity(right, misspelt, dim=0) > 0.4 > torch.cosine_similarity(right, other, dim=0) + 0.2


def test_padding_and_what_else_is_in_the_batch_change_nothing():
    model = randomise(plus.AlbertPlusTwinModel(small_config(**LETTERS)))
    with torch.no_grad():
        together = model.encode(**_batch(TEXTS))
        alone = torch.cat([model.encode(**_batch([text])) for text in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_the_table_learns_where_the_texts_have_trigrams():
    model = plus.AlbertPlusTwinModel(small_config(**LETTERS))
    sides = {f"{side}_{name}": value for side in ("query", "document") for name, value in _batch(TEXTS[:1]).items()}
    model(**sides, labels=torch.tensor([1.0])).loss.backward()
    learned = set(model.albert_plus.embeddings.word_embeddings.weight.grad.any(1).nonzero().flatten().tolist())
    assert learned == {2, 3, *(_row(t) for word in _words(TEXTS[0]) for t in _trigrams(word))}


# The whole way


@pytest.fixture(scope="module")
def towers(teachers, data_dir, tmp_path_factory):
    out = tmp_path_factory.mktemp("letters") / "towers"
    settings = TrainSettings(epochs=1, batch_size=16, learning_rate=1e-3, max_length=64, precision="fp32")
    overrides = (("letter_trigrams", True), ("vocab_size", 1000), ("num_hidden_layers", 2))
    how = DistilSettings("twinbert", StudentSettings("third", overrides), epochs=1.0, learning_rate=1e-3)
    return distill(
        str(teachers / "mrpc"), data=str(data_dir), task=get_task("mrpc"), output=out, settings=settings, method=how
    ), out


@pytest.mark.slow
def test_a_teacher_of_pieces_makes_towers_of_letters(towers, teachers):
    record, out = towers
    assert record.result["phases"]["task"]["losses"]["two_towers"] > 0
    assert record.result["initialised"].endswith("; letter trigrams at random")
    assert record.result["initialised"].startswith("average of the source's layers")
    model = AutoModelForTextEncoding.from_pretrained(out)
    assert (model.config.letter_trigrams, model.config.vocab_size, model.config.pad_token_id) == (True, 1000, 0)
    assert AutoTokenizer.from_pretrained(out)("Ab")["input_ids"] == [2, 5 + 32, 5 + 97, 5 + 98, 3]
    assert len(AutoTokenizer.from_pretrained(teachers / "mrpc")) != 1000


def test_a_search_opens_them_again(towers, data_dir, tmp_path):
    _, out = towers
    opened = open_towers(out, max_length=64)
    texts = ["the film is superb", "a dull plot"]
    batch = _batch(texts, truncation=True, max_length=64)
    with torch.no_grad():
        expected = AutoModelForTextEncoding.from_pretrained(out).eval().encode(**batch)
    torch.testing.assert_close(opened.encode(texts), expected, atol=1e-5, rtol=1e-5)
    index = tmp_path / "documents.safetensors"
    for _ in range(2):
        result = invoke("retrieve", out, "--task", "mrpc", "--data", data_dir, "--max-length", 64, "--index", index)
        assert "MRR" in result.output
    assert index.is_file()


@pytest.mark.slow
def test_they_are_trained_on(towers, teachers, data_dir, tmp_path):
    """A directory of them is the start of another training, with its own tokenizer."""
    _, out = towers
    settings = TrainSettings(epochs=0.2, batch_size=16, learning_rate=1e-3, max_length=64, precision="fp32")
    how = DistilSettings("twinbert", StudentSettings(str(out)), epochs=0.2, learning_rate=1e-3)
    record = distill(
        str(teachers / "mrpc"),
        data=str(data_dir),
        task=get_task("mrpc"),
        output=tmp_path / "on",
        settings=settings,
        method=how,
    )
    assert record.result["initialised"] == f"the weights of {out}"
    assert len(AutoTokenizer.from_pretrained(tmp_path / "on")) == FIRST_LETTER + 256


def test_exports_refuse_them(towers, tmp_path):
    """They run in torch: no artefact holds two towers, of letters or of pieces."""
    with pytest.raises(InvalidInput, match="AlbertPlusTwinModel; open it as one of these"):
        export(towers[1], to=["onnx"], output=tmp_path / "out")


def test_other_heads_refuse_letters(teachers, data_dir, tmp_path):
    for kind in (plus.AlbertPlusForSequenceClassification, plus.AlbertPlusForMaskedLM, plus.AlbertPlusForPreTraining):
        with pytest.raises(InvalidInput, match=f"letter_trigrams are for two towers .*, got {kind.__name__}; leave"):
            kind(small_config(**LETTERS))
    with pytest.raises(ValueError, match="reads words as inputs_embeds: open it as AlbertPlusTwinModel"):
        plus.AlbertPlusModel(small_config(**LETTERS))(torch.ones(1, 3, dtype=torch.long))
    how = DistilSettings("kd", StudentSettings("third", (("letter_trigrams", True),)))
    settings = TrainSettings(epochs=1, batch_size=16, max_length=32)
    with pytest.raises(InvalidInput, match="letter_trigrams are for two towers, got a student of kd; leave"):
        distill(
            str(teachers / "mrpc"),
            data=str(data_dir),
            task=get_task("mrpc"),
            output=tmp_path / "out",
            settings=settings,
            method=how,
        )
    assert not (tmp_path / "out.partial").exists()


def test_a_table_smaller_than_the_letters_is_refused():
    with pytest.raises(ValueError, match="vocab_size must be at least 261 with letter_trigrams"):
        small_config(letter_trigrams=True, vocab_size=260)
