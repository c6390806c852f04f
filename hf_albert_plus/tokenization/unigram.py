"""SentencePiece unigram vocabularies, made as ALBERT's was (google-research/albert, README)."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from ..optional import need
from .sentencepiece_model import SPECIALS, read_sentencepiece

# Always pieces of their own.
_USER_DEFINED = ("(", ")", '"', "-", ".", "–", "£", "€")
_COVERAGE = 0.99995


def train_unigram(lines: Iterator[str], *, vocab_size: int, sample: int, seed: int) -> tuple[Any, bytes]:
    """The tokenizer, and the SentencePiece model that it reads.

    Args:
        lines: text, a paragraph each; it is lower-cased and stripped of accents, as the tokenizer does it.
        sample: lines that are drawn to learn from, as many as memory is meant for.
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
    with tempfile.TemporaryDirectory() as directory:
        model = Path(directory) / "spiece.model"
        with model.open("wb") as stream:
            try:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=(normalise.normalize_str(line) for line in lines),
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
                    input_sentence_size=sample,
                    shuffle_input_sentence=True,
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


__all__ = ["train_unigram"]
