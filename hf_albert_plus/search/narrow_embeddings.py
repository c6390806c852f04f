"""How narrow embeddings must be for a file to be as small as is asked."""

from typing import Any

from .shapes import Slimmed, Work

_WIDTHS = (256, 128, 64)


def embedding_that_fits(shape: Slimmed, config: Any, *, max_bytes: float) -> int | None:
    """The widest embedding, of the teacher's own width, 256, 128 and 64, with which the file in int8 (a byte a weight) is not too large;
    the narrowest where none is."""
    widths = [None, *(width for width in _WIDTHS if width < config.embedding_size)]
    return next((width for width in widths if bytes_of(shape, config, width=width) <= max_bytes), widths[-1])


def bytes_of(shape: Slimmed, config: Any, *, width: int | None) -> float:
    """Bytes of the weights of a shape in int8, its biases and norms left out."""
    work = Work.of(config).slimmed(shape)
    size = config.hidden_size
    embedding = width or config.embedding_size
    tables = (config.vocab_size + config.max_position_embeddings) * embedding
    projection = 0 if embedding == size else embedding * size
    all_heads, columns = (size // config.num_attention_heads) * work.heads, work.columns
    if shape.rank is None:
        return tables + projection + 4 * size * all_heads + 2 * size * columns
    block = (4 * size * all_heads + 2 * size * columns) / shape.layers
    differences = shape.rank * (shape.layers * 6 * size + 4 * all_heads + 2 * columns)
    return tables + projection + block + differences
