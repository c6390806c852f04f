"""Does an exported graph compute what its model computes?"""

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from hf_albert_plus.errors import ParityError
from hf_albert_plus.export.graph import sample_inputs, with_choices

TOLERANCE = 1e-4
# Batch and length of the checks: one token, odd lengths, padding and both token types; never the traced shape.
_SHAPES = ((1, 1), (3, 7), (2, 33), (5, 64))


@dataclass(frozen=True)
class Difference:
    """Largest absolute difference of one output, and the inputs that it was on."""

    output: str
    max_abs: float
    inputs: str


@torch.no_grad()
def differences(model: PreTrainedModel, path: Path) -> list[Difference]:
    """The largest difference of every output over padded batches of several shapes.

    Args:
        path: the graph, run as it stands by onnxruntime.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), sess_options=options, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_outputs()]
    worst = {name: Difference(name, 0.0, "no input") for name in names}
    for batch, length in _SHAPES:
        inputs = random_inputs(model, batch=batch, length=min(length, model.config.max_position_embeddings))
        expected = model(**inputs)
        found = session.run(names, {name: tensor.numpy() for name, tensor in inputs.items()})
        kept = inputs["attention_mask"].bool()
        for name, value in zip(names, found, strict=True):
            difference = (torch.from_numpy(value) - expected[name]).abs()
            # What stands at padding is nobody's answer, and differs where a runtime leaves it out.
            largest = float((difference[kept] if difference.shape[: kept.dim()] == kept.shape else difference).max())
            if not largest <= worst[name].max_abs:  # NaN counts as worst
                worst[name] = Difference(name, largest, f"{batch} sequences of up to {length} tokens")
    return list(worst.values())


def largest(found: list[Difference]) -> float:
    """The largest of all outputs' differences, NaN if one is."""
    return float(torch.tensor([difference.max_abs for difference in found]).max())


def check_parity(model: PreTrainedModel, path: Path) -> float:
    """The largest difference of any output.

    Raises:
        ParityError: one exceeds 1e-4.
    """
    found = differences(model, path)
    if not largest(found) <= TOLERANCE:
        raise ParityError([(d.output, d.max_abs, d.inputs) for d in found], tolerance=TOLERANCE)
    return largest(found)


def random_inputs(model: PreTrainedModel, *, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random tokens, each sequence padded to another length, the second half of each in segment 1."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(model.config.vocab_size, (batch, length), generator=generator)
    lengths = torch.randint(1, length + 1, (batch,), generator=generator)
    lengths[0] = length
    mask = (torch.arange(length)[None] < lengths[:, None]).long()
    types = (torch.arange(length)[None] * 2 >= lengths[:, None]).long() * mask
    values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    return {name: with_choices(values[name], model) for name in sample_inputs(model)}


__all__ = ["TOLERANCE", "Difference", "check_parity", "differences", "largest", "random_inputs"]
