"""Which matrices of a student and of its teacher are projected onto each other, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from ...configuration_albert_plus import AlbertPlusConfig
from ...conversion.families import CONVERTIBLE, FAMILIES
from ...errors import InvalidInput

# Module of a layer by the names of this encoder -> the axis along which blocks of the hidden width lie.
_MATRICES = {
    "attention.{a}.query": 0,
    "attention.{a}.key": 0,
    "attention.{a}.value": 0,
    "attention.{a}.output": 0,
    "ffn.{f}.intermediate": 0,
    "ffn.{f}.output": 1,
}


@dataclass(frozen=True)
class ParameterPairs:
    """Square matrices of a student's hidden width beside those of its teacher's.

    Attributes:
        student, teacher: as many of either; a shared block stands once for each of its layers.
        left_out: matrices, such as `ffn.intermediate`, that are no such blocks, or not as many in both models.
    """

    student: list[torch.Tensor]
    teacher: list[torch.Tensor]
    left_out: tuple[str, ...]


def parameter_pairs(student: PreTrainedModel, teacher: PreTrainedModel, layers: Sequence[int]) -> ParameterPairs:
    """The pairs of a layer map: attention's query, key, value and output, and the feed-forward network in blocks.

    Zhao et al. 2019, section 3, shared projections: one U and one V serve every pair, so all have to be of one shape.
    The two matrices of a feed-forward network with I = n·H are n blocks `[H, H]` each.

    Args:
        layers: the teacher's layer, from 1, for each of the student's.

    Raises:
        InvalidInput: an architecture whose matrices are not known, or none that can be paired.
    """
    ours, theirs = layer_matrices(student), layer_matrices(teacher)
    widths: list[int] = [student.config.hidden_size, teacher.config.hidden_size]
    pairs = ParameterPairs([], [], _left_out(ours[0], theirs[0], widths))
    for own, layer in zip(ours, layers, strict=True):
        for name, axis in _MATRICES.items():
            if _plain(name) not in pairs.left_out:
                pairs.student.extend(own[name].split(widths[0], dim=axis))
                pairs.teacher.extend(theirs[layer - 1][name].split(widths[1], dim=axis))
    if not pairs.student:
        raise InvalidInput(
            "shared projections need matrices of the hidden width in student and teacher",
            got=f"none; left out: {', '.join(pairs.left_out)}",
            repair="use a student without a bottleneck, or --set projection_weight=0",
        )
    return pairs


def layer_matrices(model: PreTrainedModel) -> list[dict[str, torch.Tensor]]:
    """Every layer's matrices `[out, in]`, the model's own and no copies, in the order in which the layers run."""
    config: Any = model.config
    if config.model_type not in CONVERTIBLE:
        raise InvalidInput(
            f"shared projections know the matrices of {', '.join(CONVERTIBLE)}",
            got=config.model_type,
            repair="use a teacher of one of those, or --set projection_weight=0",
        )
    encoder: Any = model.base_model
    return [
        {name: encoder.get_submodule(path).weight for name, path in names.items()} for names in _module_names(config)
    ]


def _module_names(config: Any) -> list[dict[str, str]]:
    if config.model_type == AlbertPlusConfig.model_type:
        blocks = zip(config.attention_map, config.ffn_map, strict=True)
        return [{name: f"encoder.{name.format(a=a, f=f)}" for name in _MATRICES} for a, f in blocks]
    family = FAMILIES[config.model_type]
    theirs = {ours: name for name, ours in family.layer.items()}
    depth = config.num_hidden_layers * getattr(config, "inner_group_num", 1)
    return [
        {name: f"{family.layer_name(config, layer)}.{theirs[name]}" for name in _MATRICES} for layer in range(depth)
    ]


def _left_out(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], widths: list[int]) -> tuple[str, ...]:
    blocks = {
        name: [_blocks(matrices[name], axis, width) for matrices, width in zip((ours, theirs), widths, strict=True)]
        for name, axis in _MATRICES.items()
    }
    return tuple(_plain(name) for name, (own, other) in blocks.items() if own != other or own == 0)


def _blocks(matrix: torch.Tensor, axis: int, width: int) -> int:
    """The number of blocks `[width, width]`, 0 where the matrix is none."""
    whole = matrix.shape[1 - axis] == width and matrix.shape[axis] % width == 0
    return matrix.shape[axis] // width if whole else 0


def _plain(name: str) -> str:
    return name.replace(".{a}", "").replace(".{f}", "")
