"""How narrow embeddings must be for a file to be as small as is asked."""

from collections.abc import Sequence
from typing import Any

from .shapes import Slimmed

_WIDTHS = (256, 128, 64)
# What biases, norms, scales and the graph itself add to the bytes of the weights.
_BESIDE = 1.03


def fits(shape: Slimmed, config: Any, *, max_bytes: float, width: int | None) -> bool:
    """Whether the file of a shape in int8 is not too large.

    Args:
        config: of the model that it is cut from.
        width: of its embeddings; None for that model's.
    """
    return _BESIDE * bytes_of(shape, config, width=width) <= max_bytes


def embedding_that_fits(shape: Slimmed, config: Any, *, max_bytes: float) -> int | None:
    """The widest embedding, of the teacher's own width, 256, 128 and 64, with which the file in int8 (a byte a weight) is not too large;
    the narrowest where none is."""
    widths = [None, *(width for width in _WIDTHS if width < config.embedding_size)]
    return next((width for width in widths if fits(shape, config, max_bytes=max_bytes, width=width)), widths[-1])


def bytes_of(shape: Slimmed, config: Any, *, width: int | None) -> float:
    """Bytes of the weights of a shape in int8, as they are stored: a block that layers share counts once, and biases and norms do not."""
    size = config.hidden_size
    embedding = width or config.embedding_size
    tables = (config.vocab_size + config.max_position_embeddings) * embedding
    projection = 0 if embedding == size else embedding * size
    heads = _stored(config.attention_heads, config.attention_map, layers=shape.layers, kept=shape.heads)
    columns = _stored(config.intermediate_sizes, config.ffn_map, layers=shape.layers, kept=shape.width)
    all_heads = (size // config.num_attention_heads) * heads
    if shape.rank is None:
        return tables + projection + 4 * size * all_heads + 2 * size * columns
    block = (4 * size * all_heads + 2 * size * columns) / shape.layers
    differences = shape.rank * (shape.layers * 6 * size + 4 * all_heads + 2 * columns)
    return tables + projection + block + differences


def _stored(sizes: Sequence[int], layer_map: Sequence[int], *, layers: int, kept: float) -> int:
    """What blocks have in all, after so many layers and this share of each stayed: a block that several layers share stays with any of them."""
    blocks = set(layer_map)
    of_layers = layers / len(layer_map) if len(blocks) == len(layer_map) else 1.0
    return max(1, round(of_layers * kept * sum(sizes[block] for block in blocks)))
