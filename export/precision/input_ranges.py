"""The ranges of the inputs of products, found on examples: where 8 bits lose least of what the products give.

A range belongs to a tensor, not to a weight: a block that several layers share has one for each of its calls. Where a few channels reach
far beyond the others, one of two things is done to them, the same for all that run a shared block, so that its weight stays stored once:
an input is divided by channel, and the rows of its weights multiplied by the same (SmoothQuant, eq. 3 and 4); or, where a product is
wider in its inputs than in its outputs, those channels are multiplied in fp32 (LLM.int8, section 3.2).

R sampled tokens, I inputs and O outputs of a product, K channels in fp32.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import onnx
import onnx_ir
import torch

from hf_albert_plus.compression.quantisation.rounding import Grid, round_weight
from hf_albert_plus.engines.onnx_session import open_session
from hf_albert_plus.export.graph.rewrites import fold_weight_transposes
from hf_albert_plus.export.precision.products import count_products
from hf_albert_plus.records.progress import track

Feed = Mapping[str, numpy.ndarray]

# Tokens of an example that are looked at, its first and its last among them.
_TOKENS = 8
# Parts that values are counted in, and bounds that are tried at each end of a range, down to the narrowest.
_BINS, _BOUNDS, _NARROWEST = 2048, 48, 0.1
LEVELS = 255
# Shares of the spread that divisors take from an input and give to its weights.
_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
# How many channels may stay in fp32.
_CHANNELS = (1, 2, 4)
# Either costs a pass over a tensor: it must lower the squared error to this share.
_WORTH = 0.4


@dataclass(frozen=True, eq=False)
class Outliers:
    """What is done to channels that reach far beyond the others.

    Attributes:
        divisor_I: by what the input is divided, and the rows of its weights multiplied; None for nothing.
        channels_K: numbers of the channels that are multiplied in fp32; None for none.
    """

    divisor_I: torch.Tensor | None = None
    channels_K: torch.Tensor | None = None

    def of_input(self, value_RI: torch.Tensor) -> torch.Tensor:
        """What is rounded of an input."""
        return value_RI if self.divisor_I is None else value_RI / self.divisor_I

    def of_weight(self, weight_IO: torch.Tensor) -> torch.Tensor:
        """What is rounded of its weight."""
        if self.channels_K is not None:
            return weight_IO.index_fill(0, self.channels_K, 0)
        return weight_IO if self.divisor_I is None else weight_IO * self.divisor_I[:, None]


NO_OUTLIERS = Outliers()


@dataclass(frozen=True, eq=False)
class Range:
    """The values that 8 bits reach from and to, 0 among them."""

    low: float
    high: float
    outliers: Outliers = NO_OUTLIERS

    @property
    def scale(self) -> float:
        return (self.high - self.low) / LEVELS or 1.0

    @property
    def symmetric_scale(self) -> float:
        """Of levels from -127 to 127 that reach the further end."""
        return max(-self.low, self.high) / (LEVELS // 2) or 1.0

    @property
    def zero(self) -> int:
        """The level of 0."""
        return min(max(round(-self.low / self.scale), 0), LEVELS)


@dataclass
class _Input:
    """A tensor that products read, and the weights `[I, O]` that they multiply it by, by their names."""

    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    tokens: list[numpy.ndarray] = field(default_factory=list)

    def add(self, values: numpy.ndarray) -> None:
        """Keeps tokens of an example, `[…, I]`."""
        rows = values.reshape(-1, values.shape[-1])
        self.tokens.append(rows[numpy.unique(numpy.linspace(0, len(rows) - 1, _TOKENS).astype(int))])

    def values(self) -> torch.Tensor:
        """The tokens, `[R, I]`."""
        return torch.from_numpy(numpy.concatenate(self.tokens))


def find_ranges(graph: Path, feeds: Sequence[Feed]) -> dict[str, Range]:
    """The range of every weight product's input in an fp32 graph, by the product's name.

    Args:
        feeds: the examples, without padding, as arrays by the graph's inputs.
    """
    model = onnx_ir.load(graph)
    fold_weight_transposes(model, copy_tied=True)
    proto = onnx_ir.to_proto(model)
    del proto.graph.value_info[:]
    names = set(count_products(proto.graph).fp32)
    stored = {tensor.name: tensor for tensor in proto.graph.initializer}
    inputs: dict[str, _Input] = {}
    products: dict[str, str] = {}
    weights: dict[str, torch.Tensor] = {}
    for node in proto.graph.node:
        name, weight = node.name or node.output[0], node.input[1] if len(node.input) > 1 else ""
        if name in names and weight in stored:
            weights.setdefault(weight, torch.from_numpy(onnx.numpy_helper.to_array(stored[weight]).copy()))
            inputs.setdefault(node.input[0], _Input()).weights[weight] = weights[weight]
            products[name] = node.input[0]
    if not inputs:
        return {}
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in inputs)
    session = open_session(proto.SerializeToString())
    read = [port.name for port in session.get_inputs()]
    for feed in track(feeds, total=len(feeds), description="inputs of the products"):
        outputs = session.run(list(inputs), {name: feed[name] for name in read})
        for seen, values in zip(inputs.values(), outputs, strict=True):
            seen.add(values)
    ranges: dict[str, Range] = {}
    groups = list(_tied(inputs))
    for together in track(groups, total=len(groups), description="ranges"):
        ranges.update(_ranges_of({name: inputs[name] for name in together}))
    return {product: ranges[name] for product, name in products.items()}


def _tied(inputs: Mapping[str, _Input]) -> Iterator[list[str]]:
    """Groups of inputs that read a weight in common, directly or by way of others."""
    rest = dict(inputs)
    while rest:
        name, first = next(iter(rest.items()))
        del rest[name]
        group, weights = [name], set(first.weights)
        while more := [other for other, input_ in rest.items() if weights & set(input_.weights)]:
            for other in more:
                weights |= set(rest.pop(other).weights)
            group += more
        yield group


@dataclass
class _Trial:
    """One way to treat outliers, with the ranges that it gives and the squared error of all products over the square of what they give.

    Attributes:
        rounded: what the levels of each weight stand for.
    """

    outliers: Outliers
    rounded: dict[str, torch.Tensor]
    ranges: dict[str, Range] = field(default_factory=dict)
    error: float = 0.0

    @classmethod
    def of(cls, outliers: Outliers, weights: Mapping[str, torch.Tensor]) -> "_Trial":
        rounded = {name: round_weight(outliers.of_weight(weight_IO).T, Grid()).T for name, weight_IO in weights.items()}
        return cls(outliers, rounded)

    def add(self, name: str, input_: _Input, value_RI: torch.Tensor, expected: Mapping[str, torch.Tensor]) -> None:
        """Finds the range of an input, and counts what its products lose.

        Args:
            expected: what the products give in fp32, `[R, O]`, by their weights.
        """
        divided_RI, channels_K = self.outliers.of_input(value_RI), self.outliers.channels_K
        matter_I = torch.stack([self.rounded[weight].square().sum(1) for weight in input_.weights]).sum(0)
        range_ = self.ranges[name] = _best_range(divided_RI, matter_I, self.outliers)
        level_RI = (divided_RI / range_.scale + range_.zero).round().clamp(0, LEVELS)
        rounded_RI = (level_RI - range_.zero) * range_.scale
        for weight, weight_IO in input_.weights.items():
            given_RO = rounded_RI @ self.rounded[weight]
            if channels_K is not None:
                given_RO += value_RI[:, channels_K] @ weight_IO[channels_K]
            lost = (given_RO - expected[weight]).square().sum() / expected[weight].square().sum().clamp(min=1e-30)
            self.error += float(lost)


def _ranges_of(inputs: Mapping[str, _Input]) -> dict[str, Range]:
    """The ranges of inputs that share what is done to their outliers, with those that lose least."""
    weights = {name: weight for input_ in inputs.values() for name, weight in input_.weights.items()}
    is_wide = all(weight_IO.shape[0] > weight_IO.shape[1] for weight_IO in weights.values())
    largest_I = torch.stack([input_.values().abs().amax(0) for input_ in inputs.values()]).amax(0)
    ways = _channels(largest_I) if is_wide else _divisors(largest_I, weights)
    plain, *others = trials = [_Trial.of(outliers, weights) for outliers in (NO_OUTLIERS, *ways)]
    for name, input_ in inputs.items():
        value_RI = input_.values()
        expected = {weight: value_RI @ weight_IO for weight, weight_IO in input_.weights.items()}
        for trial in trials:
            trial.add(name, input_, value_RI, expected)
    best = min(others, key=lambda trial: trial.error)
    return best.ranges if best.error < _WORTH * plain.error else plain.ranges


def _divisors(largest_I: torch.Tensor, weights: Mapping[str, torch.Tensor]) -> Iterator[Outliers]:
    """SmoothQuant's divisors with different shares of the spread, 1 in the geometric mean."""
    input_I = largest_I.clamp(min=1e-5)
    weight_I = torch.stack([weight_IO.abs().amax(1) for weight_IO in weights.values()]).amax(0).clamp(min=1e-5)
    for share in _SHARES:
        log_I = share * input_I.log() - (1 - share) * weight_I.log()
        yield Outliers(divisor_I=(log_I - log_I.mean()).exp())


def _channels(largest_I: torch.Tensor) -> Iterator[Outliers]:
    """The few channels whose values reach furthest, in several numbers of them."""
    for count in _CHANNELS:
        yield Outliers(channels_K=largest_I.topk(min(count, len(largest_I))).indices.sort().values)


def _best_range(value_RI: torch.Tensor, matter_I: torch.Tensor, outliers: Outliers) -> Range:
    """The range with the least squared error where an error in each channel counts as much as it matters: narrow ones cut off what lies
    outside, wide ones have far steps."""
    seen_RI = value_RI[:, matter_I > 0]
    low, high = (min(0.0, float(seen_RI.min())), max(0.0, float(seen_RI.max()))) if seen_RI.numel() else (0.0, 0.0)
    bins_RI = ((seen_RI - low) * ((_BINS - 1) / max(high - low, 1e-30))).long()
    counts = torch.zeros(_BINS, dtype=torch.float64)
    counts.scatter_add_(0, bins_RI.flatten(), matter_I[matter_I > 0].double().expand_as(seen_RI).flatten())
    value = torch.linspace(low, high, _BINS, dtype=torch.float64)
    shares = torch.linspace(1, _NARROWEST, _BOUNDS, dtype=torch.float64)
    below = torch.stack([counts @ (value - share * low).clamp(max=0) ** 2 for share in shares])
    above = torch.stack([counts @ (value - share * high).clamp(min=0) ** 2 for share in shares])
    width = shares * high - (shares * low)[:, None]
    error = below[:, None] + above + counts.sum() * (width / LEVELS) ** 2 / 12
    lower, upper = divmod(int(error.argmin()), _BOUNDS)
    return Range(float(shares[lower] * low), float(shares[upper] * high), outliers)
