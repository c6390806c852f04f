"""SentencePiece unigram vocabularies, made as ALBERT's was (google-research/albert, README)."""

import heapq
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from ..errors import InvalidInput
from ..optional import need
from .sentencepiece_model import SPECIALS, read_sentencepiece

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
    """Of the lines' parts of at most 4,000 bytes, cut at spaces, as many as have that many characters: all, or each as likely as
    another, in the order of the text. No more than these are in memory."""
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


__all__ = ["draw_lines", "train_unigram"]
