"""A model that computes in fp32 what its quantised graphs will: weights, tables and the inputs of products on their grids."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ...errors import InvalidInput
from ...records import processes
from ...records.files import SCHEME
from ..settings import Ranges
from .rounding import Grid, LevelSteps, activation_levels, activation_scale, round_weight, weight_levels
from .scheme import Product, ProductNames, Scheme, is_layer


class RoundingPass:
    """The state of one pass through a model: which layer calls, and which weights were rounded already."""

    def __init__(self, model: nn.Module):
        self._layers: list[str] = []
        self._names = ProductNames()
        self._levels: dict[nn.Module, tuple[torch.Tensor, LevelSteps]] = {}
        self._hooks = [model.register_forward_pre_hook(self._begin)]
        for path, module in model.named_modules():
            if is_layer(path):
                self._hooks.append(module.register_forward_pre_hook(self._entering(path)))
                self._hooks.append(module.register_forward_hook(self._leave, always_call=True))

    def next(self, module: str) -> str:
        """The name of the product that a linear module is called for now."""
        return self._names.next([*self._layers, module])

    def levels(self, module: Any) -> tuple[torch.Tensor, LevelSteps]:
        """The levels of a module's weight and what they stand for, computed once a pass however many layers share it."""
        if module not in self._levels:
            self._levels[module] = weight_levels(module.weight, module.grid)
        return self._levels[module]

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _begin(self, *_: Any) -> None:
        self._names, self._layers, self._levels = ProductNames(), [], {}

    def _entering(self, path: str) -> Any:
        return lambda *_: self._layers.append(path)

    def _leave(self, *_: Any) -> None:
        self._layers.pop()


@dataclass(frozen=True)
class MovingAverage:
    """An exponential moving average of what batches have, and how it begins.

    Attributes:
        ranges: `corrected` weighs each batch by decay^age, from the first batch on (Adam's correction of its bias). `released` begins at
            what the first batch has, as nlp-architect's class does: with a decay of 0.9999 that batch is half of the average for 6,931
            more.
    """

    decay: float = 0.9999
    ranges: Ranges = "corrected"

    def share(self, batches: torch.Tensor) -> torch.Tensor:
        """What the last batch counts, of so many."""
        new = 1 - self.decay
        if self.ranges == "released":
            return torch.where(batches <= 1, 1.0, new)
        return new / -torch.expm1(batches * math.log(self.decay)) if self.decay else torch.ones_like(batches)


class FakeQuantisedLinear(nn.Module):
    """A linear module, its weight and inputs rounded.

    Attributes:
        amax: magnitude of the input that is 127 steps, of every product it is called for. In training it follows the batches by an
            exponential moving average (Q8BERT, section 2.2). A shared block has one for each of its layers.
        seen: batches that each of them followed.
    """

    def __init__(
        self,
        linear: nn.Linear,
        grid: Grid,
        *,
        path: str,
        products: Sequence[str],
        calls: RoundingPass,
        average: "MovingAverage",
    ):
        super().__init__()
        self.weight, self.bias, self.grid = linear.weight, linear.bias, grid
        self.path, self.calls, self.average = path, calls, average
        self.index = {name: index for index, name in enumerate(products)}
        self.plain: set[int] = set()
        self.amax = nn.Buffer(torch.zeros(len(products), device=linear.weight.device))
        self.seen = nn.Buffer(torch.zeros(len(products), device=linear.weight.device))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        number = self.index[self.calls.next(self.path)]
        if number in self.plain:
            return functional.linear(hidden, self.weight, self.bias)
        if self.training:
            self._follow(number, hidden)
        # Levels are whole numbers that bf16 holds too: an autocast multiplies the very ones that int8 does.
        scale, (level_OI, steps) = activation_scale(self.amax[number]), self.calls.levels(self)
        product = functional.linear(activation_levels(hidden, scale), level_OI) * (scale * steps.scale_O1[:, 0])
        return product if self.bias is None else product + self.bias

    @torch.no_grad()
    def _follow(self, number: int, hidden: torch.Tensor) -> None:
        low, high = hidden.aminmax()
        seen = torch.maximum(-low, high).to(self.amax.dtype)
        if processes.count() > 1:
            # What all of them see together: a batch has one range, however many processes share it.
            torch.distributed.all_reduce(seen, op=torch.distributed.ReduceOp.MAX)
        self.seen[number] += 1
        self.amax[number] += self.average.share(self.seen[number]) * (seen - self.amax[number])


class FakeQuantisedEmbedding(nn.Module):
    """An embedding whose table is rounded."""

    def __init__(self, embedding: nn.Embedding, grid: Grid):
        super().__init__()
        self.weight, self.padding_idx, self.grid = embedding.weight, embedding.padding_idx, grid

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return functional.embedding(ids, round_weight(self.weight, self.grid), self.padding_idx)


class FakeQuantisation:
    """A model whose weights, tables and inputs are rounded, until `remove`."""

    def __init__(
        self,
        model: Any,
        *,
        weights: Mapping[str, Grid] | None = None,
        others: Grid | None = None,
        decay: float = 0.9999,
        ranges: Ranges = "corrected",
    ):
        """Puts rounding modules in the place of the model's own.

        Args:
            model: a classifier; modules that a plain call does not run stay as they are.
            weights: grids of linear modules by their paths.
            others: grid of the other linear modules, by default 8 bits with each row by itself.
            decay, ranges: of the moving averages of ranges (`MovingAverage`).
        """
        self.model = model
        self._originals: dict[str, nn.Module] = {}
        self._linears: dict[str, FakeQuantisedLinear] = {}
        self._tables: dict[str, FakeQuantisedEmbedding] = {}
        self.calls = RoundingPass(model)
        products = self._products()
        for path, module in list(model.named_modules()):
            rounded: nn.Module
            if path in products:
                grid = (weights or {}).get(path, others or Grid())
                rounded = self._linears[path] = FakeQuantisedLinear(
                    module,
                    grid,
                    path=path,
                    products=products[path],
                    calls=self.calls,
                    average=MovingAverage(decay, ranges),
                )
            elif isinstance(module, nn.Embedding):
                rounded = self._tables[path] = FakeQuantisedEmbedding(module, Grid(groups=1))
            else:
                continue
            self._originals[path] = module
            model.set_submodule(path, rounded.train(model.training))

    @classmethod
    def of(cls, model: Any, scheme: Scheme, *, keep_fp32: Collection[str] = ()) -> "FakeQuantisation":
        """A model with the ranges that it was trained with.

        Args:
            keep_fp32: names of products that are not rounded.

        Raises:
            InvalidInput: a scheme of another model.
        """
        fake_quantisation = cls(model, weights=scheme.weights)
        products = {name for module in fake_quantisation._linears.values() for name in module.index}
        others = products ^ set(scheme.products) or set(fake_quantisation._linears) ^ set(scheme.weights)
        if others:
            other = sorted(others)[0]
            raise InvalidInput(
                f"{SCHEME} must have a range for every product of the model, and for no other",
                got=f"{other} in one of them",
                repair="train it again: albert-plus qat",
            )
        for module in fake_quantisation._linears.values():
            for name, index in module.index.items():
                module.amax[index] = scheme.products[name].amax
                if name in keep_fp32:
                    module.plain.add(index)
        return fake_quantisation

    def scheme(self) -> Scheme:
        """The grids of the model, with the ranges as they are now."""
        return Scheme(
            weights={path: module.grid for path, module in self._linears.items()},
            tables={path: module.grid for path, module in self._tables.items()},
            products={
                name: Product(path, float(module.amax[index]))
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
        products: dict[str, list[str]] = {}

        def note(path: str) -> Any:
            return lambda *_: products.setdefault(path, []).append(self.calls.next(path))

        linears = {path: module for path, module in self.model.named_modules() if isinstance(module, nn.Linear)}
        hooks = [module.register_forward_pre_hook(note(path)) for path, module in linears.items()]
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            self.model(input_ids=torch.zeros((1, 2), dtype=torch.long, device=self.model.device))
        self.model.train(was_training)
        for hook in hooks:
            hook.remove()
        return products
