"""Vocabularies learned from text: SentencePiece unigram as ALBERT's (google-research/albert, README), and WordPiece as BERT's.

A SentencePiece model is read as transformers' AlbertTokenizer.
"""

import heapq
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from ..errors import InvalidInput, first_line, need
from ..records.files import check_input_file

# What a SentencePiece model as ALBERT's begins with.
SPECIALS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
# Always pieces of their own.
_USER_DEFINED = ("(", ")", '"', "-", ".", "–", "£", "€")
_COVERAGE = 0.99995
# SentencePiece leaves out lines of more than 4,192 bytes.
_LONGEST_LINE = 4000
# A space as it is and as SentencePiece writes it, and what stands for what was no character.
_NO_LETTERS = {" ", "▁", "\ufffd"}


def train_unigram(lines: Iterable[str], *, vocab_size: int, sample: int, seed: int) -> tuple[Any, bytes]:
    """The tokenizer, and the SentencePiece model that it reads.

    Args:
        lines: text, a paragraph each; it is lower-cased and stripped of accents, as the tokenizer does it.
        sample: characters of the lines that are drawn to learn from; SentencePiece takes some 20 bytes of memory for each.
    """
    from tokenizers import normalizers

    sentencepiece = need("sentencepiece", extra="pretrain")
    normalise = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
        ]
    )
    sentencepiece.set_random_generator_seed(seed)
    drawn = draw_lines((normalise.normalize_str(line) for line in lines), characters=sample, seed=seed)
    _check_letters(drawn, sentencepiece)
    with tempfile.TemporaryDirectory() as directory:
        model = Path(directory) / "spiece.model"
        with model.open("wb") as stream:
            try:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(drawn),
                    model_writer=stream,
                    model_type="unigram",
                    vocab_size=vocab_size,
                    character_coverage=_COVERAGE,
                    pad_id=0,
                    unk_id=1,
                    bos_id=-1,
                    eos_id=-1,
                    pad_piece=SPECIALS[0],
                    unk_piece=SPECIALS[1],
                    control_symbols=list(SPECIALS[2:]),
                    user_defined_symbols=list(_USER_DEFINED),
                    # The sums of the threads are added up: another number of them rounds otherwise.
                    num_threads=8,
                    minloglevel=2,
                )
            except RuntimeError as error:
                most = re.search(r"value <= (\d+)", str(error))
                raise InvalidInput(
                    "--vocab-size must be one that the text has pieces for",
                    got=vocab_size if most else f"{vocab_size} ({error})",
                    repair=f"use --vocab-size {most[1]} at most, or more text" if most else "use another --vocab-size",
                ) from None
        return read_sentencepiece(model), model.read_bytes()


def draw_lines(lines: Iterable[str], *, characters: int, seed: int) -> list[str]:
    """A sample of the lines with at most that many characters, each as likely as another, in the order of the text.

    Longer lines come in parts of at most 4,000 bytes, cut at spaces. No more than the sample is in memory.
    """
    random = Random(seed)
    # The largest draw first, which is the first to go.
    kept: list[tuple[float, int, str]] = []
    size = 0
    for number, part in enumerate(part for line in lines for part in _parts(line)):
        heapq.heappush(kept, (-random.random(), number, part))
        size += len(part)
        while size > characters and len(kept) > 1:
            size -= len(heapq.heappop(kept)[2])
    return [part for _, _, part in sorted(kept, key=lambda item: item[1])]


def _check_letters(lines: Iterable[str], sentencepiece: Any) -> None:
    """Refuses text of which its normalisation leaves nothing: SentencePiece would end the process.

    Raises:
        InvalidInput: such text.
    """
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    if not any(set(normalizer.normalize(line)) - _NO_LETTERS for line in lines):
        raise InvalidInput(
            "--corpus must hold text",
            got="none but spaces and control characters",
            repair="check the files, or name the --column of text",
        )


def _parts(line: str) -> Iterator[str]:
    rest = line.encode()
    while len(rest) > _LONGEST_LINE:
        # At a space, or where there is none, after a whole character.
        head = rest[:_LONGEST_LINE].rpartition(b" ")[0] or rest[:_LONGEST_LINE].decode(errors="ignore").encode()
        yield head.decode()
        rest = rest[len(head) :]
    yield rest.decode()


_WORDPIECE_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_PREFIX = "##"
# Longer words are unknown to the tokenizer, whatever its vocabulary.
_LONGEST_WORD = 100
# Characters, at the beginning of words and within them; rarer ones are unknown.
_LARGEST_ALPHABET = 2000


def train_wordpiece(lines: Callable[[], Iterable[str]], *, vocab_size: int, max_length: int = 512) -> Any:
    """A lower-casing tokenizer that gives pairs token types. The same text gives the same vocabulary.

    Args:
        lines: gives the text anew each time it is called.

    Raises:
        InvalidInput: there are no words in it.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    normalizer, pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()

    def words() -> Iterator[list[str]]:
        for line in lines():
            split = pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(line))
            yield [word for word, _ in split if len(word) <= _LONGEST_WORD]

    counts: Counter[str] = Counter()
    for line in words():
        counts.update(piece for word in line for piece in _characters(word))
    if not counts:
        raise InvalidInput(
            "--corpus must hold text", got="no words", repair="check the files, or name the --column of text"
        )
    frequent = sorted(counts, key=lambda piece: (-counts[piece], piece))[:_LARGEST_ALPHABET]
    # The trainer numbers what it meets in no fixed order, and merges pairs of the same count by number: it gets the
    # characters' numbers from here, and no others.
    known = set(frequent)
    learner = Tokenizer(models.WordPiece(unk_token=_WORDPIECE_SPECIALS[1]))
    learner.pre_tokenizer = pre_tokenizer
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=[*_WORDPIECE_SPECIALS, *sorted(known)], show_progress=False
    )
    spellable = (" ".join(word for word in line if known.issuperset(_characters(word))) for line in words())
    learner.train_from_iterator(spellable, trainer)

    tokenizer = Tokenizer(models.WordPiece(vocab=learner.get_vocab(), unk_token=_WORDPIECE_SPECIALS[1]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    first, separator = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", first), ("[SEP]", separator)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        model_max_length=max_length,
    )


def _characters(word: str) -> list[str]:
    return [word[0], *(_PREFIX + character for character in word[1:])]


# Below any sum of scores: such a piece is never on the best path.
_NEVER = -1e4


def read_sentencepiece(model: Path) -> Any:
    """The tokenizer of a unigram model, with ALBERT's normalisation and the token types that it leaves out.

    ALBERT's own code encodes a piece that ends in a digit and a comma once more without the comma, so that "2010," is never
    one token though the vocabulary has it (google-research/albert, tokenization.py). Here such a piece keeps its id and gets a
    score that no best path takes. Ids are then ALBERT's but for ties: of two paths with the same score, as "00"+"0" and
    "0"+"00", this library takes another than SentencePiece.

    Raises:
        InvalidInput: no SentencePiece unigram model, or one without ALBERT's special tokens at its beginning.
    """
    from google.protobuf.message import DecodeError
    from transformers import AlbertTokenizer
    from transformers.utils import sentencepiece_model_pb2_new

    check_input_file(model, what="MODEL")
    proto: Any = vars(sentencepiece_model_pb2_new)["ModelProto"]()
    try:
        proto.ParseFromString(model.read_bytes())
    except DecodeError as error:
        raise InvalidInput(
            "MODEL must be a SentencePiece model", got=f"{model} ({first_line(error)})", repair="give a spiece.model"
        ) from None
    specials = [piece.piece for piece in proto.pieces[: len(SPECIALS)]]
    if proto.trainer_spec.model_type != proto.trainer_spec.UNIGRAM or specials != list(SPECIALS):
        raise InvalidInput(
            f"MODEL must be a unigram model that begins with {' '.join(SPECIALS)}",
            got=f"{model} with {' '.join(specials)}",
            repair="make one with albert-plus tokenizer train",
        )
    vocabulary = [
        (piece.piece, _NEVER if _ends_in_number_comma(piece.piece) else piece.score) for piece in proto.pieces
    ]
    if len(dict(vocabulary)) < len(vocabulary) or not all(math.isfinite(score) for _, score in vocabulary):
        raise InvalidInput(
            "MODEL must have pieces that differ, and finite scores", got=model, repair="make one with albert-plus tokenizer train"
        )  # fmt: skip
    try:
        return AlbertTokenizer(
            vocab=vocabulary,
            _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap,
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
            model_max_length=512,
        )
    except Exception as error:  # the tokenizers library raises no narrower one
        raise InvalidInput(
            "MODEL must be one that the tokenizers library reads",
            got=f"{model} ({first_line(error)})",
            repair="make one with albert-plus tokenizer train",
        ) from None


def _ends_in_number_comma(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()
