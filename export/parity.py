"""Does an export compute what its model computes? The same inputs through torch and the artefact, every output compared."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_albert_plus.errors import ParityError
from hf_albert_plus.export.graph import sample_inputs, with_choices
from hf_albert_plus.export.inputs import longest_input
from hf_albert_plus.export.sessions import open_session

Tensors = dict[str, torch.Tensor]
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


def cases(model: PreTrainedModel, tokenizer: Any = None) -> list[Case]:
    """Random inputs of several shapes up to the longest, and real texts and pairs where there is a tokenizer."""
    longest = longest_input(model.config)
    shapes = [(batch, min(length, longest)) for batch, length in _SHAPES] + [(1, longest)]
    found = [
        Case(f"{batch} random sequences of up to {length} tokens", random_inputs(model, batch=batch, length=length))
        for batch, length in dict.fromkeys(shapes)
    ]
    return found if tokenizer is None else [*found, *_real_cases(model, tokenizer)]


def _real_cases(model: PreTrainedModel, tokenizer: Any) -> list[Case]:
    names = list(sample_inputs(model))
    longest = longest_input(model.config)
    found = []
    for what, texts in (
        ("real sentences", [text for text in _TEXTS if isinstance(text, str)]),
        ("real pairs", [text for text in _TEXTS if not isinstance(text, str)]),
    ):
        columns = [list(column) for column in zip(*texts, strict=True)] if what == "real pairs" else [texts]
        encoded = tokenizer(*columns, padding=True, truncation=True, max_length=longest, return_tensors="pt")
        found.append(Case(what, {name: with_choices(encoded[name], model) for name in names}))
    return found


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
        for name, found in run(case.tensors).items():
            # What stands at padding is nobody's answer, and differs where a runtime leaves it out.
            one, other = (
                (tensor[kept] if tensor.shape[: kept.dim()] == kept.shape else tensor).double().flatten()
                for tensor in (found, expected[name])
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


def check_parity(found: list[Difference], *, what: str, precision: str) -> dict[str, Any]:
    """The figures for the record, once they are within the precision's tolerance.

    Raises:
        ParityError: an output is not; it lists every output.
    """
    if precision in TOLERANCES:
        good = all(difference.scaled <= TOLERANCES[precision] for difference in found)
        rule = (
            f"outputs may differ by at most {TOLERANCES[precision]:g} from the model's (relative where they exceed 1)"
        )
    else:
        least = _LEAST_COSINES.get(precision, LEAST_COSINE)
        good = all(difference.cosine >= least for difference in found)
        rule = f"the cosine of an output to the model's must be at least {least}"
        if precision == AS_TRAINED:
            good = good and all(difference.scaled <= _LARGEST_STEPS for difference in found)
            rule += f", and no value may differ by more than {_LARGEST_STEPS} (relative where they exceed 1)"
    if not good:
        repair = {"repair": _MORE_BITS} if precision == AS_TRAINED else {}
        raise ParityError([asdict(difference) for difference in found], what=what, rule=rule, **repair)
    return {
        "max_abs_difference": max(difference.max_abs for difference in found),
        "least_cosine": min(difference.cosine for difference in found),
        "parity": [asdict(difference) for difference in found],
    }


@torch.no_grad()
def agreement(model: PreTrainedModel, run: Callable[..., Any], batches: Iterable[Tensors]) -> dict[str, Any]:
    """How often two predict the same class, and the largest difference of their logits; nothing of a model without logits.

    Args:
        run: named inputs -> an output with `logits`.
    """
    rows = same = 0
    largest, classes = 0.0, 0
    for tensors in batches:
        expected, found = model(**tensors), run(**tensors)
        if "logits" not in expected:
            return {}
        kept = tensors["attention_mask"].bool()
        one, other = (
            output.logits[kept] if output.logits.shape[:-1] == kept.shape else output.logits
            for output in (found, expected)
        )
        classes = other.shape[-1]
        rows, same = rows + one.shape[0], same + int((one.argmax(-1) == other.argmax(-1)).sum())
        largest = max(largest, float((one - other).abs().max()))
    if not rows:
        return {}
    counted = {"same": same} if classes > 1 else {}
    return {"agreement": {"predictions": rows, **counted, "max_abs_difference": largest}}


def check_agreement(found: dict[str, Any], *, what: str) -> dict[str, Any]:
    """
    Raises:
        ParityError: more than one prediction in a thousand (or one, of fewer) is another class.
    """
    seen = found.get("agreement", {})
    others = seen.get("predictions", 0) - seen.get("same", seen.get("predictions", 0))
    if others > max(1, seen.get("predictions", 0) / _PREDICTIONS):
        difference = Difference(
            "logits", seen["max_abs_difference"], 0.0, 0.0, f"{others} of {seen['predictions']} examples"
        )
        raise ParityError(
            [asdict(difference)],
            what=what,
            rule="predictions must be those of the model as it was trained",
            repair=_MORE_BITS,
        )
    return found


def onnx_runner(graph: Path | bytes, *, threads: int | None = None) -> Callable[[Tensors], dict[str, torch.Tensor]]:
    """Runs an ONNX graph as it stands on the CPU."""
    session = open_session(graph, threads=threads)
    names = [node.name for node in session.get_outputs()]

    def run(tensors: Tensors) -> dict[str, torch.Tensor]:
        values = session.run(names, {name: tensor.numpy() for name, tensor in tensors.items()})
        return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}

    return run


def random_inputs(model: PreTrainedModel, *, batch: int, length: int) -> Tensors:
    """Random tokens, each sequence padded to another length, the second half of each in segment 1."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(model.config.vocab_size, (batch, length), generator=generator)
    lengths = torch.randint(1, length + 1, (batch,), generator=generator)
    lengths[0] = length
    mask = (torch.arange(length)[None] < lengths[:, None]).long()
    types = (torch.arange(length)[None] * 2 >= lengths[:, None]).long() * mask
    values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    return {name: with_choices(values[name], model) for name in sample_inputs(model)}


__all__ = [
    "AS_TRAINED",
    "LEAST_COSINE",
    "TOLERANCES",
    "Case",
    "Difference",
    "agreement",
    "cases",
    "check_agreement",
    "check_parity",
    "differences",
    "onnx_runner",
    "random_inputs",
]
