"""A model that computes in fp32 what its quantised graphs will: weights, tables and the inputs of products on their grids."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ...product_names import ProductNames, is_layer
from .rounding import Grid, activation_scale, round_activation, round_weight
from .scheme import Product, Scheme


class Calls:
    """Who calls, and what was rounded already, in one pass through a model."""

    def __init__(self, model: nn.Module):
        self._layers: list[str] = []
        self._names = ProductNames()
        self._rounded: dict[nn.Module, torch.Tensor] = {}
        self._hooks = [model.register_forward_pre_hook(self._begin)]
        for path, module in model.named_modules():
            if is_layer(path):
                self._hooks.append(module.register_forward_pre_hook(self._entering(path)))
                self._hooks.append(module.register_forward_hook(self._leave, always_call=True))

    def next(self, module: str) -> str:
        """The name of the product that a linear module is called for now."""
        return self._names.next([*self._layers, module])

    def rounded(self, module: Any) -> torch.Tensor:
        """A module's weight on its grid, rounded once a pass however many layers share it."""
        if module not in self._rounded:
            self._rounded[module] = round_weight(module.weight, module.grid)
        return self._rounded[module]

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _begin(self, *_: Any) -> None:
        self._names, self._layers, self._rounded = ProductNames(), [], {}

    def _entering(self, path: str) -> Any:
        return lambda *_: self._layers.append(path)

    def _leave(self, *_: Any) -> None:
        self._layers.pop()


class RoundedLinear(nn.Module):
    """A linear module, its weight and inputs rounded.

    Attributes:
        largest: magnitude of the input that is 127 steps, of every product it is called for. In training it follows the batches by an
            exponential moving average that the first one sets (Q8BERT, section 2.2). A shared block has one for each of its layers.
    """

    def __init__(
        self, linear: nn.Linear, grid: Grid, *, path: str, products: Sequence[str], calls: Calls, decay: float
    ):
        super().__init__()
        self.weight, self.bias, self.grid = linear.weight, linear.bias, grid
        self.path, self.calls, self.decay = path, calls, decay
        self.index = {name: index for index, name in enumerate(products)}
        self.largest = nn.Buffer(torch.zeros(len(products), device=linear.weight.device))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        largest = self.largest[self.index[self.calls.next(self.path)]]
        if self.training:
            self._follow(largest, hidden)
        rounded = round_activation(hidden, activation_scale(largest))
        return functional.linear(rounded, self.calls.rounded(self), self.bias)

    @torch.no_grad()
    def _follow(self, largest: torch.Tensor, hidden: torch.Tensor) -> None:
        low, high = hidden.aminmax()
        seen = torch.maximum(-low, high).to(largest.dtype)
        largest.copy_(torch.where(largest > 0, torch.lerp(seen, largest, self.decay), seen))


class RoundedEmbedding(nn.Module):
    """An embedding whose table is rounded."""

    def __init__(self, embedding: nn.Embedding, grid: Grid, *, calls: Calls):
        super().__init__()
        self.weight, self.padding_idx, self.grid, self.calls = embedding.weight, embedding.padding_idx, grid, calls

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return functional.embedding(ids, self.calls.rounded(self), self.padding_idx)


class Simulation:
    """A model under a scheme, until `remove`."""

    def __init__(
        self,
        model: Any,
        *,
        weights: Mapping[str, Grid] | None = None,
        others: Grid | None = None,
        decay: float = 0.9999,
    ):
        """
        Args:
            model: a classifier; modules that a plain call does not run stay as they are.
            weights: grids of linear modules by their paths.
            others: grid of the other linear modules, by default 8 bits with each row by itself.
            decay: of the moving averages of ranges.
        """
        self.model = model
        self._originals: dict[str, nn.Module] = {}
        self._linears: dict[str, RoundedLinear] = {}
        self._tables: dict[str, RoundedEmbedding] = {}
        self.calls = Calls(model)
        products = self._products()
        for path, module in list(model.named_modules()):
            rounded: nn.Module
            if path in products:
                grid = (weights or {}).get(path, others or Grid())
                rounded = self._linears[path] = RoundedLinear(
                    module, grid, path=path, products=products[path], calls=self.calls, decay=decay
                )
            elif isinstance(module, nn.Embedding):
                rounded = self._tables[path] = RoundedEmbedding(module, Grid(groups=1), calls=self.calls)
            else:
                continue
            self._originals[path] = module
            model.set_submodule(path, rounded.train(model.training))

    @classmethod
    def of(cls, model: Any, scheme: Scheme) -> "Simulation":
        """A model with the ranges that it was trained with."""
        simulation = cls(model, weights=scheme.weights)
        for module in simulation._linears.values():
            for name, index in module.index.items():
                module.largest[index] = scheme.products[name].largest
        return simulation

    def scheme(self) -> Scheme:
        """What was found so far."""
        return Scheme(
            weights={path: module.grid for path, module in self._linears.items()},
            tables={path: module.grid for path, module in self._tables.items()},
            products={
                name: Product(path, float(module.largest[index]))
                for path, module in self._linears.items()
                for name, index in module.index.items()
            },
        )

    def remove(self) -> None:
        """Leaves the model as it was, with the weights that it has now."""
        self.calls.remove()
        for path, module in self._originals.items():
            self.model.set_submodule(path, module.train(self.model.training))

    def _products(self) -> dict[str, list[str]]:
        """Every linear module that runs, with the names of the products that it is called for."""
        found: dict[str, list[str]] = {}

        def note(path: str) -> Any:
            return lambda *_: found.setdefault(path, []).append(self.calls.next(path))

        linears = {path: module for path, module in self.model.named_modules() if isinstance(module, nn.Linear)}
        hooks = [module.register_forward_pre_hook(note(path)) for path, module in linears.items()]
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            self.model(input_ids=torch.zeros((1, 2), dtype=torch.long, device=self.model.device))
        self.model.train(was_training)
        for hook in hooks:
            hook.remove()
        return found


__all__ = ["RoundedEmbedding", "RoundedLinear", "Simulation"]
