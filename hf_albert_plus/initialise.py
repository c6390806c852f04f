"""Starting points for a student from its teacher's weights. None is a conversion: the student computes something else."""

from typing import Any, Literal

import torch
from transformers import PreTrainedModel

from .configuration_albert_plus import AlbertPlusConfig
from .convert import CONVERTIBLE, to_albert_plus
from .errors import InvalidInput
from .modeling_albert_plus import AlbertPlusForSequenceClassification

Initialisation = Literal["auto", "average", "first", "random"]


def can_initialise(teacher: PreTrainedModel, config: AlbertPlusConfig) -> str | None:
    """Why the student cannot start from this teacher's weights, or None if it can."""
    source = teacher.config
    if source.model_type not in CONVERTIBLE:
        return f"{source.model_type} weights have no exact conversion to start from"
    for name in ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size", "max_position_embeddings"):
        if getattr(source, name) != getattr(config, name):
            return f"{name} differs ({getattr(source, name)} in the teacher, {getattr(config, name)} in the student)"
    teacher_embedding = getattr(source, "embedding_size", source.hidden_size)
    if config.embedding_size > teacher_embedding or config.type_vocab_size > source.type_vocab_size:
        return f"its embeddings are narrower ({teacher_embedding}, the student's {config.embedding_size})"
    return None


def initialise_student(
    teacher: PreTrainedModel, config: AlbertPlusConfig, *, method: Initialisation
) -> tuple[AlbertPlusForSequenceClassification, str]:
    """A student classifier and the name of the initialisation it got.

    Each block becomes the `average` (or the `first`) of the teacher's layers that it stands for: student layer l stands
    for the teacher's layers from l·M/L up to (l+1)·M/L. Embeddings narrower than the teacher's come from a truncated
    SVD (`factorise_embeddings`). The pooler and a classifier of the same size are copied. `auto` averages where the
    sizes allow it and starts at random otherwise.

    Raises:
        InvalidInput: a method other than `auto` and `random` for sizes that do not allow it.
    """
    student: Any = AlbertPlusForSequenceClassification(config)
    obstacle = can_initialise(teacher, config)
    if method == "random" or (method == "auto" and obstacle is not None):
        return student, "random" if obstacle is None else f"random: {obstacle}"
    if obstacle is not None:
        raise InvalidInput(
            f"--initialise {method} needs a teacher of the student's widths",
            got=obstacle,
            repair="use --initialise random",
        )
    chosen: Literal["average", "first"] = "first" if method == "first" else "average"
    source: Any = to_albert_plus(teacher)
    with torch.no_grad():
        _fill_embeddings(student, source)
        for kind, student_map, teacher_map in (
            ("attention", config.attention_map, source.config.attention_map),
            ("ffn", config.ffn_map, source.config.ffn_map),
        ):
            blocks = getattr(student.albert_plus.encoder, kind)
            teacher_blocks = getattr(source.albert_plus.encoder, kind)
            for block, layers in _layers_of_blocks(student_map, len(teacher_map)).items():
                sources = [teacher_blocks[teacher_map[layer]].state_dict() for layer in layers]
                blocks[block].load_state_dict(_combine(sources, chosen))
        student.albert_plus.pooler.load_state_dict(source.albert_plus.pooler.state_dict())
        if source.classifier.weight.shape == student.classifier.weight.shape:
            student.classifier.load_state_dict(source.classifier.state_dict())
    narrower = config.embedding_size < source.config.embedding_size
    return student, f"{chosen} of the teacher's layers" + (", embeddings by truncated SVD" if narrower else "")


def _layers_of_blocks(student_map: tuple[int, ...], teacher_layers: int) -> dict[int, list[int]]:
    """Teacher layers that each student block stands for."""
    depth = len(student_map)
    layers: dict[int, set[int]] = {block: set() for block in student_map}
    for layer, block in enumerate(student_map):
        begin = layer * teacher_layers // depth
        layers[block].update(range(begin, max((layer + 1) * teacher_layers // depth, begin + 1)))
    return {block: sorted(members) for block, members in layers.items()}


def _combine(states: list[dict[str, torch.Tensor]], method: Literal["average", "first"]) -> dict[str, torch.Tensor]:
    if method == "first":
        return states[0]
    return {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}


def _fill_embeddings(student: Any, source: Any) -> None:
    ours, theirs = student.albert_plus.embeddings, source.albert_plus.embeddings
    types = student.config.type_vocab_size
    tables = [
        theirs.word_embeddings.weight,
        theirs.position_embeddings.weight,
        theirs.token_type_embeddings.weight[:types],
    ]
    if student.config.embedding_size == source.config.embedding_size:
        ours.layer_norm.load_state_dict(theirs.layer_norm.state_dict())
        if ours.projection is not None:
            ours.projection.load_state_dict(theirs.projection.state_dict())
    else:
        tables, projection, bias = factorise_embeddings(
            tables, embedding_size=student.config.embedding_size, layer_norm=theirs.layer_norm
        )
        if theirs.projection is not None:
            bias = theirs.projection(bias)
            projection = theirs.projection.weight @ projection
        ours.projection.weight.copy_(projection)
        ours.projection.bias.copy_(bias)
    for table, values in zip(
        (ours.word_embeddings, ours.position_embeddings, ours.token_type_embeddings), tables, strict=True
    ):
        table.weight.copy_(values)


def factorise_embeddings(
    tables: list[torch.Tensor], *, embedding_size: int, layer_norm: torch.nn.LayerNorm
) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """Tables of width H -> tables of width E, a projection `[H, E]` and its bias `[H]`, with the LayerNorm moved to E.

    A LayerNorm over H removes the mean of a row x and scales it to the length √H, then applies γ and β. With the
    truncated SVD x - mean(x) ≈ V·u the LayerNorm over E scales u to the length √E instead, so that
    γ ⊙ √(H/E)·V and β as projection and bias restore what the wide one gave, as far as rank E and the mean of u allow.
    """
    stacked = torch.cat([table.detach().double() for table in tables])
    stacked = stacked - stacked.mean(dim=1, keepdim=True)
    hidden_size = stacked.shape[1]
    _, directions = torch.linalg.eigh(stacked.T @ stacked)
    basis_HE = directions[:, -embedding_size:].flip(1)
    narrow = (stacked @ basis_HE).float().split([table.shape[0] for table in tables])
    projection = layer_norm.weight[:, None] * basis_HE.float() * (hidden_size / embedding_size) ** 0.5
    return list(narrow), projection, layer_norm.bias.clone()


__all__ = ["Initialisation", "can_initialise", "factorise_embeddings", "initialise_student"]
