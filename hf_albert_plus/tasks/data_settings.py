"""Settings of data: of one's own, which columns hold texts and labels, and what a label is, all of which are found where one reading is
possible; of any, what happens to long texts."""

from dataclasses import dataclass
from typing import Annotated

from ..errors import InvalidInput, check_values
from ..option import Option
from .long_texts import WAYS, LongTexts
from .task import KINDS


@dataclass(frozen=True)
class DataSettings:
    """How the rows of data are read. Columns and kinds are of data that are not a benchmark's."""

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
        str | None,
        Option(
            "File of the validation split. Default: the data's own, or a tenth of the training rows (a fifth of few)."
        ),
    ] = None
    measure: Annotated[str | None, Option("The metric that is the score. Default: the first of its kind.")] = None

    long: Annotated[
        str | None,
        Option(
            "What happens to texts of more than --max-length tokens: cut (at the end), head-tail, or windows whose answers are joined. "
            "Default: as the model was trained, or cut."
        ),
    ] = None
    window_overlap: Annotated[
        int | None, Option("Tokens that neighbouring windows share at least. Default: a quarter of a window.")
    ] = None

    def __post_init__(self) -> None:
        check_values(
            self,
            ("kind", self.kind is None or self.kind in KINDS, f"one of {', '.join(KINDS)}", "classes"),
            ("long", self.long is None or self.long in WAYS, f"one of {', '.join(WAYS)}", "windows"),
            ("window_overlap", self.window_overlap is None or self.window_overlap >= 0, "at least 0", "32"),
            ("text_pair_column", self.text_pair_column is None or self.text_column is not None, "given with --text-column", "A --text-column B"),
        )  # fmt: skip

    def long_texts(self, carried: LongTexts) -> LongTexts:
        """What happens to long texts, where a task that is carried has this.

        Raises:
            InvalidInput: an overlap without windows.
        """
        way = self.long or carried.way
        if self.window_overlap is not None and way != "windows":
            raise InvalidInput(
                "--window-overlap goes with --long windows", got=f"--window-overlap {self.window_overlap} with {way}", repair="add --long windows"
            )  # fmt: skip
        overlap = carried.overlap if self.window_overlap is None and way == carried.way else self.window_overlap
        return LongTexts(way, overlap)  # type: ignore[arg-type]

    @property
    def names_columns(self) -> bool:
        return self.text_column is not None or bool(self.label_column) or self.kind is not None
