"""How a corpus becomes examples."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ..errors import InvalidInput, check_known, check_values
from .formats import Order
from .sentences import check_language

Format = Literal["segment-pair", "sentence-pair", "full-sentences", "doc-sentences"]
PAIRS = ("segment-pair", "sentence-pair")


@dataclass(frozen=True)
class CorpusSettings:
    """What decides the examples besides the text and the tokenizer.

    Attributes:
        format: input format (RoBERTa, section 4.2).
        order: what the label of two segments tells; by default their order, and none for formats of one segment.
        max_length: longest example in tokens, special tokens included.
        short_share: share of segment-pair examples with a shorter length.
        copies: how often the text is gone through, each time with other draws (BERT's and ALBERT's dupe_factor).
        held_out: share of the documents that become the validation split.
        language: ISO 639 code, for where sentences end; `none` where each line is one.
        column: of jsonl, parquet and Hub rows, the one that holds the text.
    """

    format: Format = "segment-pair"
    order: Order | None = None
    max_length: int = 512
    short_share: float = 0.1
    copies: int = 1
    held_out: float = 0.01
    language: str = "en"
    column: str = "text"
    seed: int = 42

    def __post_init__(self) -> None:
        if self.order is None:
            object.__setattr__(self, "order", "sentence-order" if self.format in PAIRS else "none")
        check_known(self, format=get_args(Format), order=get_args(Order))
        check_values(
            self,
            ("max_length", 8 <= self.max_length <= 1 << 20, "at least 8 and at most 1,048,576", "512"),
            ("short_share", 0 <= self.short_share <= 1, "a share from 0 to 1", "0.1"),
            ("copies", 1 <= self.copies <= 1_000_000, "at least 1 and at most 1,000,000", "1"),
            ("held_out", 0 <= self.held_out < 1, "a share from 0 up to, not including, 1", "0.01"),
            ("seed", 0 <= self.seed < 2**32, "from 0 up to 2^32 - 1", "42"),
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


__all__ = ["PAIRS", "CorpusSettings", "Format"]
