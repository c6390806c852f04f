"""Starting points for a model from another one's weights. None is a conversion: the new model computes something else."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from ..configuration_albert_plus import AlbertPlusConfig
from ..errors import InvalidInput
from ..heads import albert_plus_class, head_of
from .families import CONVERTIBLE
from .layer_differences import Kind, bring_near, states_of_layers
from .models import to_albert_plus
from .occurrences import Occurrences
from .positions import interpolated_positions
from .settings import Initialisation

_SAME = ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size", "num_feedforward_networks",
         "bottleneck_size", "query_key_bottleneck", "trigram_embeddings", "norm_type", "relative_attention_buckets", "block_attention_heads", "block_intermediate_sizes")  # fmt: skip


def can_initialise(source: PreTrainedModel, config: AlbertPlusConfig) -> str | None:
    """Why a model of this config cannot start from the source's weights, or None if it can."""
    theirs: Any = source.config
    if theirs.model_type not in CONVERTIBLE:
        return f"{theirs.model_type} weights have no exact conversion to start from"
    if theirs.model_type != AlbertPlusConfig.model_type:
        try:
            theirs = to_albert_plus(source).config
        except InvalidInput as error:
            return f"the source has no exact conversion to start from ({error.got})"
    for name in _SAME:
        if getattr(theirs, name) != getattr(config, name):
            return f"{name} differs ({getattr(theirs, name)} in the source, {getattr(config, name)} in the new model)"
    for name in ("embedding_size", "type_vocab_size"):
        if getattr(theirs, name) < getattr(config, name):
            return f"{name} grows ({getattr(theirs, name)} in the source, {getattr(config, name)} in the new model)"
    if theirs.embedding_size != config.embedding_size and (config.trigram_embeddings or config.norm_type == "no_norm"):
        return f"embedding_size differs ({theirs.embedding_size} in the source) beside trigram embeddings or no_norm"
    return None


def initialise(
    source: PreTrainedModel,
    config: AlbertPlusConfig,
    *,
    method: Initialisation,
    layers: list[int] | None = None,
    occurrences: Occurrences | None = None,
) -> tuple[PreTrainedModel, str]:
    """A model of `config` with the source's head, started from the source, and the name of what was done.

    Each block becomes a combination of the source's layers that it stands for: layer l of L stands for the source's
    layers from l·M/L up to (l+1)·M/L, or for `layers[l]` alone. The combinations:

    - `average`: the mean of the layers.
    - `first`: the first of them.
    - `svd`: the mean of their best rank-one approximation, the layers being the rows: what they have in common, without
      the layer that deviates pulling it.

    With `layer_rank` every layer gets the norms and biases of the layers that it stands for itself, and differences that bring its
    products near to theirs. Embeddings narrower than the source's come from a truncated SVD (`factorise_embeddings`), and more positions than it
    has lie between its own (`interpolated_positions`). Pooler and heads are
    copied where their sizes agree. `auto` averages where the sizes allow it and starts at random otherwise; `embeddings` copies then
    what lies outside of the layers and has the new model's shapes (MobileBERT, section 3.5: embeddings and classifier).

    Args:
        layers: the source's layer for every layer of the new model, from 0 (DistilBERT: `[0, 2, 4, 7, 9, 11]`).
        occurrences: in texts that narrower embeddings should keep the most of; without any, every row of a table counts alike.

    Raises:
        InvalidInput: a method other than `auto` and `random` for sizes that do not allow it, or layers that the source lacks.
    """
    head = head_of(type(source).__name__, option="the model")
    model: Any = albert_plus_class(head)(config)
    obstacle = can_initialise(source, config)
    if method == "embeddings" and obstacle is not None:
        copied = _copy_outside(model, source)
        return (
            model,
            f"{', '.join(copied)} of the source, the rest random: {obstacle}" if copied else f"random: {obstacle}",
        )
    if method == "random" or (method == "auto" and obstacle is not None):
        return model, "random" if obstacle is None else f"random: {obstacle}"
    if obstacle is not None:
        raise InvalidInput(
            f"--initialise {method} needs a source of the new model's widths",
            got=obstacle,
            repair="set that field to the source's with --set, or start at random (distill --initialise random)",
        )
    ours: Any = to_albert_plus(source)
    combination = "average" if method in ("auto", "embeddings") else method
    depth = ours.config.num_hidden_layers
    chosen = _check_layers(layers, new=config.num_hidden_layers, old=depth) if layers is not None else None
    encoder, their_encoder = model.base_model.encoder, ours.base_model.encoder
    with torch.no_grad():
        _fill_embeddings(model.base_model.embeddings, ours.base_model.embeddings, occurrences)
        kinds: tuple[Kind, ...] = ("attention", "ffn")
        for kind in kinds:
            blocks, theirs = getattr(encoder, kind), states_of_layers(their_encoder, kind)
            for block, members in _layers_of_blocks(getattr(config, f"{kind}_map"), depth, chosen).items():
                state = _combine([theirs[layer] for layer in members], combination)
                blocks[block].load_state_dict({name: state[name] for name in blocks[block].state_dict()})
            if config.layer_rank is not None:
                for layer, members in _layers_of_blocks(range(config.num_hidden_layers), depth, chosen).items():
                    bring_near(encoder, kind, layer, _combine([theirs[member] for member in members], combination))
        fresh = _copy_rest(model, ours)
    parts = [f"{combination} of the source's layers" + ("" if chosen is None else f" {chosen}")]
    if config.layer_rank is not None:
        parts.append(f"differences of rank {config.layer_rank} by truncated SVD")
    if config.embedding_size < ours.config.embedding_size:
        weighted = "" if occurrences is None else ", weighted by how often each row is read"
        parts.append(f"embeddings by truncated SVD{weighted}")
    if config.max_position_embeddings > ours.config.max_position_embeddings:
        parts.append(
            f"{config.max_position_embeddings} positions interpolated from {ours.config.max_position_embeddings}"
        )
    if fresh:
        parts.append(f"{', '.join(fresh)} at random")
    return model.eval(), ", ".join(parts)


def _check_layers(layers: list[int], *, new: int, old: int) -> list[int]:
    if len(layers) != new or not all(0 <= layer < old for layer in layers):
        raise InvalidInput(
            f"--layers must name one of the source's layers 0 to {old - 1} for each of the {new} layers",
            got=",".join(map(str, layers)),
            repair=f"use --layers {','.join(str(layer * old // new) for layer in range(new))}",
        )
    return layers


def _layers_of_blocks(
    new_map: Sequence[int], source_layers: int, chosen: list[int] | None = None
) -> dict[int, list[int]]:
    """Source layers that each block stands for."""
    depth = len(new_map)
    layers: dict[int, set[int]] = {block: set() for block in new_map}
    for layer, block in enumerate(new_map):
        begin = layer * source_layers // depth
        spanned = range(begin, max((layer + 1) * source_layers // depth, begin + 1))
        layers[block].update(spanned if chosen is None else [chosen[layer]])
    return {block: sorted(members) for block, members in layers.items()}


def _combine(states: list[dict[str, torch.Tensor]], method: str) -> dict[str, torch.Tensor]:
    if method == "first":
        return states[0]
    combine = _rank_one_mean if method == "svd" else lambda stacked: stacked.mean(0)
    return {name: combine(torch.stack([state[name] for state in states])) for name in states[0]}


def _rank_one_mean(stacked: torch.Tensor) -> torch.Tensor:
    """Mean over the rows of M ≈ s·u·vᵀ. The leading u comes from the small matrix M·Mᵀ, and s·vᵀ is uᵀ·M."""
    rows = stacked.flatten(1)
    _, directions = torch.linalg.eigh(rows.double() @ rows.double().T)
    leading = directions[:, -1].to(rows.dtype)
    return (leading.mean() * (leading @ rows)).view(stacked.shape[1:])


def _copy_rest(model: Any, source: Any) -> list[str]:
    """Copies pooler and head. Returns the modules whose sizes differ, which keep their random start."""
    state, fresh = source.state_dict(), set()
    done = ("embeddings.", "encoder.", *(("predictions.decoder.weight",) if model.config.tie_word_embeddings else ()))
    for name, tensor in model.state_dict().items():
        if any(part in name for part in done):
            continue
        if name in state and state[name].shape == tensor.shape:
            tensor.copy_(state[name])
        else:
            fresh.add(name.rpartition(".")[0].removeprefix("albert_plus."))
    return sorted(fresh)


def _copy_outside(model: Any, source: PreTrainedModel) -> list[str]:
    """Copies the tensors outside of the layers that have the new model's shapes, norms of another kind left out. Returns the modules that
    they are of; none where the source has no conversion."""
    try:
        ours: Any = to_albert_plus(source)
    except InvalidInput:
        return []
    state, copied = ours.state_dict(), {}
    for name, tensor in model.state_dict().items():
        outside = "encoder." not in name and "exits." not in name
        other_norm = "embeddings.layer_norm" in name and ours.config.norm_type != model.config.norm_type
        if outside and not other_norm and name in state and state[name].shape == tensor.shape:
            tensor.copy_(state[name])
            copied[name.rpartition(".")[0].removeprefix("albert_plus.")] = True
    return list(copied)


def _fill_embeddings(ours: Any, theirs: Any, occurrences: Occurrences | None) -> None:
    positions, count = theirs.position_embeddings.weight, len(ours.position_embeddings.weight)
    positions = positions[:count] if count <= len(positions) else interpolated_positions(positions, count)
    tables = [theirs.word_embeddings.weight]
    if theirs.token_type_embeddings is None:
        tables.append(positions)
    elif ours.token_type_embeddings is None:
        # What every token of a single text had added.
        tables.append(positions + theirs.token_type_embeddings.weight[0])
    else:
        types = theirs.token_type_embeddings.weight[: len(ours.token_type_embeddings.weight)]
        tables += [positions, types]
    if ours.word_embeddings.embedding_dim == theirs.word_embeddings.embedding_dim:
        ours.layer_norm.load_state_dict(theirs.layer_norm.state_dict())
        if ours.projection is not None:
            ours.projection.load_state_dict(theirs.projection.state_dict())
    else:
        counts = None
        if occurrences is not None:
            each = (occurrences.pieces_V, occurrences.positions_P, occurrences.types_T)
            counts = [count[: len(table)] for count, table in zip(each, tables, strict=False)]
        tables, projection, bias = factorise_embeddings(
            tables, embedding_size=ours.word_embeddings.embedding_dim, layer_norm=theirs.layer_norm, counts=counts
        )
        if theirs.projection is not None:
            bias = theirs.projection(bias)
            projection = theirs.projection.weight @ projection
        ours.projection.weight.copy_(projection)
        ours.projection.bias.copy_(bias)
    targets = (ours.word_embeddings, ours.position_embeddings, ours.token_type_embeddings)
    for table, values in zip((target for target in targets if target is not None), tables, strict=True):
        table.weight.copy_(values)


def factorise_embeddings(
    tables: list[torch.Tensor],
    *,
    embedding_size: int,
    layer_norm: torch.nn.LayerNorm,
    counts: list[torch.Tensor] | None = None,
) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """Tables of width H -> tables of width E, a projection `[H, E]` and its bias `[H]`, with the LayerNorm moved to E.

    A LayerNorm over H removes the mean of a row x and scales it to the length √H, then applies γ and β. With the
    truncated SVD x - mean(x) ≈ V·u the LayerNorm over E scales u to the length √E instead, so that
    γ ⊙ √(H/E)·V and β as projection and bias restore what the wide one gave, as far as rank E and the mean of u allow.

    Args:
        counts: how often each row of each table is read. A row weighs in the SVD as often as it is read, and once more, so that
            those that no text has are kept as well as is left. Without counts all rows weigh the same.
    """
    stacked = torch.cat([table.detach().double() for table in tables])
    stacked = stacked - stacked.mean(dim=1, keepdim=True)
    hidden_size = stacked.shape[1]
    weights = torch.ones(len(stacked)) if counts is None else 1 + torch.cat(counts)
    _, directions = torch.linalg.eigh(stacked.T @ (weights.double()[:, None] * stacked))
    basis_HE = directions[:, -embedding_size:].flip(1)
    narrow = (stacked @ basis_HE).float().split([table.shape[0] for table in tables])
    projection = layer_norm.weight[:, None] * basis_HE.float() * (hidden_size / embedding_size) ** 0.5
    return list(narrow), projection, layer_norm.bias.clone()
