"""Whether an export computes what its model computes: the same inputs go through torch and the artefact, and every output is compared."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import PreTrainedModel

from ..compression.exits.criteria import Criterion, run_with_exits
from ..errors import ParityError
from ..heads import gives_labels
from ..model_inputs import input_names, longest_input
from ..random_inputs import Tensors, random_inputs, with_choices
from .classifier_config import answer_rule_of
from .engine import Engine
from .invariance import count_changed
from .onnx_session import open_session
from .text_answers import Decide

# Largest difference of an output, values beyond 1 relative to the largest. What is computed in int8 is held to the
# direction of its outputs instead, and by its score.
TOLERANCES = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 5e-2}
LEAST_COSINE = 0.9
# Of a graph to the model with the same roundings, where an input now and then lies a step further: direction, and size.
AS_TRAINED = "as trained"
_LEAST_COSINES = {AS_TRAINED: 0.999}
_LARGEST_STEPS = 0.1
# Of its predictions, one in so many may be another one.
_PREDICTIONS = 1000
_MORE_BITS = (
    "train it with more bits or longer (albert-plus qat): with these, a step of rounding decides what it answers"
)
# Batch and length of the random inputs: one token, odd lengths, padding; never the traced shape.
_SHAPES = ((1, 1), (3, 7), (2, 33), (5, 64))
# Real ones, for a tokenizer: short, long, a pair, punctuation, another script, one word.
_TEXTS: tuple[str | tuple[str, str], ...] = (
    "The film is a quiet, patient study of people who have run out of things to say.",
    "No.",
    ("How do I renew my passport?", "Where can an expired passport be renewed by post?"),
    "It wasn't bad; it wasn't good, either - and at 2h47 it was far too long (for me, at least)!",
    ("A man is playing a guitar on stage.", "Nobody is making music."),
    "Ein Café in Zürich, 東京の天気, and a résumé: 100% mixed.",
)


@dataclass(frozen=True)
class Case:
    """Named inputs, and what they are."""

    what: str
    tensors: Tensors


@dataclass(frozen=True)
class Difference:
    """How far one output of an artefact lies from the model's.

    Attributes:
        max_abs: largest difference.
        scaled: the same, divided by the largest value of the output where that exceeds 1.
        cosine: between all of its values and the model's.
        inputs: what the largest difference was on.
    """

    output: str
    max_abs: float
    scaled: float
    cosine: float
    inputs: str


@dataclass(frozen=True)
class Parity:
    """How far the outputs of an artefact lie from the model's, once they are within its precision's tolerance.

    Attributes:
        parity: of every output.
    """

    max_abs_difference: float
    least_cosine: float
    parity: tuple[Difference, ...]


@dataclass(frozen=True)
class ExitsParity(Parity):
    """The same of a graph with exits: it counts the rows that leave at the same layer as in torch, and compares their logits."""

    rows_compared: int
    rows_that_leave_alike: int


@dataclass(frozen=True)
class Agreement:
    """How far the predictions of two models lie apart on real examples."""

    predictions: int
    max_abs_difference: float


@dataclass(frozen=True)
class ClassAgreement(Agreement):
    """How often two classifiers predict the same class, or the same set of several labels."""

    same: int


def cases(model: PreTrainedModel, tokenizer: Any = None) -> list[Case]:
    """Random inputs of several shapes up to the longest, and real texts and pairs where there is a tokenizer."""
    longest = longest_input(model.config)
    shapes = [(batch, min(length, longest)) for batch, length in _SHAPES] + [(1, longest)]
    return [*random_cases(model, shapes), *([] if tokenizer is None else _real_cases(model, tokenizer))]


def random_cases(model: PreTrainedModel, shapes: Iterable[tuple[int, int]]) -> list[Case]:
    """Random inputs of these shapes, batch and length, each once."""
    return [
        Case(f"{batch} random sequences of up to {length} tokens", random_inputs(model, batch=batch, length=length))
        for batch, length in dict.fromkeys(shapes)
    ]


def _real_cases(model: PreTrainedModel, tokenizer: Any) -> list[Case]:
    names = input_names(model.config)
    longest = longest_input(model.config)
    real = []
    for what, texts in (
        ("real sentences", [text for text in _TEXTS if isinstance(text, str)]),
        ("real pairs", [text for text in _TEXTS if not isinstance(text, str)]),
    ):
        columns = [list(column) for column in zip(*texts, strict=True)] if what == "real pairs" else [texts]
        encoded = tokenizer(*columns, padding=True, truncation=True, max_length=longest, return_tensors="pt")
        real.append(Case(what, {name: with_choices(encoded[name], model) for name in names}))
    return real


@torch.no_grad()
def differences(
    model: PreTrainedModel, run: Callable[[Tensors], dict[str, torch.Tensor]], inputs: Iterable[Case]
) -> list[Difference]:
    """The differences of every output over all inputs.

    Args:
        run: named inputs -> the artefact's named outputs.
    """
    worst: dict[str, tuple[float, float, str]] = {}
    pairs: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}
    for case in inputs:
        expected = model(**case.tensors)
        kept = case.tensors["attention_mask"].bool()
        for name, answer in run(case.tensors).items():
            # What stands at padding is nobody's answer, and differs where a runtime leaves it out.
            one, other = (
                (tensor[kept] if tensor.shape[: kept.dim()] == kept.shape else tensor).double().flatten()
                for tensor in (answer, expected[name])
            )
            largest = float((one - other).abs().max())
            scaled = largest / max(1.0, float(other.abs().max()))
            if name not in worst or not scaled <= worst[name][1]:  # NaN counts as worst
                worst[name] = (largest, scaled, case.what)
            pairs.setdefault(name, []).append((one, other))
    return [
        Difference(name, largest, scaled, _cosine(pairs[name]), what) for name, (largest, scaled, what) in worst.items()
    ]


def _cosine(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    one, other = (torch.cat(part) for part in zip(*pairs, strict=True))
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0))


def check_parity(compared: Sequence[Difference], *, what: str, precision: str) -> Parity:
    """The differences in figures, once they are within the precision's tolerance.

    Raises:
        ParityError: an output is not; it lists every output.
    """
    if precision in TOLERANCES:
        good = all(difference.scaled <= TOLERANCES[precision] for difference in compared)
        rule = (
            f"outputs may differ by at most {TOLERANCES[precision]:g} from the model's (relative where they exceed 1)"
        )
    else:
        least = _LEAST_COSINES.get(precision, LEAST_COSINE)
        good = all(difference.cosine >= least for difference in compared)
        rule = f"the cosine of an output to the model's must be at least {least}"
        if precision == AS_TRAINED:
            good = good and all(difference.scaled <= _LARGEST_STEPS for difference in compared)
            rule += f", and no value may differ by more than {_LARGEST_STEPS} (relative where they exceed 1)"
    if not good:
        repair = {"repair": _MORE_BITS} if precision == AS_TRAINED else {}
        raise ParityError([asdict(difference) for difference in compared], what=what, rule=rule, **repair)
    return Parity(
        max_abs_difference=max(difference.max_abs for difference in compared),
        least_cosine=min(difference.cosine for difference in compared),
        parity=tuple(compared),
    )


@torch.no_grad()
def agreement(model: PreTrainedModel, run: Callable[..., Any], batches: Iterable[Tensors]) -> Agreement | None:
    """How often two predict the same class, or the same set of several labels, and the largest difference of their logits; None for a
    model without logits, and without batches.

    Args:
        run: named inputs -> an output with `logits`.
    """
    decide: Decide | None = answer_rule_of(model.config).decide if gives_labels(model.config) else _largest
    rows = same = 0
    largest = 0.0
    for tensors in batches:
        expected, answered = model(**tensors), run(**tensors)
        if "logits" not in expected:
            return None
        kept = tensors["attention_mask"].bool()
        one, other = (
            output.logits[kept] if output.logits.shape[:-1] == kept.shape else output.logits
            for output in (answered, expected)
        )
        rows += len(one)
        same += len(one) if decide is None else len(one) - count_changed(one, other, decide=decide)
        largest = max(largest, float((one - other).abs().max()))
    if not rows:
        return None
    return Agreement(rows, largest) if decide is None else ClassAgreement(rows, largest, same)


def _largest(logits: numpy.ndarray) -> numpy.ndarray:
    """What a model of another kind predicts of each token."""
    best: numpy.ndarray = logits.argmax(axis=-1)
    return best


def check_agreement(seen: Agreement | None, *, what: str) -> None:
    """Refuses an export that predicts other classes than its model.

    Raises:
        ParityError: more than one prediction in a thousand (or one, of fewer) is another class.
    """
    if not isinstance(seen, ClassAgreement):
        return
    others = seen.predictions - seen.same
    if others > max(1, seen.predictions / _PREDICTIONS):
        inputs = f"{others} of {seen.predictions} examples"
        raise ParityError(
            [asdict(Difference("logits", seen.max_abs_difference, scaled=0.0, cosine=0.0, inputs=inputs))],
            what=what,
            rule="predictions must be those of the model as it was trained",
            repair=_MORE_BITS,
        )


def onnx_runner(graph: Path | bytes, *, threads: int | None = None) -> Callable[[Tensors], dict[str, torch.Tensor]]:
    """Runs an ONNX graph as it stands on the CPU."""
    session = open_session(graph, threads=threads)
    names = [node.name for node in session.get_outputs()]

    def run(tensors: Tensors) -> dict[str, torch.Tensor]:
        values = session.run(names, {name: tensor.numpy() for name, tensor in tensors.items()})
        return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}

    return run


# Of the rows of a graph in int8, that must leave where torch's do: others are compared with nothing.
_LEAST_ALIKE = 0.5


def compare_exits(model: PreTrainedModel, engine: Engine, cases: Sequence[Case], criterion: Criterion) -> ExitsParity:
    """Runs every row of the cases through torch and the graph, and compares where it leaves, and with what.

    In int8 a row near the threshold may leave elsewhere: what is compared are the logits of rows that leave at the same layer.

    Raises:
        ParityError: rows leave elsewhere, or with other logits, than in torch.
    """
    name, precision = engine.runtime.name, engine.runtime.precision
    same = rows = 0
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
    for case in cases:
        answer: Any = engine(**case.tensors)
        expected = run_with_exits(model, criterion, **case.tensors)
        alike_B = answer.layers == expected.layers_B
        same, rows = same + int(alike_B.sum()), rows + len(alike_B)
        pairs.append((answer.logits[alike_B].flatten(), expected.logits_BC[alike_B].flatten()))
    compared = _difference_of_rows(pairs, f"{same} of {rows} rows, which leave alike")
    if same < rows * (1 if precision == "fp32" else _LEAST_ALIKE):
        if precision == "fp32":
            raise ParityError([asdict(compared)], what=name, rule="rows must leave where torch's do")
        raise ParityError(
            [asdict(compared)],
            what=name,
            rule=f"{100 * _LEAST_ALIKE:g} % of the rows must leave where torch's do",
            repair="exits so unsure leave by what int8 rounds; train them longer or as --set exit_head=branch, or export onnx-exits",
        )
    parity = check_parity([compared], what=name, precision=precision)
    return ExitsParity(
        parity.max_abs_difference, parity.least_cosine, parity.parity, rows_compared=rows, rows_that_leave_alike=same
    )


def _difference_of_rows(pairs: list[tuple[torch.Tensor, torch.Tensor]], inputs: str) -> Difference:
    """How far logits lie apart; nowhere where there are none."""
    one, other = (torch.cat(part).double() for part in zip(*pairs, strict=True))
    if not len(one):
        return Difference("logits", max_abs=0.0, scaled=0.0, cosine=1.0, inputs=inputs)
    largest = float((one - other).abs().max())
    scaled = largest / max(1.0, float(other.abs().max()))
    cosine = float(torch.nn.functional.cosine_similarity(one, other, dim=0))
    return Difference("logits", max_abs=largest, scaled=scaled, cosine=cosine, inputs=inputs)
