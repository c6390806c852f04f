"""The verb that pretrains."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .console import print_rows
from .stages import done, start
from .texts import Column, CorpusPaths, FormatChoice, OrderChoice

# Options of pretrain that say how text becomes examples.
_OF_TEXT = {
    "tokenizer": "--tokenizer", "vocab_size": "--vocab-size", "format_": "--format", "order": "--order", "max_length": "--max-length",
    "language": "--language", "column": "--column", "held_out": "--held-out",
}  # fmt: skip


class OptimizerChoice(str, Enum):
    """The optimisers of pretraining."""

    lamb = "lamb"
    adamw = "adamw"


class MaskedChoice(str, Enum):
    """What is masked together."""

    spans = "spans"
    words = "words"
    tokens = "tokens"


class AttentionChoice(str, Enum):
    """Implementations of attention."""

    auto = "auto"
    eager = "eager"
    sdpa = "sdpa"
    flex_attention = "flex_attention"
    flash_attention_2 = "flash_attention_2"


def pretrain(
    context: typer.Context,
    corpus: CorpusPaths,
    out: o.Out,
    variant: Annotated[str, typer.Option(help="Architecture: albert-plus variants.")] = "albert-base-v2",
    set_: o.Set = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="For text: directory or Hub id. Default: learned from the text.")
    ] = None,
    vocab_size: Annotated[int, typer.Option(help="For text without --tokenizer.")] = 30_000,
    format_: Annotated[
        FormatChoice, typer.Option("--format", help="For text: input format.")
    ] = FormatChoice.segment_pair,
    order: Annotated[OrderChoice | None, typer.Option(help="For text: what two segments are labelled with.")] = None,
    max_length: Annotated[int, typer.Option(help="For text: longest example in tokens.")] = 512,
    language: Annotated[
        str, typer.Option(help="For text: ISO 639 code, for where sentences end; none where each line is one.")
    ] = "en",
    column: Column = "text",
    held_out: Annotated[float, typer.Option(help="For text: share of the documents to score on.")] = 0.01,
    epochs: Annotated[float, typer.Option(help="Passes over the examples.")] = 1.0,
    batch_size: Annotated[int, typer.Option(help="Rows a step, over all processes and accumulated batches.")] = 256,
    accumulate: Annotated[int, typer.Option(help="Forward passes that make a step.")] = 1,
    optimizer: Annotated[
        OptimizerChoice, typer.Option(help="LAMB as ALBERT's release has it, or AdamW.")
    ] = OptimizerChoice.lamb,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak; default: 1.76e-3 sqrt(batch size / 4,096) for lamb, 1e-4 for adamw.")
    ] = None,
    warmup: Annotated[float, typer.Option(help="Share of the steps with a rising learning rate.")] = 0.025,
    weight_decay: Annotated[float, typer.Option(help="But for biases and norms.")] = 0.01,
    masked: Annotated[
        MaskedChoice, typer.Option(help="Spans of up to three whole words (ALBERT), whole words, or tokens.")
    ] = MaskedChoice.spans,
    cap: Annotated[
        int | None, typer.Option(help="Tokens masked of a row at most. Default: none; the 2019 commands had 20.")
    ] = None,
    copies: Annotated[
        int | None, typer.Option(help="Masks that a row has in turn. Default: new ones each time.")
    ] = None,
    packed: Annotated[bool, typer.Option(help="Let short examples share rows, so that nothing is padding.")] = True,
    attention: Annotated[
        AttentionChoice, typer.Option(help="auto takes the fastest that is installed.")
    ] = AttentionChoice.auto,
    checkpoint_layers: Annotated[
        bool, typer.Option("--checkpoint-layers", help="Compute layers again in the backward pass: less memory.")
    ] = False,
    evaluations: Annotated[int, typer.Option(help="How often the held-out text is scored.")] = 10,
    precision: o.Precision = o.PrecisionChoice.auto,
    seed: o.Seed = 42,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Pretrain an encoder, from text or from a directory of albert-plus corpus build to a checkpoint.

    Text becomes OUT-tokenizer and OUT-corpus first, which the next run uses again.
    """
    from ..pretraining import PretrainSettings, prepare_corpus, published_learning_rate
    from ..pretraining import pretrain as stage
    from ..variants import get_variant, parse_settings

    settings = PretrainSettings(
        epochs=epochs, batch_size=batch_size, accumulate=accumulate, optimizer=optimizer.value,
        learning_rate=published_learning_rate(optimizer.value, batch_size=batch_size) if learning_rate is None else learning_rate,
        warmup=warmup, weight_decay=weight_decay, masked=masked.value, cap=cap, copies=copies, packed=packed,
        attention=attention.value, checkpoint_layers=checkpoint_layers, evaluations=evaluations,
        precision=precision.value, seed=seed,
    )  # fmt: skip
    config = {**get_variant(variant).fields, **parse_settings(set_ or [])}
    given = {
        option: context.params[name]
        for name, option in _OF_TEXT.items()
        if getattr(context.get_parameter_source(name), "name", None)
        == "COMMANDLINE"  # typer's click or its own copy of it
    }
    start(threads)
    built = prepare_corpus(
        corpus, output=out, given=given, tokenizer=tokenizer, vocab_size=vocab_size, format=format_.value,
        order=None if order is None else order.value, max_length=max_length, language=language, column=column,
        held_out=held_out, seed=seed,
    )  # fmt: skip
    done(stage(built, config=config, output=out, settings=settings), Path(out), as_json=as_json)


def bench_pretrain(
    corpus: Annotated[Path, typer.Option(help="Directory of albert-plus corpus build.")],
    variant: Annotated[
        str, typer.Option(help="Architecture, one that transformers' ALBERT can compute.")
    ] = "albert-base-v2",
    set_: o.Set = None,
    batch_size: Annotated[int, typer.Option(help="Examples of a padded batch, rows of a packed one.")] = 16,
    precision: o.Precision = o.PrecisionChoice.auto,
    seconds: Annotated[float, typer.Option(help="Least measured time of each row.")] = 20.0,
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Time steps of pretraining on the CPU against transformers' own AlbertForPreTraining with its padded collator, in turns."""
    from hf_albert_plus.eval.settings import BenchSettings

    BenchSettings(seconds=seconds)
    from hf_albert_plus.eval.pretraining_step import bench_pretraining

    from ..files import write_json
    from ..training import trains_in_bf16
    from ..variants import get_variant, parse_settings

    start(threads)
    fields = {**get_variant(variant).fields, **parse_settings(set_ or [])}
    document = bench_pretraining(
        corpus,
        fields=fields,
        batch_size=batch_size,
        bf16=trains_in_bf16(precision.value),
        seconds=seconds,
        threads=threads,
    )
    if json_file is not None:
        write_json(json_file, document)
    print_rows(
        ["step", "tokens/s", "speedup", "95 %", "of attainable arithmetic"],
        [
            [
                row["label"], f"{row['tokens_per_s']:,}", f"{row['speedup']:.2f}x",
                "{:.2f}-{:.2f}".format(*row["speedup_interval"]), f"{row['share_of_ceiling']:.0f} %",
            ]
            for row in document["rows"]
        ],
        title=f"{document['parameters']:,} parameters, {document['precision']}, ceiling "
        f"{document['ceiling']['gops_per_s']:,.0f} Gop/s ({document['ceiling']['library']})",
    )  # fmt: skip


__all__ = ["bench_pretrain", "pretrain"]
