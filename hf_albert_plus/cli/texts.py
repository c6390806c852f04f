"""The verbs that prepare text: tokenizers and corpora."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .console import quiet_libraries
from .stages import done

tokenizer = typer.Typer(no_args_is_help=True, help="Make a tokenizer, from text or from a SentencePiece model.")
corpus = typer.Typer(no_args_is_help=True, help="Make examples for pretraining out of text.")

CorpusPaths = Annotated[
    list[str],
    typer.Option(
        "--corpus",
        help="Text with blank lines between documents, .jsonl, .parquet, a folder of these, or a Hub dataset (ID or "
        "ID:CONFIG); repeat for several.",
    ),
]
Column = Annotated[str, typer.Option(help="Column of jsonl, parquet and Hub rows that holds the text.")]


class KindChoice(str, Enum):
    """The kinds of vocabulary."""

    unigram = "unigram"
    wordpiece = "wordpiece"


class FormatChoice(str, Enum):
    """The input formats."""

    segment_pair = "segment-pair"
    sentence_pair = "sentence-pair"
    full_sentences = "full-sentences"
    doc_sentences = "doc-sentences"


class OrderChoice(str, Enum):
    """What is asked about two segments."""

    sentence_order = "sentence-order"
    next_sentence = "next-sentence"
    none = "none"


@tokenizer.command(
    epilog="Example: albert-plus tokenizer train --corpus demo-output/data/pretraining.txt --kind wordpiece --vocab-size 500 --out my-tokenizer"
)
def train(
    corpus: CorpusPaths,
    out: o.Out,
    kind: Annotated[
        KindChoice, typer.Option(help="SentencePiece unigram as ALBERT's, or WordPiece as BERT's.")
    ] = KindChoice.unigram,
    vocab_size: Annotated[int, typer.Option(help="Tokens of the vocabulary, special ones included.")] = 30_000,
    sample: Annotated[int, typer.Option(help="Characters that a unigram vocabulary is learned from.")] = 50_000_000,
    column: Column = "text",
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 42,
    as_json: o.JsonOut = False,
) -> None:
    """Learn a lower-casing vocabulary."""
    from ..tokenization import TokenizerSettings, train_tokenizer

    quiet_libraries()
    settings = TokenizerSettings(kind=kind.value, vocab_size=vocab_size, sample=sample, column=column, seed=seed)
    done(train_tokenizer(corpus, output=out, settings=settings), out, as_json=as_json)


@tokenizer.command("import", epilog="Example: albert-plus tokenizer import spiece.model --out my-tokenizer")
def import_(
    model: Annotated[Path, typer.Argument(help="SentencePiece unigram model, such as ALBERT's spiece.model.")],
    out: o.Out,
    as_json: o.JsonOut = False,
) -> None:
    """Make a directory that AutoTokenizer opens of ALBERT's SentencePiece model: with its ids, and with token types."""
    from ..tokenization import import_tokenizer

    quiet_libraries()
    done(import_tokenizer(model, output=out), out, as_json=as_json)


@corpus.command(
    epilog="Example: albert-plus corpus build --corpus demo-output/data/pretraining.txt --tokenizer demo-output/data/tokenizer --max-length 64 --out my-corpus"
)
def build(
    corpus: CorpusPaths,
    tokenizer: Annotated[str, typer.Option(help="Directory or Hub id of a tokenizer.")],
    out: o.Out,
    format_: Annotated[
        FormatChoice, typer.Option("--format", help="Input format (RoBERTa, section 4.2).")
    ] = FormatChoice.segment_pair,
    order: Annotated[
        OrderChoice | None,
        typer.Option(
            help="What two segments are labelled with: swapped or not, from another document or not. Default: "
            "sentence-order for pairs, none otherwise."
        ),
    ] = None,
    max_length: Annotated[int, typer.Option(help="Longest example in tokens.")] = 512,
    short_share: Annotated[float, typer.Option(help="Share of segment-pair examples with a shorter length.")] = 0.1,
    copies: Annotated[int, typer.Option(help="Times the text is gone through, each with other segments.")] = 1,
    held_out: Annotated[float, typer.Option(help="Share of the documents for the validation split.")] = 0.01,
    language: Annotated[
        str, typer.Option(help="ISO 639 code, for where sentences end; none where each line is one.")
    ] = "en",
    column: Column = "text",
    workers: Annotated[int | None, typer.Option(min=1, max=4096, help="Processes. Default: the cores.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of segments, labels and splits.")] = 42,
    as_json: o.JsonOut = False,
) -> None:
    """Make training and validation examples. The result opens with datasets.load_from_disk and stays on disk."""
    from ..corpus import CorpusSettings, build_corpus

    quiet_libraries()
    settings = CorpusSettings(
        format=format_.value, order=None if order is None else order.value, max_length=max_length, short_share=short_share, copies=copies,
        held_out=held_out, language=language, column=column, seed=seed,
    )  # fmt: skip
    done(
        build_corpus(corpus, tokenizer=tokenizer, output=out, settings=settings, workers=workers), out, as_json=as_json
    )


__all__ = ["corpus", "tokenizer"]
