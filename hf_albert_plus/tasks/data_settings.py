"""Settings of data of one's own: which columns hold texts and labels, and what a label is. All are found where one reading is possible."""

from dataclasses import dataclass
from typing import Annotated

from ..errors import check_values
from ..option import Option
from .task import KINDS


@dataclass(frozen=True)
class DataSettings:
    """How the rows of data that are not a benchmark's are read."""

    text_column: Annotated[str | None, Option("Column of the text. Default: found, or as the model was trained.")] = (
        None
    )
    text_pair_column: Annotated[str | None, Option("Column of the second text of a pair.")] = None
    label_column: Annotated[
        tuple[str, ...], Option("Column of the label; repeat for one column of 0 and 1 a label. Default: found.")
    ] = ()
    kind: Annotated[
        str | None,
        Option(
            "What a label is: classes (one of N), labels (several of N), number, tags (one a word) or spans (answers in a context). Default: found."
        ),
    ] = None
    validation: Annotated[
        str | None, Option("File of the validation split. Default: the data's own, or a tenth of the training rows.")
    ] = None
    measure: Annotated[str | None, Option("The metric that is the score. Default: the first of its kind.")] = None

    def __post_init__(self) -> None:
        check_values(
            self,
            ("kind", self.kind is None or self.kind in KINDS, f"one of {', '.join(KINDS)}", "classes"),
            ("text_pair_column", self.text_pair_column is None or self.text_column is not None, "given with --text-column", "A --text-column B"),
        )  # fmt: skip

    @property
    def names_columns(self) -> bool:
        return self.text_column is not None or bool(self.label_column) or self.kind is not None
