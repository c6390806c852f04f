"""Tokenizers: ids against SentencePiece itself with ALBERT's published rules, and against transformers' BertTokenizer and RobertaTokenizer."""

import json
import random
import unicodedata
from collections import Counter

import pytest
import sentencepiece
from tokenizers import AddedToken, ByteLevelBPETokenizer
from transformers import AutoTokenizer, BertTokenizer, RobertaTokenizer

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.text.settings import TokenizerSettings
from hf_albert_plus.text.tokenizers import import_tokenizer, train_tokenizer
from hf_albert_plus.text.vocabularies import draw_lines, train_unigram
from tests.support.command_line import invoke
from tests.support.corpora import WORDS, make_text

MARK = "▁"


def albert_ids(model: sentencepiece.SentencePieceProcessor, text: str) -> list[int]:
    """ALBERT's tokenization.py on its normalised text."""
    text = " ".join(text.split()).replace("``", '"').replace("''", '"')
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).lower()
    pieces: list[str] = []
    for piece in model.EncodeAsPieces(text):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            again = model.EncodeAsPieces(piece[:-1].replace(MARK, ""))
            if piece[0] != MARK and again[0][0] == MARK:
                again = again[1:] if len(again[0]) == 1 else [again[0][1:], *again[1:]]
            pieces += [*again, ","]
        else:
            pieces.append(piece)
    return [model.PieceToId(piece) for piece in pieces]


@pytest.fixture(scope="module")
def lines():
    """Text with years before commas, quotes, accents and what ALBERT keeps apart."""
    draw = random.Random(0)
    text = [line for document in make_text(count=400) for line in document]
    words = [*WORDS, *("".join(draw.choices("abcdefghilmnoprstu", k=draw.randint(3, 9))) for _ in range(60))]
    years = [
        f"In {draw.choice((2010, 2011, 1922))}, {draw.choice(words)} (the ``{draw.choice(WORDS)}'') cost £{i % 7} – naïve."
        for i in range(400)
    ]
    return text + years


@pytest.fixture(scope="module")
def unigram(tmp_path_factory, lines):
    directory = tmp_path_factory.mktemp("unigram")
    (directory / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    invoke(
        "tokenizer", "train", "--corpus", directory / "text.txt", "--vocab-size", 150, "--out", directory / "tokenizer"
    )
    return directory / "tokenizer"


@pytest.fixture(scope="module")
def years_with_commas(tmp_path_factory, unigram):
    """With pieces that hold digits and a comma, as ALBERT's vocabulary has them. Today's SentencePiece learns none."""
    directory = tmp_path_factory.mktemp("years")
    sentencepiece.SentencePieceTrainer.train(
        input=str(unigram.parent / "text.txt"), model_prefix=str(directory / "spiece"), vocab_size=150,
        normalization_rule_name="nmt_nfkc_cf", pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"], user_defined_symbols=[*'()"-.–£€', "0,"], minloglevel=2,
    )  # fmt: skip
    invoke("tokenizer", "import", directory / "spiece.model", "--out", directory / "tokenizer")
    return directory / "tokenizer"


@pytest.mark.parametrize("made", ["unigram", "years_with_commas"])
def test_ids_are_those_of_albert(made, lines, request):
    directory = request.getfixturevalue(made)
    model = sentencepiece.SentencePieceProcessor(str(directory / "spiece.model"))
    vocabulary = [model.IdToPiece(i) for i in range(model.GetPieceSize())]
    assert vocabulary[:13] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "(", ")", '"', "-", ".", "–", "£", "€"]
    joined = [piece for piece in vocabulary if piece[-1] == "," and piece[-2:-1].isdigit()]
    assert bool(joined) == (made == "years_with_commas")
    tokenizer = AutoTokenizer.from_pretrained(directory)
    assert tokenizer.convert_ids_to_tokens(range(len(vocabulary))) == vocabulary
    for line in lines:
        found = tokenizer(line, add_special_tokens=False)["input_ids"]
        assert found == albert_ids(model, line), line
        assert not {model.PieceToId(piece) for piece in joined} & set(found)


def test_pairs_have_token_types(unigram):
    tokenizer = AutoTokenizer.from_pretrained(unigram)
    encoded = tokenizer("good film", "bad cast")
    assert set(encoded) == {"input_ids", "token_type_ids", "attention_mask"}
    second = encoded["input_ids"].index(3) + 1
    assert encoded["token_type_ids"] == [0] * second + [1] * (len(encoded["input_ids"]) - second)
    assert tokenizer.decode(encoded["input_ids"]) == "[CLS] good film[SEP] bad cast[SEP]"


def test_an_imported_model_is_the_same_tokenizer(unigram, tmp_path, lines):
    invoke("tokenizer", "import", unigram / "spiece.model", "--out", tmp_path / "imported")
    one, other = AutoTokenizer.from_pretrained(unigram), AutoTokenizer.from_pretrained(tmp_path / "imported")
    assert [one(line)["input_ids"] for line in lines] == [other(line)["input_ids"] for line in lines]


def test_the_same_text_gives_the_same_vocabulary(unigram, tmp_path):
    corpus = [str(unigram.parent / "text.txt")]
    for kind, first in (("unigram", unigram), ("wordpiece", None), ("byte-bpe", None)):
        settings = TokenizerSettings(kind=kind, vocab_size=400 if kind == "byte-bpe" else 150)
        for name in ("a", "b") if first is None else ("b",):
            train_tokenizer(corpus, output=tmp_path / kind / name, settings=settings)
        first = first or tmp_path / kind / "a"
        assert (first / "tokenizer.json").read_bytes() == (tmp_path / kind / "b" / "tokenizer.json").read_bytes()


def test_long_lines_are_learned_from_too():
    """SentencePiece itself leaves out what has more than 4,192 bytes."""
    lines = ["a film " * 100, "zebras graze where quick brown foxes jump over my lazy dog " * 400]
    tokenizer, _ = train_unigram(lines, vocab_size=45, sample=1_000_000, seed=0)
    assert "z" in "".join(tokenizer.get_vocab())


def test_lines_are_drawn_alike_up_to_a_budget():
    lines = [f"{number:04}" for number in range(1000)]
    assert draw_lines(lines, characters=4000, seed=0) == lines
    counts = Counter(line for seed in range(300) for line in draw_lines(lines, characters=400, seed=seed))
    assert sum(counts.values()) == 300 * 100
    # Halves of the text, each with 15,000 expected and a standard deviation of some 80.
    assert abs(sum(counts[line] for line in lines[:500]) - 15_000) < 400
    drawn = draw_lines(lines, characters=400, seed=1)
    assert drawn == sorted(drawn)


@pytest.mark.parametrize("line", ["zebras graze " * 1000, "影" * 5000, "x" * 9000, "short", ""])
def test_a_cut_line_is_whole_again(line):
    parts = draw_lines([line], characters=10**6, seed=0)
    assert "".join(parts) == line
    assert max(len(part.encode()) for part in parts) <= 4000


def test_wordpiece_is_berts(unigram, tmp_path, lines):
    settings = TokenizerSettings(kind="wordpiece", vocab_size=90)
    record = train_tokenizer([str(unigram.parent / "text.txt")], output=tmp_path / "pieces", settings=settings)
    ours = AutoTokenizer.from_pretrained(tmp_path / "pieces")
    assert record.result == {"tokens": len(ours)}
    assert len(ours) <= 90
    berts = BertTokenizer(vocab=ours.get_vocab())
    assert len({ours.unk_token_id} & {i for line in lines for i in ours(line)["input_ids"]}) == 0
    for line in lines[::7]:
        assert dict(ours(line, lines[0])) == dict(berts(line, lines[0]))


@pytest.fixture(scope="module")
def byte_pairs(unigram):
    directory = unigram.parent / "byte-pairs"
    invoke(
        "tokenizer", "train", "--corpus", unigram.parent / "text.txt", "--kind", "byte-bpe", "--vocab-size", 420,
        "--out", directory,
    )  # fmt: skip
    return directory


def test_byte_pairs_are_robertas(byte_pairs, lines):
    """The tokenizers library's own training gives the same pieces, and RoBERTa's class the same ids."""
    ours = AutoTokenizer.from_pretrained(byte_pairs)
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    other = ByteLevelBPETokenizer(add_prefix_space=True)
    other.train_from_iterator(lines, vocab_size=420, min_frequency=2, special_tokens=specials, show_progress=False)
    assert ours.get_vocab() == other.get_vocab()
    assert len(ours) == 420
    assert ours.convert_ids_to_tokens(range(5)) == specials
    model = json.loads(other.to_str())["model"]
    robertas = RobertaTokenizer(
        vocab=model["vocab"],
        merges=[tuple(pair) for pair in model["merges"]],
        mask_token=AddedToken("<mask>", lstrip=True),  # as the released tokenizers' files have it
        add_prefix_space=True,
    )
    for name in ("bos", "eos", "cls", "sep", "pad", "unk", "mask"):
        assert getattr(ours, f"{name}_token_id") == getattr(robertas, f"{name}_token_id")
    for line in [*lines[::7], "A <mask> film", "影 🙂\tnaïve"]:
        assert ours(line)["input_ids"] == robertas(line)["input_ids"]
        assert ours(line, lines[0])["input_ids"] == robertas(line, lines[0])["input_ids"]
        assert ours.unk_token_id not in ours(line)["input_ids"]
        assert ours.decode(ours(line)["input_ids"], skip_special_tokens=True).strip() == line.replace(" <mask>", "")


def test_byte_pairs_have_token_types(byte_pairs):
    tokenizer = AutoTokenizer.from_pretrained(byte_pairs)
    encoded = tokenizer("Good film", "Bad cast")
    assert tokenizer.decode(encoded["input_ids"]).replace(" ", "") == "<s>Goodfilm</s></s>Badcast</s>"
    second = encoded["input_ids"].index(tokenizer.sep_token_id) + 2
    assert encoded["token_type_ids"] == [0] * second + [1] * (len(encoded["input_ids"]) - second)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kind": "byte-bpe", "vocab_size": 260}, ["--vocab-size must be at least 261 for byte-bpe", "260"]),
        ({"kind": "bpe"}, ["--kind", "'bpe'", "unigram"]),
        ({"vocab_size": 8}, ["--vocab-size must be at least 32"]),
        ({"vocab_size": 5000}, ["--vocab-size", "5000", "use --vocab-size", "at most"]),
        ({"sample": 0}, ["--sample must be at least 1"]),
    ],
)
def test_what_is_wrong_is_said(unigram, tmp_path, given, words):
    with pytest.raises(InvalidInput) as raised:
        train_tokenizer(
            [str(unigram.parent / "text.txt")], output=tmp_path / "out", settings=TokenizerSettings(**given)
        )
    assert all(word in str(raised.value) for word in words)
    assert not (tmp_path / "out").exists()


def test_models_that_are_none(unigram, tmp_path):
    other = tmp_path / "other.model"
    other.write_bytes(b"no model")
    for path, words in ((tmp_path / "none", "existing file"), (other, "SentencePiece model|begins with")):
        with pytest.raises(InvalidInput, match=words):
            import_tokenizer(path, output=tmp_path / "out")
