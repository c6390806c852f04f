"""Which columns of training rows hold texts and labels, and what the labels are: the kinds of data in the order in which they are looked for."""

from typing import TYPE_CHECKING

from .answer_spans import find_span_columns, find_spans
from .column_roles import Columns, find_columns
from .data_settings import DataSettings
from .labels import FoundLabels, find_labels
from .tagged_words import are_tagged, find_tags, with_words

if TYPE_CHECKING:
    import pyarrow


def find_roles_and_labels(table: "pyarrow.Table", settings: DataSettings, *, where: str) -> tuple[Columns, FoundLabels]:
    """The columns of training rows that hold texts and labels, and what the labels are.

    Raises:
        InvalidInput: more than one reading, or none, or labels that nothing can be learned from.
    """
    spans = find_span_columns(table, settings, where=where) if settings.kind in (None, "spans") else None
    if spans is not None:
        return spans, find_spans(table, spans, where=where)
    columns = find_columns(table, settings, where=where)
    if settings.kind in (None, "tags") and settings.text_column is None:
        columns = with_words(table, columns)
    if settings.kind == "tags" or (settings.kind is None and are_tagged(table, columns)):
        return columns, find_tags(table, columns, where=where)
    return columns, find_labels(table, columns.labels, kind=settings.kind, where=where)  # type: ignore[arg-type]
