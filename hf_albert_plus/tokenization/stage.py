"""The stages that make tokenizers: from text, or from a SentencePiece model."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ..corpus.parts import bar_of_parts, find_parts, sources
from ..errors import check_known, check_values
from ..records import Record, file_parent, run_stage
from .sentencepiece_model import read_sentencepiece
from .unigram import train_unigram
from .wordpiece import train_wordpiece

Kind = Literal["unigram", "wordpiece"]
SENTENCEPIECE = "spiece.model"


@dataclass(frozen=True)
class TokenizerSettings:
    """What decides a vocabulary besides the text.

    Attributes:
        kind: SentencePiece unigram as ALBERT's, or WordPiece as BERT's.
        sample: characters of the text that a unigram vocabulary is learned from, drawn line by line.
        column: of jsonl, parquet and Hub rows, the one that holds the text.
    """

    kind: Kind = "unigram"
    vocab_size: int = 30_000
    sample: int = 50_000_000
    column: str = "text"
    seed: int = 42

    def __post_init__(self) -> None:
        check_known(self, kind=get_args(Kind))
        check_values(
            self,
            ("vocab_size", 32 <= self.vocab_size <= 1 << 24, f"at least 32 and at most {1 << 24:,}", 30_000),
            ("sample", 1 <= self.sample <= 1 << 40, f"at least 1 and at most {1 << 40:,}", 50_000_000),
            ("seed", 0 <= self.seed < 2**32, "from 0 up to 2^32 - 1", 42),
        )


def train_tokenizer(corpus: Sequence[str], *, output: Path, settings: TokenizerSettings) -> Record:
    """A lower-casing tokenizer with a vocabulary of the text's own.

    Args:
        corpus: files (.txt, .jsonl, .parquet), folders, or Hub datasets.
    """
    parts = find_parts(corpus, column=settings.column)

    def lines() -> Iterator[str]:
        with bar_of_parts(parts, description="text") as step:
            for part in parts:
                for document in part.documents():
                    yield from document
                step(part)

    def work(directory: Path) -> dict[str, Any]:
        if settings.kind == "unigram":
            tokenizer, model = train_unigram(
                lines(), vocab_size=settings.vocab_size, sample=settings.sample, seed=settings.seed
            )
            (directory / SENTENCEPIECE).write_bytes(model)
        else:
            tokenizer = train_wordpiece(lines, vocab_size=settings.vocab_size)
        tokenizer.save_pretrained(directory)
        return {"tokens": len(tokenizer)}

    return run_stage("tokenizer", output, settings=asdict(settings), parents=sources(parts), work=work)


def import_tokenizer(model: Path, *, output: Path) -> Record:
    """A SentencePiece model such as ALBERT's, as a directory that AutoTokenizer opens."""
    tokenizer = read_sentencepiece(model)

    def work(directory: Path) -> dict[str, Any]:
        tokenizer.save_pretrained(directory)
        (directory / SENTENCEPIECE).write_bytes(model.read_bytes())
        return {"tokens": len(tokenizer)}

    parents = {"model": file_parent(model)}
    return run_stage("tokenizer", output, settings={}, parents=parents, work=work)


__all__ = ["TokenizerSettings", "import_tokenizer", "train_tokenizer"]
