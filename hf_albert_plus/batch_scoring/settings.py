"""The settings of batch scoring: what is read of the inputs, and in which portions it is scored."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from ..engines.batch_plans import TOKEN_BUDGET
from ..errors import InvalidInput, check_values, length_rule
from ..option import Option, PythonOnly


@dataclass(frozen=True)
class ScoreSettings:
    """What is read of the inputs, and how it is scored."""

    text_column: Annotated[str, Option("Column of the text; what lines of plain text are called.")] = "text"
    pair_column: Annotated[
        str | None, Option("Column of the second text of a pair.", name="--text-pair-column", also=("--pair-column",))
    ] = None
    keep: Annotated[
        tuple[str, ...],
        Option("Column to copy into the output, as NAME. Repeat for several.", metavar="COLUMN[=NAME]"),
    ] = ()
    max_length: Annotated[
        int | None,
        Option(
            "Tokens of a text; the rest is cut. Default: the model's positions. Where it was trained by --long head-tail or windows, tokens of "
            "a row, by default as it was trained."
        ),
    ] = None
    token_budget: Annotated[int, Option("Tokens a batch, padding included.")] = TOKEN_BUDGET
    logits: Annotated[
        bool, Option("Write a column of the raw logits of each row too, as soft labels for a student to learn from.")
    ] = False
    part_rows: Annotated[int, Option("Rows that are written together, and begun again if a worker dies.")] = 8192
    part_bytes: Annotated[int, PythonOnly("their size, about; it bounds the memory of a part")] = 32 << 20

    def __post_init__(self) -> None:
        check_values(
            self,
            length_rule(self.max_length),
            (
                "token_budget",
                1 <= self.token_budget <= 1 << 24,
                f"at least 1 and at most {1 << 24:,}",
                str(TOKEN_BUDGET),
            ),
            ("part_rows", 1 <= self.part_rows <= 1 << 31, f"at least 1 and at most {1 << 31:,}", "8192"),
            ("part_bytes", self.part_bytes >= 1, "at least 1", str(32 << 20)),
        )

    def check_kept(self, *, own: Sequence[str]) -> None:
        """Refuses kept columns that would have the name of another one.

        Args:
            own: columns of the output that are none of the inputs'.

        Raises:
            InvalidInput: there is one.
        """
        taken = ["file", "row", *own, "tokens", "truncated"]
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
