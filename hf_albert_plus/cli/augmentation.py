"""The verb that makes more training data of what there is."""

from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .stages import done, start


def augment(
    data: o.Data,
    task: o.TaskName,
    out: o.Out,
    masked_lm: Annotated[
        str | None, typer.Option(help="Directory or Hub id of a masked LM: candidates for words that are one piece.")
    ] = None,
    word_vectors: Annotated[
        Path | None,
        typer.Option(help="GloVe text file, or model directory for its embeddings: candidates for the other words."),
    ] = None,
    copies: Annotated[int, typer.Option(help="Copies of each row.")] = 20,
    probability: Annotated[float, typer.Option(help="Of replacing a word.")] = 0.4,
    candidates: Annotated[int, typer.Option(help="Words that a replacement is drawn from.")] = 15,
    seed: Annotated[int, typer.Option(help="Seed of the replacements.")] = 42,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Add copies of the training rows with words replaced by likely ones (TinyBERT), for distilling on soft targets."""
    from ..distillation.augmentation import AugmentSettings
    from ..distillation.augmentation import augment as stage
    from ..glue import get_task

    chosen = get_task(task)
    settings = AugmentSettings(copies=copies, probability=probability, candidates=candidates, seed=seed)
    start(threads)
    record = stage(data, task=chosen, output=out, settings=settings, masked_lm=masked_lm, word_vectors=word_vectors)
    done(record, out, as_json=as_json)


__all__ = ["augment"]
