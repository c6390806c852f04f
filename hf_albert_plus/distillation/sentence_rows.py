"""Texts as a sentence encoder reads them: the sentences of a text file, each by itself and each once."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from transformers import PreTrainedTokenizerBase

from ..errors import InvalidInput
from ..records.files import check_input_file
from ..records.progress import track
from .phase_rows import documents

if TYPE_CHECKING:
    from datasets import Dataset

Cut = Literal["sentences", "lines"]
# After the end of a sentence and before what begins one.
_BETWEEN = re.compile(r"(?<=[.!?])[\"')\]”’]*\s+(?=[\"'(\[“‘]*[A-Z0-9])")
# Texts that are tokenised at a time.
_BATCH = 10_000


def sentence_texts(path: Path, tokenizer: PreTrainedTokenizerBase, *, max_length: int, cut: Cut) -> list[str]:
    """The sentences of a text file, or its lines, each once, in their order. One of more than `max_length` tokens is several.

    A sentence ends at a full stop, an exclamation or a question mark, before a space and a capital letter or a digit.

    Raises:
        InvalidInput: no such file, or no text in it.
    """
    check_input_file(path, what="--text", form="a text file")
    lines = (line.strip() for document in documents(path) for line in document.splitlines())
    pieces = (piece for line in lines if line for piece in (sentences(line) if cut == "sentences" else [line]))
    distinct = list(dict.fromkeys(pieces))
    if not distinct:
        raise InvalidInput("--text must hold text", got=f"none in {path}", repair="give a paragraph a line")
    batches = _batches(distinct)
    passages = (_passages(batch, tokenizer, max_length=max_length) for batch in batches)
    counted = track(passages, total=-(-len(distinct) // _BATCH), description="cut the text")
    return list(dict.fromkeys(passage for batch in counted for passage in batch))


def sentences(line: str) -> list[str]:
    """The sentences of a line.

    Example:
        >>> sentences("It is late. Dr. No, 3.5 p.m. at most! Go?")
        ['It is late.', 'Dr.', 'No, 3.5 p.m. at most!', 'Go?']
    """
    ends = [0, *(found.end() for found in _BETWEEN.finditer(line)), len(line)]
    return [line[begin:end].strip() for begin, end in pairwise(ends)]


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while batch := list(islice(remaining, _BATCH)):
        yield batch


def _passages(texts: list[str], tokenizer: PreTrainedTokenizerBase, *, max_length: int) -> list[str]:
    """Texts, those with too many tokens in several parts. A tokenizer that knows no places in a text leaves them whole."""
    if not tokenizer.is_fast:
        return texts
    room = max_length - tokenizer.num_special_tokens_to_add()
    found: Any = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return [
        passage
        for text, offsets in zip(texts, found["offset_mapping"], strict=True)
        for passage in ([text] if len(offsets) <= room else _parts(text, offsets, room=room))
    ]


def _parts(text: str, offsets: list[tuple[int, int]], *, room: int) -> Iterator[str]:
    """A text in parts of whole words, and of at most so many tokens; a word that is longer is several."""
    begin = 0
    while begin < len(offsets):
        end = min(begin + room, len(offsets))
        if end < len(offsets):
            words = (
                place for place in range(end, begin, -1) if " " in text[offsets[place][0] - 1 : offsets[place][0] + 1]
            )
            end = next(words, end)
        yield text[offsets[begin][0] : offsets[end - 1][1]].strip()
        begin = end


def sentence_rows(texts: list[str], tokenizer: PreTrainedTokenizerBase, *, max_length: int) -> "Dataset":
    """Texts as token ids, a row each."""
    from datasets import Dataset

    def tokenise(batch: dict[str, list[str]]) -> dict[str, list[Any]]:
        encoded: Any = tokenizer(batch["text"], truncation=True, max_length=max_length)
        return {**encoded, "length": [len(ids) for ids in encoded["input_ids"]]}

    rows = Dataset.from_dict({"text": texts})
    return rows.map(tokenise, batched=True, remove_columns=["text"], keep_in_memory=True)
