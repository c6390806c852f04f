"""What is read of the inputs, and in which portions it is scored."""

from dataclasses import asdict, dataclass
from typing import Any

from hf_albert_plus.export.batching import TOKEN_BUDGET

from ..errors import InvalidInput, check_values

# Columns of the output that no kept one may be called.
OWN_COLUMNS = ("file", "row", "label", "score", "scores", "tokens", "truncated")


@dataclass(frozen=True)
class ScoreSettings:
    """
    Attributes:
        text_column: of Parquet and JSON lines, the column with the text; lines of plain text are called so.
        pair_column: column with the text that is read together with it.
        keep: columns to copy into the output, `NAME` or `NAME=OTHER` to call it otherwise there.
        max_length: tokens of a text, None for the model's positions; the rest is cut.
        token_budget: tokens a batch, padding included.
        part_rows: rows that are scored, written and lost together.
        part_bytes: their size, about.
    """

    text_column: str = "text"
    pair_column: str | None = None
    keep: tuple[str, ...] = ()
    max_length: int | None = None
    token_budget: int = TOKEN_BUDGET
    part_rows: int = 8192
    part_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        check_values(
            self,
            ("max_length", self.max_length is None or self.max_length >= 4, "at least 4", "128"),
            (
                "token_budget",
                1 <= self.token_budget <= 1 << 24,
                f"at least 1 and at most {1 << 24:,}",
                str(TOKEN_BUDGET),
            ),
            ("part_rows", 1 <= self.part_rows <= 1 << 31, f"at least 1 and at most {1 << 31:,}", "8192"),
            ("part_bytes", self.part_bytes >= 1, "at least 1", str(32 << 20)),
        )
        taken = list(OWN_COLUMNS)
        for source, name in self.kept.items():
            if name in taken:
                raise InvalidInput(
                    "--keep must not give two columns of the output one name", got=repr(name), repair=f"call it otherwise: --keep {source}=OTHER"
                )  # fmt: skip
            taken.append(name)

    @property
    def kept(self) -> dict[str, str]:
        """Column of the input -> its name in the output."""
        pairs = [text.partition("=") for text in self.keep]
        return {source: name or source for source, _, name in pairs}

    @property
    def text_columns(self) -> list[str]:
        return [self.text_column] if self.pair_column is None else [self.text_column, self.pair_column]

    @property
    def columns(self) -> list[str]:
        """All that are read."""
        return list(dict.fromkeys([*self.text_columns, *self.kept]))

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "keep": list(self.keep)}


__all__ = ["OWN_COLUMNS", "ScoreSettings"]
