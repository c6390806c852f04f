"""Does an exported graph compute what its model computes?"""

from pathlib import Path

import torch
from transformers import PreTrainedModel

from hf_albert_plus.errors import ParityError
from hf_albert_plus.export.graph import sample_inputs

TOLERANCE = 1e-4
# Batch and length of the checks: one token, odd lengths, padding and both token types; never the traced shape.
_SHAPES = ((1, 1), (3, 7), (2, 33), (5, 64))


@torch.no_grad()
def max_logit_difference(model: PreTrainedModel, path: Path) -> tuple[float, str]:
    """Largest absolute difference of the logits over padded batches of several shapes, and the shape it was on.

    Args:
        path: the graph, run as it stands by onnxruntime.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), sess_options=options, providers=["CPUExecutionProvider"])
    worst, where = 0.0, "no input"
    for batch, length in _SHAPES:
        inputs = random_inputs(model, batch=batch, length=min(length, model.config.max_position_embeddings))
        expected = model(**inputs).logits
        (found,) = session.run(["logits"], {name: tensor.numpy() for name, tensor in inputs.items()})
        difference = float((torch.from_numpy(found) - expected).abs().max())
        if not difference <= worst:  # NaN counts as worst
            worst, where = difference, f"{batch} sequences of up to {length} tokens"
    return worst, where


def check_parity(model: PreTrainedModel, path: Path) -> float:
    """The largest difference of the logits.

    Raises:
        ParityError: it exceeds 1e-4.
    """
    worst, where = max_logit_difference(model, path)
    if not worst <= TOLERANCE:
        raise ParityError(output="logits", max_abs=worst, tolerance=TOLERANCE, inputs=where)
    return worst


def random_inputs(model: PreTrainedModel, *, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random tokens, each sequence padded to another length, the second half of each in segment 1."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(model.config.vocab_size, (batch, length), generator=generator)
    lengths = torch.randint(1, length + 1, (batch,), generator=generator)
    lengths[0] = length
    mask = (torch.arange(length)[None] < lengths[:, None]).long()
    types = (torch.arange(length)[None] * 2 >= lengths[:, None]).long() * mask
    values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    return {name: values[name] for name in sample_inputs(model)}


__all__ = ["TOLERANCE", "check_parity", "max_logit_difference", "random_inputs"]
