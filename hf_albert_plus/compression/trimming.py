"""The trim stage: a classifier with the pieces of its vocabulary alone that a task's texts use."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..checkpoints import check_full_bits, load_classifier
from ..records.record import Record, parent
from ..records.stage import run_stage
from ..tasks.row_texts import texts_of
from ..tasks.rows import load_tokenizer
from ..tasks.splits import data_parent, evaluated_splits, load_split
from ..tasks.task import Task
from ..tasks.task_file import read_task, write_task
from ..text.corpus_parts import find_parts, paragraphs, sources
from .used_pieces import pieces_of, with_pieces


def trim(model: str, *, data: str, task: Task, output: Path, corpus: Sequence[str] = ()) -> Record:
    """Removes from vocabulary and embeddings what no training text of a task uses. To these texts the model gives the answers that it gave; a word
    that none of them has is read in smaller pieces, down to its characters.

    What is left is an ordinary model directory. The record says how many texts of the splits that are evaluated are read otherwise.

    Args:
        model: directory or Hub id of a classifier of the task with a fast tokenizer.
        corpus: further texts (.txt, .jsonl, .parquet, folders of these, Hub datasets), whose pieces stay too.

    Raises:
        InvalidInput: no such classifier, or a tokenizer of a kind that cannot be cut.
    """

    parts = find_parts(corpus) if corpus else []

    def work(directory: Path) -> dict[str, Any]:
        check_full_bits(model, option="--model")
        classifier = load_classifier(model, option="--model")
        tokenizer = load_tokenizer(model, classifier.config)
        before = classifier.num_parameters()
        texts = chain(_texts(data, task, "train"), paragraphs(parts) if parts else ())
        kept = with_pieces(tokenizer, pieces_of(texts, tokenizer), directory)
        keep_embeddings(classifier, kept)
        classifier.save_pretrained(directory)
        carried = read_task(model)
        if carried is not None:
            write_task(directory, carried)
        known, otherwise = set(kept), {}
        for row_name, split in evaluated_splits(data, task).items():
            rows = [pieces_of([text], tokenizer) <= known for text in _texts(data, task, split)]
            otherwise[row_name] = round(1 - sum(rows) / max(1, len(rows)), 4)
        return {
            "pieces_before": len(tokenizer),
            "pieces": len(kept),
            "parameters_before": before,
            "parameters": classifier.num_parameters(),
            "texts_read_otherwise": otherwise,
        }

    parents = {"model": parent(model), "data": data_parent(data, task), **sources(parts)}
    return run_stage("trim", output, settings=task.settings, parents=parents, work=work)


@torch.no_grad()
def keep_embeddings(model: Any, kept: list[int]) -> None:
    """Keeps the rows of some ids in a model without a head for words, and gives the ids of special tokens in its config their new numbers.

    Args:
        kept: old ids, in the order of the new ones.
    """
    rows = model.get_input_embeddings().weight[torch.tensor(kept)].clone()
    new_of = {old: new for new, old in enumerate(kept)}
    model.resize_token_embeddings(len(kept), mean_resizing=False)
    embeddings: nn.Embedding = model.get_input_embeddings()
    embeddings.weight.copy_(rows)
    for name, value in list(vars(model.config).items()):
        if name.endswith("_token_id") and isinstance(value, int):
            setattr(model.config, name, new_of.get(value))
    embeddings.padding_idx = model.config.pad_token_id


def _texts(data: str, task: Task, split: str) -> Iterator[str]:
    rows = load_split(data, task, split)
    return (text for texts in texts_of(rows, task) for text in texts)
