"""What a weight product is called: by its layer and module, as in `encoder.layers.3.attention.0.query`. A module that is called
more than once without a layer of its own gets the number of the call: `pooler#2`.

Graphs, errors, records and the ranges of activations all speak of products by these names.
"""

import re
from collections import Counter
from collections.abc import Sequence

_LAYER = re.compile(r"\.layers?\.\d+$")


def is_layer(path: str) -> bool:
    """Whether a module is a layer of an encoder."""
    return _LAYER.search(path) is not None


class ProductNames:
    """Names the products of one pass through a model, in the order in which they run."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()

    def next(self, modules: Sequence[str]) -> str:
        """The name of the next product.

        Args:
            modules: paths of the modules that it runs in, outermost first, its own last.
        """
        leaf = modules[-1]
        layer = next((path for path in modules if is_layer(path)), "")
        name = leaf if not layer or leaf.startswith(f"{layer}.") else f"{layer}.{_below(leaf, layer)}"
        self._calls[name] += 1
        return name if self._calls[name] == 1 else f"{name}#{self._calls[name]}"


def _below(leaf: str, layer: str) -> str:
    """The part of a module's path past the path that holds the layers: `…encoder.ffn.0.output` -> `ffn.0.output`."""
    holder = layer.rpartition(".")[0].rpartition(".")[0]
    return leaf.removeprefix(f"{holder}.")


__all__ = ["ProductNames", "is_layer"]
