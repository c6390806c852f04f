"""The verbs that prepare text: tokenizers and corpora."""

from pathlib import Path
from typing import Annotated

import typer

from ..hub_connection import check_source
from ..text.settings import CorpusSettings, TokenizerSettings
from . import options as o
from .console import done, quiet_libraries
from .settings_options import with_settings

_TRAIN = "Example: albert-plus tokenizer train --corpus demo-output/data/pretraining.txt --kind wordpiece --vocab-size 500 --out my-tokenizer"
_BUILD = "Example: albert-plus corpus build --corpus demo-output/data/pretraining.txt --tokenizer demo-output/data/tokenizer --max-length 64 --out my-corpus"

tokenizer = typer.Typer(
    no_args_is_help=True, help="Make a tokenizer, from text or from a SentencePiece model.", epilog=_TRAIN
)
corpus = typer.Typer(no_args_is_help=True, help="Make examples for pretraining out of text.", epilog=_BUILD)

TOKENIZER_RULE = "--tokenizer must be a tokenizer's directory or Hub id"
TOKENIZER_REPAIR = "make one with albert-plus tokenizer train"
CorpusPaths = Annotated[
    list[str],
    typer.Option(
        "--corpus",
        help="Text with blank lines between documents, .jsonl, .parquet, a folder of these, or a Hub dataset (ID or "
        "ID:CONFIG); repeat for several.",
    ),
]


@tokenizer.command(epilog=_TRAIN)
@with_settings
def train(
    corpus: CorpusPaths,
    out: o.Out,
    settings: TokenizerSettings,
    as_json: o.JsonOut = False,
) -> None:
    """Learn a vocabulary: a lower-casing one, but for byte-level BPE."""
    from ..text.tokenizers import train_tokenizer

    quiet_libraries()
    done(train_tokenizer(corpus, output=out, settings=settings), out, as_json=as_json)


@tokenizer.command("import", epilog="Example: albert-plus tokenizer import spiece.model --out my-tokenizer")
def import_(
    model: Annotated[Path, typer.Argument(help="SentencePiece unigram model, such as ALBERT's spiece.model.")],
    out: o.Out,
    as_json: o.JsonOut = False,
) -> None:
    """Make a directory that AutoTokenizer opens of ALBERT's SentencePiece model: with its ids, and with token types."""
    from ..text.tokenizers import import_tokenizer

    quiet_libraries()
    done(import_tokenizer(model, output=out), out, as_json=as_json)


@corpus.command(epilog=_BUILD)
@with_settings
def build(
    corpus: CorpusPaths,
    tokenizer: Annotated[str, typer.Option(help="Directory or Hub id of a tokenizer.")],
    out: o.Out,
    settings: CorpusSettings,
    workers: Annotated[int | None, typer.Option(min=1, max=4096, help="Processes. Default: the cores.")] = None,
    as_json: o.JsonOut = False,
) -> None:
    """Make training and validation examples. The result opens with datasets.load_from_disk and stays on disk."""
    check_source(tokenizer, rule=TOKENIZER_RULE, repair=TOKENIZER_REPAIR)
    from ..text.corpus import build_corpus

    quiet_libraries()
    done(
        build_corpus(corpus, tokenizer=tokenizer, output=out, settings=settings, workers=workers), out, as_json=as_json
    )
