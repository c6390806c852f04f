"""The stages that make tokenizers: from text, or from a SentencePiece model."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..records.record import Record, file_parent
from ..records.stage import run_stage
from .byte_pairs import train_byte_pairs
from .corpus_parts import find_parts, paragraphs, sources
from .settings import TokenizerSettings
from .vocabularies import read_sentencepiece, train_unigram, train_wordpiece

SENTENCEPIECE = "spiece.model"


def train_tokenizer(corpus: Sequence[str], *, output: Path, settings: TokenizerSettings) -> Record:
    """A tokenizer with a vocabulary of the text's own: lower-casing, but for byte-level BPE.

    Args:
        corpus: files (.txt, .jsonl, .parquet), folders, or Hub datasets.
    """
    parts = find_parts(corpus, column=settings.column)

    def work(directory: Path) -> dict[str, Any]:
        if settings.kind == "unigram":
            tokenizer, model = train_unigram(
                paragraphs(parts), vocab_size=settings.vocab_size, sample=settings.sample, seed=settings.seed
            )
            (directory / SENTENCEPIECE).write_bytes(model)
        elif settings.kind == "byte-bpe":
            tokenizer = train_byte_pairs(paragraphs(parts), vocab_size=settings.vocab_size)
        else:
            tokenizer = train_wordpiece(lambda: paragraphs(parts), vocab_size=settings.vocab_size)
        tokenizer.save_pretrained(directory)
        return {"tokens": len(tokenizer)}

    return run_stage("tokenizer", output, settings=asdict(settings), parents=sources(parts), work=work)


def import_tokenizer(model: Path, *, output: Path) -> Record:
    """A SentencePiece model such as ALBERT's, as a directory that AutoTokenizer opens."""
    tokenizer = read_sentencepiece(model)

    def work(directory: Path) -> dict[str, Any]:
        tokenizer.save_pretrained(directory)
        (directory / SENTENCEPIECE).write_bytes(model.read_bytes())
        return {"tokens": len(tokenizer)}

    parents = {"model": file_parent(model)}
    return run_stage("tokenizer", output, settings={}, parents=parents, work=work)
