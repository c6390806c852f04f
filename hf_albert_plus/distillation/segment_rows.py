"""Text as pairs of segments whose order a phase asks for."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedTokenizerBase

from ..errors import InvalidInput
from ..records.files import check_input_file
from ..text.formats import Order, segment_pairs
from ..text.shards import check_specials
from .phase_rows import ORDER, documents

if TYPE_CHECKING:
    from datasets import Dataset

_PLAIN_ROWS = "leave the order of segments out: --set order=none"


def segment_rows(
    path: Path, tokenizer: PreTrainedTokenizerBase, *, max_length: int, order: Order, seed: int
) -> "Dataset":
    """Text as pairs of segments of whole lines, with the label of their order (BERT's create_pretraining_data.py; ALBERT, section
    3.1). A line longer than half of a row is several.

    Raises:
        InvalidInput: no such file, no text in it, or a tokenizer without first and separator tokens.
    """
    from datasets import Dataset

    check_input_file(path, what="--text", form="a text file")
    rule = "pairs of segments need a tokenizer with first, separator, mask and padding tokens"
    check_specials(tokenizer, rule=rule, where="the student's", repair=_PLAIN_ROWS)
    cutter: Any = tokenizer
    cls, sep, room = cutter.cls_token_id, cutter.sep_token_id, max_length - 3
    cut = partial(cutter, add_special_tokens=False, verbose=False)
    wholes = (cut(lines)["input_ids"] for lines in map(str.splitlines, documents(path)))
    pieces = [[ids[at : at + room // 2] for ids in lines for at in range(0, len(ids), room // 2)] for lines in wholes]
    given = [document for document in pieces if document]

    def rows() -> Iterator[dict[str, Any]]:
        for pair in segment_pairs(given, room=room, order=order, random=Random(seed), elsewhere=given):
            first = [cls, *pair.first, sep]
            second = [*pair.second, sep] if pair.second else []
            types = {"token_type_ids": [0] * len(first) + [1] * len(second)}
            length = len(first) + len(second)
            row = {"input_ids": first + second, "attention_mask": [1] * length, ORDER: pair.label, "length": length}
            yield {**row, **(types if "token_type_ids" in tokenizer.model_input_names else {})}

    made = list(rows())
    if not made:
        raise InvalidInput("--text must hold text", got=f"none in {path}", repair="give a paragraph a line")
    return Dataset.from_list(made)


_SHORTEST = 8


def check_order(path: Path, *, max_length: int) -> None:
    """Refuses a text that no two segments can be taken from, and rows that two do not fit into.

    Raises:
        InvalidInput: a single document of a single line, or fewer than eight tokens a row.
    """
    if max_length < _SHORTEST:
        raise InvalidInput(
            f"--max-length must be at least {_SHORTEST} for the order of segments", got=max_length, repair=_PLAIN_ROWS
        )
    lines = list(islice((line for document in documents(path) for line in document.splitlines()), 2))
    if len(lines) < 2:
        raise InvalidInput(
            "--text must have several lines, for the order of segments",
            got=f"{len(lines)} in {path}",
            repair=_PLAIN_ROWS,
        )
