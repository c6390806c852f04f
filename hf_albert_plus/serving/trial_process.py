"""The process of a trial: it opens a model as a server does, and holds its logits against what they must be.

python -m hf_albert_plus.serving.trial_process DIR RUNTIME CONTENT [MAX_LENGTH] says on stdout, as JSON, what is wrong with the model,
null for nothing. Its files are not compared with their hashes as long as they are still those of CONTENT.
"""

import sys
from pathlib import Path

import torch
from transformers import PreTrainedModel

from ..checkpoints import open_as_trained
from ..compression.exits.criteria import Criterion
from ..compression.quantisation.scheme import read_scheme
from ..engines.artefacts import WEIGHTS
from ..engines.onnx_engine import ExitEngine
from ..engines.parity import cases, check_parity, compare_exits, differences
from ..engines.text_classifier import TextClassifier
from ..engines.torch_engine import fake_quantise
from ..errors import InvalidInput, ParityError
from ..machine import use_threads
from .carried_errors import error_text
from .repository import content_of


def try_model(directory: str, runtime: str, max_length: int | None, *, verify: bool = True) -> None:
    """Tries a model.

    Args:
        verify: compare its files with the hashes in its record.

    Raises:
        InvalidInput: it does not open, does not compute, or computes something else than it must.
    """
    model = TextClassifier(directory, runtime, cores=1, max_length=max_length, verify=verify)
    use_threads(1)
    model.warm_up()
    check_as_weights(model, Path(directory))


def main(directory: str, runtime: str, content: str, max_length: str | None = None) -> None:
    """Tries a model, and says what is wrong with it."""
    verify = content_of(Path(directory), runtime) != content
    try:
        try_model(directory, runtime, None if max_length is None else int(max_length), verify=verify)
    except InvalidInput as error:
        print(error_text(error))
    else:
        print("null")


def check_as_weights(model: TextClassifier, directory: Path) -> None:
    """Holds what an export computes against the weights in its directory, where they are, as its export did.

    Raises:
        InvalidInput: the weights are not finite, or the engine computes something else.
    """
    runtime = model.engine.runtime
    if not (directory / WEIGHTS).is_file():
        return
    weights = open_as_trained(directory, option="a model to serve")
    if runtime.target is None:
        return
    try:
        _compare(model, weights, directory)
    except ParityError as error:
        differing = "; ".join(
            f"{facts['output']} differ by {facts['max_abs']:.3g} (cosine {facts['cosine']:.4f}) on {facts['inputs']}"
            for facts in error.outputs
        )
        raise InvalidInput(
            f"{model.engine.file} must compute what the weights beside it do: {error.rule}",
            got=differing,
            repair=f"export it again from them: albert-plus export DIR --to {runtime.target} --out OUT",
        ) from None


def _compare(model: TextClassifier, weights: PreTrainedModel, directory: Path) -> None:
    """Compares what an engine computes with what the weights do.

    Raises:
        ParityError: the engine and the weights do not compute the same within what the precision allows.
    """
    runtime, config, engine = model.engine.runtime, weights.config, model.engine
    checked = cases(weights, model.tokenizer)
    if isinstance(engine, ExitEngine):
        compare_exits(weights, engine, checked, Criterion(config.exit_criterion, engine.own_threshold))
        return
    if runtime.as_trained and read_scheme(directory) is not None:
        fake_quantise(weights, directory)

    def run(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"logits": model.compute(tensors)}

    check_parity(differences(weights, run, checked), what=runtime.name, precision=runtime.precision)


if __name__ == "__main__":
    main(*sys.argv[1:])
