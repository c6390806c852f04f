"""Whether a model may answer: opened as a server opens it, and its logits held against what they must be.

python -m hf_albert_plus.serving.trial_process DIR RUNTIME [MAX_LENGTH] says on stdout, as JSON, what is wrong with it, null for nothing.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import PreTrainedModel

from hf_albert_plus.compression.exits import Criterion
from hf_albert_plus.compression.quantisation import read_scheme
from hf_albert_plus.errors import InvalidInput, ParityError
from hf_albert_plus.export.exit_exports import compare_exits
from hf_albert_plus.export.parity import cases, check_parity, differences
from hf_albert_plus.export.runtimes import RUNTIMES
from hf_albert_plus.export.stage import AS_TRAINED
from hf_albert_plus.export.torch_engine import fake_quantise

from ..checkpoints import open_as_trained
from .text_model import TextModel


def try_model(directory: str, runtime: str, max_length: int | None) -> None:
    """
    Raises:
        InvalidInput: it does not open, does not compute, or computes something else than it must.
    """
    model = TextModel(directory, runtime, cores=1, max_length=max_length)
    torch.set_num_threads(1)
    model.warm_up()
    check_as_weights(model, Path(directory))


def main(directory: str, runtime: str, max_length: str | None = None) -> None:
    problem = None
    try:
        try_model(directory, runtime, None if max_length is None else int(max_length))
    except InvalidInput as error:
        problem = {"rule": error.rule, "got": str(error.got), "repair": error.repair}
    print(json.dumps(problem))


def check_as_weights(model: TextModel, directory: Path) -> None:
    """Holds what an export computes against the weights in its directory, where they are, as its export did.

    Raises:
        InvalidInput: the weights are not finite, or the engine computes something else.
    """
    runtime = model.engine.runtime
    if not (directory / RUNTIMES["torch"].file).is_file():
        return
    weights = open_as_trained(directory, option="a model to serve")
    if runtime.target is None:
        return
    try:
        _compare(model, weights, directory)
    except ParityError as error:
        found = "; ".join(
            f"{facts['output']} differ by {facts['max_abs']:.3g} (cosine {facts['cosine']:.4f}) on {facts['inputs']}"
            for facts in error.outputs
        )
        raise InvalidInput(
            f"{model.engine.file} must compute what the weights beside it do: {error.rule}",
            got=found,
            repair=f"export it again from them: albert-plus export DIR --to {runtime.target} --out OUT",
        ) from None


def _compare(model: TextModel, weights: PreTrainedModel, directory: Path) -> None:
    """
    Raises:
        ParityError: the engine and the weights do not compute the same within what the precision allows.
    """
    runtime, config, engine = model.engine.runtime, weights.config, model.engine
    checked = cases(weights, model.tokenizer)
    if runtime.leaves_early:
        compare_exits(weights, engine, checked, Criterion(config.exit_criterion, config.exit_threshold))
        return
    if runtime.name in AS_TRAINED and read_scheme(directory) is not None:
        fake_quantise(weights, directory)

    def run(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"logits": model.compute(tensors)}

    check_parity(differences(weights, run, checked), what=runtime.name, precision=runtime.precision)


if __name__ == "__main__":
    main(*sys.argv[1:])

__all__ = ["check_as_weights", "try_model"]
