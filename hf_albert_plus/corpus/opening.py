"""A corpus that was built: the one place where its examples and its tokenizer are opened."""

from pathlib import Path
from typing import Any

from ..errors import InvalidInput, first_line
from ..tokenizer_files import open_tokenizer
from .build import TOKENIZER

_SPLITS = {"train", "validation"}
_COLUMNS = {"input_ids", "second_segment", "sentence_order_label", "length"}
_REPAIR = "build the corpus again: albert-plus corpus build"


def open_corpus(corpus: Path) -> tuple[Any, Any]:
    """The splits of a corpus by their names, on disk, and its tokenizer.

    Raises:
        InvalidInput: a part is missing, or is something else.
    """
    import pyarrow
    from datasets import DatasetDict, load_from_disk

    tokenizer = open_tokenizer(corpus / TOKENIZER, rule="--corpus must hold its tokenizer", repair=_REPAIR)
    try:
        splits = load_from_disk(str(corpus.absolute()))
    # What datasets raises at JSON of another shape and at Arrow files that are none.
    except (
        AttributeError,
        LookupError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
        pyarrow.ArrowException,
    ) as error:
        got = f"{corpus} ({type(error).__name__}: {first_line(error)})"
        raise InvalidInput("--corpus must hold what corpus build made", got=got, repair=_REPAIR) from error
    if not isinstance(splits, DatasetDict) or set(splits) != _SPLITS:
        raise InvalidInput("--corpus must have the splits train and validation", got=str(corpus), repair=_REPAIR)
    for name, rows in splits.items():
        missing = sorted(_COLUMNS - set(rows.column_names))
        if missing:
            raise InvalidInput(f"--corpus must have {', '.join(missing)} in {name}", got=str(corpus), repair=_REPAIR)
    return splits, tokenizer


def longest_example(splits: Any, *, positions: int) -> int:
    """Tokens of the longest example, which is as wide as rows are.

    Args:
        positions: of the model.

    Raises:
        InvalidInput: more than that.
    """
    import pyarrow.compute as pc

    longest: int = max(pc.max(rows.data.column("length")).as_py() or 0 for rows in splits.values())
    if longest > positions:
        raise InvalidInput(
            f"the corpus's examples must have at most max_position_embeddings ({positions}) tokens",
            got=longest,
            repair=f"use --set max_position_embeddings={longest}, or build the corpus with a smaller --max-length",
        )
    return longest


__all__ = ["longest_example", "open_corpus"]
