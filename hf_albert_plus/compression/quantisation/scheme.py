"""How a model is quantised: the grid of every weight, and the range of every product's input. A JSON file beside the weights."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import InvalidInput
from ...files import read_json, write_json
from .rounding import Grid

SCHEME = "quantisation.json"


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
    content = read_json(path, what="how a model is quantised")
    try:
        return _scheme(content)
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path} must say how the model is quantised", got=repr(error), repair="train it again: albert-plus qat"
        ) from None


def _scheme(content: dict[str, Any]) -> Scheme:
    return Scheme(
        weights={name: Grid(**grid) for name, grid in content["weights"].items()},
        tables={name: Grid(**grid) for name, grid in content["tables"].items()},
        products={name: Product(**product) for name, product in content["products"].items()},
    )


__all__ = ["SCHEME", "Product", "Scheme", "read_scheme"]
