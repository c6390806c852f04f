"""How a model is quantised: the grid of every weight, and the range of every product's input. A JSON file beside the weights."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import InvalidInput
from ...files import read_json, write_json
from .rounding import BITS, Grid

SCHEME = "quantisation.json"
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
    """
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
        """
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


__all__ = ["SCHEME", "Product", "Scheme", "read_scheme"]
