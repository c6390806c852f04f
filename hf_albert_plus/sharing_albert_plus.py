"""Sharing maps: which block each layer runs."""

from .errors_albert_plus import InvalidInput

SHARING_PATTERNS = ("sequence", "cycle", "reversed_cycle")


def resolve_sharing(sharing: str | int | list[int], *, num_hidden_layers: int, name: str) -> tuple[int, ...]:
    """Block of every layer under a sharing value.

    Args:
        sharing: `"all"` (one block), `"none"` (a block a layer), a number of groups G, the block of each layer, or a
            pattern with its number of blocks M: `"sequence:M"`, `"cycle:M"`, `"reversed_cycle:M"` (Lessons on Parameter
            Sharing across Layers in Transformers, section 3).
        num_hidden_layers: L, the number of layers.
        name: the config field the value comes from, for the error.

    Returns:
        L block ids. Among G groups layer i reads block `i * G // L`, in integers: the float formulas of the 2019 code
        and of transformers' ALBERT put some layers in the wrong group (layer 15 of 22 with 22 groups, for one).

    Raises:
        InvalidInput: the value does not describe L layers.
    """
    if sharing == "all":
        return (0,) * num_hidden_layers
    if sharing == "none":
        return tuple(range(num_hidden_layers))
    if isinstance(sharing, str):
        return _resolve_pattern(sharing, num_hidden_layers=num_hidden_layers, name=name)
    if isinstance(sharing, int):
        _check_blocks(sharing, num_hidden_layers=num_hidden_layers, what=f"{name} as a number of groups")
        return tuple(layer * sharing // num_hidden_layers for layer in range(num_hidden_layers))
    if len(sharing) != num_hidden_layers:
        raise InvalidInput(
            f"{name} as a list must name one block for each of the {num_hidden_layers} layers",
            got=f"{len(sharing)} entries: {sharing}",
            repair=f"give {num_hidden_layers} entries or change num_hidden_layers",
        )
    blocks = sorted(set(sharing))
    if blocks != list(range(len(blocks))):
        raise InvalidInput(
            f"{name} must number its blocks 0, 1, 2, … without a gap",
            got=f"the blocks {blocks}",
            repair=f"renumber them 0 to {len(blocks) - 1}",
        )
    return tuple(sharing)


def _resolve_pattern(sharing: str, *, num_hidden_layers: int, name: str) -> tuple[int, ...]:
    pattern, _, number = sharing.partition(":")
    if pattern not in SHARING_PATTERNS or not number.isdecimal():
        raise InvalidInput(
            f"{name} must be 'all', 'none', a number of groups, a list of block ids or one of "
            f"{', '.join(f'{known}:M' for known in SHARING_PATTERNS)} with M blocks",
            got=repr(sharing),
            repair="use 'all'",
        )
    blocks = int(number)
    _check_blocks(blocks, num_hidden_layers=num_hidden_layers, what=f"the number of blocks in {name}={sharing!r}")
    layers = range(num_hidden_layers)
    if pattern == "sequence":
        return tuple(min(layer // (num_hidden_layers // blocks), blocks - 1) for layer in layers)
    cycle = [layer % blocks for layer in layers]
    if pattern == "reversed_cycle":
        last = max(blocks, (-(-num_hidden_layers // blocks) - 1) * blocks)
        cycle[last:] = [blocks - 1 - block for block in cycle[last:]]
    return tuple(cycle)


def _check_blocks(blocks: int, *, num_hidden_layers: int, what: str) -> None:
    if not 1 <= blocks <= num_hidden_layers:
        raise InvalidInput(
            f"{what} must lie between 1 and num_hidden_layers ({num_hidden_layers})",
            got=blocks,
            repair=f"use 1 for full sharing or {num_hidden_layers} for none",
        )
