"""Shards: the examples of one part of a corpus in Arrow files, which are read from disk as they are needed."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from ..checkpoints import open_tokenizer
from ..errors import InvalidInput
from ..records.stage import mark, taken_up
from .documents import Part
from .formats import (
    NO_ORDER,
    Document,
    Example,
    doc_sentences,
    full_sentences,
    segment_pairs,
    sentence_ids,
    sentence_pairs,
)
from .settings import CorpusSettings

SPLITS = ("train", "validation")
# Text that is in memory at a time.
_BATCH_CHARACTERS = 2 << 20
_ROWS_A_WRITE = 1000


@dataclass(frozen=True)
class ShardMaker:
    """What every worker gets to make shards with.

    Attributes:
        tokenizer: its tokenizer.json.
        start, separator, unknown: ids that examples begin with, that segments end with, and of what has no id.
        separators: how many stand between two segments.
        vocabulary: number of ids.
        directory: where shards are written.
    """

    settings: CorpusSettings
    tokenizer: str
    start: int
    separator: int
    separators: int
    unknown: int | None
    vocabulary: int
    directory: str

    @property
    def room(self) -> int:
        """Tokens of two segments together."""
        return self.settings.max_length - 2 - self.separators

    def make(self, index: int, part: Part) -> dict[str, int]:
        """Writes a part's examples, a file for each split, unless they were made before, and returns what was counted."""
        directory = Path(self.directory)
        done = directory / f"{index:05}.json"
        shards = {split: directory / split / f"{index:05}.arrow" for split in SPLITS}
        known: dict[str, int] | None = taken_up(done, shape=dict[str, int])
        if known is not None:
            return known
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        counts: Counter[str] = Counter()
        for split in SPLITS:
            (directory / split).mkdir(exist_ok=True)
        writers = {split: _Writer(shard, self.vocabulary) for split, shard in shards.items()}
        seed, copies = self.settings.seed, range(self.settings.copies)
        draws = {split: [Random(f"{seed} {index} {copy} {split}") for copy in copies] for split in SPLITS}
        for documents in self._documents(part, counts):
            # Of few held-out documents one may be alone: others lie in the text that it was held out of.
            together = [document for members in documents.values() for document in members]
            for split, members in documents.items():
                for random in draws[split]:
                    for example in self._examples(members, random, elsewhere=members if len(members) > 1 else together):
                        writers[split].add(self._row(example))
                        label = "without label" if example.label == NO_ORDER else f"label {example.label}"
                        counts[f"{split} {label}"] += 1
        for split, writer in writers.items():
            counts[f"{split} examples"], counts[f"{split} tokens"] = writer.close()
        mark(done, shards.values(), facts=counts)
        return dict(counts)

    def _documents(self, part: Part, counts: Counter[str]) -> Iterator[dict[str, list[Document]]]:
        """A part's documents as token ids, by split, as many at a time as memory is meant for."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(self.tokenizer)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        for paragraphs in _batches(part.documents()):
            documents: dict[str, list[Document]] = {split: [] for split in SPLITS}
            for lines in paragraphs:
                document = sentence_ids(lines, tokenizer, language=self.settings.language, longest=self.room)
                if not document:
                    continue
                documents[self._split_of(lines)].append(document)
                counts["documents"] += 1
                counts["sentences"] += len(document)
                counts["tokens"] += sum(map(len, document))
                if self.unknown is not None:
                    counts["unknown"] += sum(sentence.count(self.unknown) for sentence in document)
            yield documents

    def _split_of(self, lines: list[str]) -> str:
        """The split of a document, by its text, so that copies of a document in a corpus lie on one side."""
        digest = hashlib.blake2b(
            "\n".join(lines).encode(), key=str(self.settings.seed).encode(), digest_size=8
        ).digest()
        return SPLITS[int.from_bytes(digest, "big") < self.settings.held_out * 2**64]

    def _examples(self, documents: list[Document], random: Random, *, elsewhere: list[Document]) -> Iterator[Example]:
        settings = self.settings
        room, order = self.room, settings.order or "none"
        # What has one segment has specials at its two ends alone.
        alone = settings.max_length - 2
        if settings.format == "segment-pair":
            share = settings.short_share
            return segment_pairs(
                documents, room=room, order=order, random=random, short_share=share, elsewhere=elsewhere
            )
        if settings.format == "sentence-pair":
            return sentence_pairs(documents, room=room, order=order, random=random, elsewhere=elsewhere)
        if settings.format == "full-sentences":
            return full_sentences(documents, room=alone, separator=self.separator)
        return doc_sentences(documents, room=alone)

    def _row(self, example: Example) -> dict[str, Any]:
        ids, second = [self.start, *example.first], 0
        if example.second:
            ids += [self.separator] * self.separators
            second = len(ids)
            ids += example.second
        ids.append(self.separator)
        return {"input_ids": ids, "second_segment": second, "sentence_order_label": example.label, "length": len(ids)}


def _batches(documents: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    batch: list[list[str]] = []
    size = 0
    for lines in documents:
        batch.append(lines)
        size += sum(map(len, lines))
        if size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def features(vocabulary: int) -> Any:
    """The columns of a row: its tokens, where the second segment begins (0 without one), its label and number of tokens."""
    from datasets import Features, Sequence, Value

    ids = Value("uint16" if vocabulary <= 1 << 16 else "int32")
    columns = {"input_ids": Sequence(ids), "second_segment": Value("int32")}
    return Features({**columns, "sentence_order_label": Value("int64"), "length": Value("int32")})


class _Writer:
    """Rows to an Arrow file, a thousand at a time."""

    def __init__(self, path: Path, vocabulary: int):
        from datasets.arrow_writer import ArrowWriter

        self.writer = ArrowWriter(path=str(path), features=features(vocabulary))
        self.rows: list[dict[str, Any]] = []
        self.examples = self.tokens = 0

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if len(self.rows) >= _ROWS_A_WRITE:
            self._write()

    def _write(self) -> None:
        if self.rows:
            self.writer.write_batch({name: [row[name] for row in self.rows] for name in self.rows[0]})
            self.examples += len(self.rows)
            self.tokens += sum(row["length"] for row in self.rows)
        self.rows = []

    def close(self) -> tuple[int, int]:
        self._write()
        self.writer.finalize()
        return self.examples, self.tokens


def separators_between(tokenizer: Any) -> int:
    """How many separators a tokenizer sets between the segments of a pair: two as RoBERTa's, or one."""
    return 2 if tokenizer.num_special_tokens_to_add(pair=True) == 4 else 1


def tokenizer_for_pretraining(directory: str) -> Any:
    """A tokenizer with the specials that examples need.

    Raises:
        InvalidInput: no tokenizer, none of the tokenizers library, or one without first and separator tokens.
    """
    tokenizer: Any = open_tokenizer(
        directory,
        rule="--tokenizer must be a tokenizer's directory or Hub id",
        repair="make one with albert-plus tokenizer train",
    )
    if not tokenizer.is_fast:
        raise InvalidInput(
            "--tokenizer must be one of the tokenizers library with a vocabulary",
            got=directory,
            repair="make one with albert-plus tokenizer train",
        )
    check_specials(tokenizer, rule="--tokenizer must have first, separator, mask and padding tokens", where=directory)
    return tokenizer


def check_specials(
    tokenizer: Any, *, rule: str, where: object, repair: str = "make one with albert-plus tokenizer train"
) -> None:
    """Refuses a tokenizer without the specials that examples need.

    Args:
        where: its directory.

    Raises:
        InvalidInput: one is missing.
    """
    missing = [
        name for name in ("cls_token", "sep_token", "mask_token", "pad_token") if getattr(tokenizer, name) is None
    ]
    if missing:
        raise InvalidInput(rule, got=f"{where} without {', '.join(missing)}", repair=repair)
