"""Variable-length work: rows of similar length share a batch, no batch exceeds a token budget, answers keep their order."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from transformers.utils import ModelOutput

from ..errors import InvalidInput
from ..heads import architecture_of
from ..records.progress import track
from .engine import Engine
from .padding import Padding

# Outputs of models whose others have a value for each token.
_OF_ROWS = {"pooler_output", "sentence_embedding", "sop_logits", "seq_relationship_logits"}


def pad_rows(rows: Sequence[dict[str, Any]], tokenizer: Any) -> dict[str, torch.Tensor]:
    """Rows of token ids, padded to the longest on the tokenizer's side: what `tokenizer.pad` gives, several times as fast.

    Returns:
        `[batch, sequence]` int64 for each of the tokenizer's inputs that the rows have.
    """
    names = [name for name in tokenizer.model_input_names if name in rows[0]]
    padded = Padding.of(tokenizer).pad(rows, names)
    return {name: torch.from_numpy(array) for name, array in padded.items()}


def run_batches(
    engine: Engine,
    rows: Sequence[dict[str, Any]],
    batches: list[list[int]],
    *,
    pad: Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]],
    streams: int = 1,
    kept: Collection[str] | None = None,
    description: str | None = "run",
) -> list[dict[str, torch.Tensor]]:
    """Runs rows of token ids through an engine.

    Args:
        batches: as `token_batches` and `file_batches` give them.
        pad: rows -> tensors, such as `lambda rows: pad_rows(rows, tokenizer)`.
        streams: batches that are computed at a time, for engines that are `concurrent`. On a CPU, load the engine with
            `threads=1` then: a core a batch wastes less than all cores on each.
        kept: names of the outputs that are given, of those that there are; None for all.

    Returns:
        The outputs of each row, in the order of the rows; outputs a token without those of padding.
    """
    if streams > 1 and not engine.runtime.concurrent:
        raise InvalidInput(
            f"{engine.runtime.name} computes one batch at a time", got=f"{streams} streams", repair="use 1 stream"
        )

    def answer(batch: list[int]) -> tuple[torch.Tensor, ModelOutput]:
        tensors = pad([rows[index] for index in batch])
        return tensors["attention_mask"].bool(), engine(**tensors)

    results: list[dict[str, torch.Tensor]] = [{} for _ in rows]
    with ThreadPoolExecutor(max_workers=streams) as pool:
        answers = map(answer, batches) if streams == 1 else pool.map(answer, batches)
        for batch, (real, output) in zip(
            batches, track(answers, total=len(batches), description=description), strict=True
        ):
            by_token = {name: is_by_token(engine, name) for name in output if kept is None or name in kept}
            for position, index in enumerate(batch):
                results[index] = {
                    name: output[name][position][real[position]] if of_tokens else output[name][position]
                    for name, of_tokens in by_token.items()
                }
    return results


def is_by_token(engine: Engine, name: str) -> bool:
    """Whether an output has a value for each token, not one for each row."""
    classifies = architecture_of(engine.config).endswith(("ForSequenceClassification", "ForMultipleChoice"))
    return not classifies and name not in _OF_ROWS
