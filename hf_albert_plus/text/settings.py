"""How a corpus becomes examples."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args

from ..errors import InvalidInput, check_known, check_values, length_rule, seed_rule
from ..option import Option
from .byte_pairs import LEAST_PIECES
from .formats import Order, check_language

Format = Literal["segment-pair", "sentence-pair", "full-sentences", "doc-sentences"]
PAIRS = ("segment-pair", "sentence-pair")


@dataclass(frozen=True)
class CorpusSettings:
    """What decides the examples besides the text and the tokenizer."""

    format: Annotated[Format, Option("Input format (RoBERTa, section 4.2).")] = "segment-pair"
    order: Annotated[
        Order | None,
        Option(
            "What the label of two segments tells: swapped or not, from another document or not. Default: sentence-order for pairs, "
            "none otherwise."
        ),
    ] = None
    max_length: Annotated[int, Option("Longest example in tokens, special tokens included.")] = 512
    short_share: Annotated[float, Option("Share of segment-pair examples with a shorter length.")] = 0.1
    copies: Annotated[int, Option("Times the text is gone through, each with other segments.")] = 1
    held_out: Annotated[float, Option("Share of the documents for the validation split.")] = 0.01
    language: Annotated[str, Option("ISO 639 code, for where sentences end; none where each line is one.")] = "en"
    column: Annotated[str, Option("Column of jsonl, parquet and Hub rows that holds the text.")] = "text"
    seed: Annotated[int, Option("Seed of segments, labels and splits.")] = 42

    def __post_init__(self) -> None:
        if self.order is None:
            object.__setattr__(self, "order", "sentence-order" if self.format in PAIRS else "none")
        check_known(self, format=get_args(Format), order=get_args(Order))
        check_values(
            self,
            length_rule(self.max_length, least=8, example=512),
            ("short_share", 0 <= self.short_share <= 1, "a share from 0 to 1", "0.1"),
            ("copies", 1 <= self.copies <= 1_000_000, "at least 1 and at most 1,000,000", "1"),
            ("held_out", 0 <= self.held_out < 1, "a share from 0 up to, not including, 1", "0.01"),
            seed_rule(self.seed),
        )
        if self.format not in PAIRS and self.order != "none":
            raise InvalidInput(
                f"--order must be none for {self.format}, which has one segment an example",
                got=self.order,
                repair=f"use --order none, or --format {PAIRS[0]}",
            )
        if self.format not in PAIRS and self.copies > 1:
            raise InvalidInput(
                f"--copies must be 1 for {self.format}, which draws nothing", got=self.copies, repair="use --copies 1"
            )
        check_language(self.language)

    def describe(self) -> dict[str, Any]:
        return asdict(self)


Kind = Literal["unigram", "wordpiece", "byte-bpe"]


@dataclass(frozen=True)
class TokenizerSettings:
    """What decides a vocabulary besides the text."""

    kind: Annotated[
        Kind, Option("SentencePiece unigram as ALBERT's, WordPiece as BERT's, or byte-level BPE as RoBERTa's.")
    ] = "unigram"
    vocab_size: Annotated[int, Option("Tokens of the vocabulary, special ones included.")] = 30_000
    sample: Annotated[
        int, Option("Characters of the text that a unigram vocabulary is learned from, drawn line by line.")
    ] = 50_000_000
    column: Annotated[str, Option("Column of jsonl, parquet and Hub rows that holds the text.")] = "text"
    seed: Annotated[int, Option("Seed of the sample.")] = 42

    def __post_init__(self) -> None:
        check_known(self, kind=get_args(Kind))
        check_values(
            self,
            (
                "vocab_size",
                self.kind != "byte-bpe" or self.vocab_size >= LEAST_PIECES,
                f"at least {LEAST_PIECES} for byte-bpe, of which each byte is one and each special token",
                30_000,
            ),
            ("vocab_size", 32 <= self.vocab_size <= 1 << 24, f"at least 32 and at most {1 << 24:,}", 30_000),
            ("sample", 1 <= self.sample <= 1 << 40, f"at least 1 and at most {1 << 40:,}", 50_000_000),
            seed_rule(self.seed),
        )
