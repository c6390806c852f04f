"""Rows of token ids as the rectangle that an engine reads. Nothing here needs torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

# The token ids of a text, with what belongs to them, by the name of the tensor. Rows for a tagger have the characters of each token too,
# as `OFFSETS`; windows of questions' contexts have what `question_rows` gives them.
Ids = Mapping[str, Any]


OFFSETS = "offsets"


@dataclass(frozen=True)
class Padding:
    """How a tokenizer pads.

    Attributes:
        side: `"right"` or `"left"`.
        token: id that fills `input_ids`.
        token_type: id that fills `token_type_ids`.
    """

    side: str
    token: int
    token_type: int

    @classmethod
    def of(cls, tokenizer: Any) -> "Padding":
        """That of a tokenizer of transformers."""
        token_type = getattr(tokenizer, "pad_token_type_id", 0)
        return cls(side=tokenizer.padding_side, token=tokenizer.pad_token_id or 0, token_type=token_type)

    def unpadded(self, padded: numpy.ndarray, lengths: Sequence[int]) -> list[numpy.ndarray]:
        """What stands at the tokens of each row, `[tokens, …]`, of `[batch, sequence, …]`."""
        longest = padded.shape[1]
        if self.side == "left":
            return [row[longest - length :] for row, length in zip(padded, lengths, strict=True)]
        return [row[:length] for row, length in zip(padded, lengths, strict=True)]

    def pad(self, rows: Sequence[Ids], names: Sequence[str]) -> dict[str, numpy.ndarray]:
        """Rows, padded to the longest.

        Returns:
            `[batch, sequence]` int64 for each of `names`.
        """
        longest = max(len(row["input_ids"]) for row in rows)
        fill = {"input_ids": self.token, "token_type_ids": self.token_type}
        arrays = {}
        for name in names:
            padded = numpy.full((len(rows), longest), fill.get(name, 0), dtype=numpy.int64)
            for line, row in zip(padded, rows, strict=True):
                values = row[name]
                if self.side == "left":
                    line[longest - len(values) :] = values
                else:
                    line[: len(values)] = values
            arrays[name] = padded
        return arrays
