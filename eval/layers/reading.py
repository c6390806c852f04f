"""Encoders read texts layer by layer: models of any family that the project opens, with eager attention, so that it can be seen."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hf_albert_plus.checkpoints import open_as_trained
from hf_albert_plus.engines.batch_plans import token_batches
from hf_albert_plus.engines.batching import pad_rows
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.layers.measures import LayerFigures, LayerMeasures
from hf_albert_plus.machine import fastest_device
from hf_albert_plus.records.progress import track
from hf_albert_plus.tasks.rows import fits_positions, load_tokenizer

# Tokens a batch, padding included: every layer's attention of it is in memory.
_BATCH_TOKENS = 2048


def read_layers(source: str, columns: Sequence[list[str]], *, name: str, max_length: int) -> LayerFigures:
    """The measures of an encoder over texts.

    Args:
        source: directory or Hub id of a model with any head.
        columns: one list of texts, or two of pairs.
        name: what its figures are called.

    Raises:
        InvalidInput: no encoder of texts, one without a tokenizer, too long texts for it, or one whose layers cannot be compared.
    """
    model: Any = open_as_trained(source, option="MODEL")
    fits_positions(model.config, max_length)
    tokenizer = load_tokenizer(source, model.config)
    encoder = _seen_inside(model, source).to(fastest_device())
    encoded = tokenizer(*columns, truncation=True, max_length=max_length)
    rows = [{key: encoded[key][i] for key in encoded} for i in range(len(columns[0]))]
    lengths = [len(row["input_ids"]) for row in rows]
    measures = LayerMeasures(tokens=sum(lengths))
    batches = token_batches(lengths, budget=_BATCH_TOKENS)
    for batch in track(batches, total=len(batches), description=f"layers of {name}"):
        inputs = {
            key: tensor.to(encoder.device) for key, tensor in pad_rows([rows[i] for i in batch], tokenizer).items()
        }
        with torch.inference_mode():
            output = encoder(**inputs, output_hidden_states=True, output_attentions=True, return_dict=True)
        _check(output, inputs["input_ids"], source)
        measures.add(output.hidden_states, output.attentions, inputs["attention_mask"])
    return measures.figures(name)


def _seen_inside(model: Any, source: str) -> Any:
    """The encoder below a model's head, with the attention whose weights transformers hands out."""
    try:
        model.set_attn_implementation("eager")
    except (ImportError, ValueError) as error:
        raise InvalidInput(
            "MODEL must have eager attention, whose weights can be seen",
            got=f"{source} ({error})",
            repair="give another model",
        ) from None
    return model.base_model.eval()


def _check(output: Any, ids_BS: torch.Tensor, source: str) -> None:
    """Refuses an encoder that does not hand out what every layer does to every token.

    Raises:
        InvalidInput: such an encoder.
    """
    states, attentions = output.hidden_states or (), output.attentions or ()
    square = all(each is not None and each.shape[-2:] == (ids_BS.shape[1],) * 2 for each in attentions)
    shapes = {tuple(state.shape) for state in states}
    same = len(shapes) == 1 and next(iter(shapes))[:2] == tuple(ids_BS.shape)
    if not attentions or len(states) != len(attentions) + 1 or not square or not same:
        raise InvalidInput(
            "MODEL must have layers of one width, each with an attention over all tokens",
            got=f"{len(states)} hidden states and {len(attentions)} attentions of {source}",
            repair="give an encoder such as BERT, ALBERT or RoBERTa",
        )


def names_of(sources: Sequence[str]) -> list[str]:
    """What models are called in tables and plots: the last part of each path, or all of it where two would be called alike.

    Raises:
        InvalidInput: one model twice.
    """
    twice = next((source for source in sources if list(sources).count(source) > 1), None)
    if twice is not None:
        raise InvalidInput("models must differ", got=f"{twice} twice", repair="name it once")
    last = [Path(source).resolve().name if Path(source).exists() else source for source in sources]
    return [name if last.count(name) == 1 else source for name, source in zip(last, sources, strict=True)]
