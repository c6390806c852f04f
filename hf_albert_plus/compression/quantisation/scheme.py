"""The scheme of a quantised model: the grid of every weight, and the range of every product's input, in a JSON file beside the weights.

A weight product is named by its layer and module, as in `encoder.layers.3.attention.0.query`. A module that is called more than
once without a layer of its own gets the number of the call: `pooler#2`. Graphs, errors, records and the ranges of activations
all speak of products by these names.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import InvalidInput
from ...records.files import SCHEME, read_json, write_json
from ..settings import BITS
from .rounding import Grid

_AGAIN = "train it again: albert-plus qat"


@dataclass(frozen=True)
class Product:
    """One call of a linear module.

    Attributes:
        module: path of the module, whose weight it reads.
        amax: magnitude of its input that is 127 steps.
    """

    module: str
    amax: float


@dataclass(frozen=True)
class Scheme:
    """The grids and ranges of a model.

    Attributes:
        weights: path of a linear module -> its grid.
        tables: path of an embedding -> its grid.
        products: name of a product (`product_names`) -> what it is.
    """

    weights: Mapping[str, Grid]
    tables: Mapping[str, Grid]
    products: Mapping[str, Product]

    @property
    def ranges(self) -> dict[str, float]:
        return {name: product.amax for name, product in self.products.items()}

    def grid_of(self, product: str) -> Grid:
        return self.weights[self.products[product].module]

    @property
    def is_int8(self) -> bool:
        """Whether int8 products can run it: 8 bits everywhere."""
        return all(grid.bits == 8 for grid in self.weights.values())

    def check_int8(self) -> None:
        """Refuses a scheme of fewer bits.

        Raises:
            InvalidInput: int8 products cannot run it.
        """
        if not self.is_int8:
            bits = sorted({grid.bits for grid in self.weights.values()})
            raise InvalidInput(
                "int8 graphs hold weights of 8 bits",
                got=f"weights of {' and '.join(map(str, bits))}",
                repair="export onnx-nbits",
            )

    def write(self, directory: Path) -> None:
        write_json(directory / SCHEME, asdict(self))


def read_scheme(directory: str | Path) -> Scheme | None:
    """The scheme that a directory was trained with, None without one.

    Raises:
        InvalidInput: a file that is none.
    """
    path = Path(directory) / SCHEME
    if not path.is_file():
        return None
    scheme: Scheme = read_json(path, what=str(path), shape=Scheme, repair=_AGAIN)
    for name, grid in {**scheme.weights, **scheme.tables}.items():
        if grid.bits not in BITS or (grid.groups is not None and grid.groups < 1):
            known = ", ".join(map(str, BITS))
            raise InvalidInput(
                f"{path} must give every weight {known} bits and groups of rows", got=f"{grid} of {name}", repair=_AGAIN
            )
    for name, product in scheme.products.items():
        if product.module not in scheme.weights or not 0 <= product.amax < math.inf:
            raise InvalidInput(
                f"{path} must give every product a weight and a range from 0", got=f"{product} of {name}", repair=_AGAIN
            )
    return scheme


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
