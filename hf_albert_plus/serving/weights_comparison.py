"""An export held against the weights beside it, as its export did."""

from pathlib import Path

import torch
from transformers import PreTrainedModel

from ..checkpoints import open_as_trained
from ..compression.exits.criteria import criterion_of
from ..compression.quantisation.scheme import read_scheme
from ..engines.artefacts import WEIGHTS, Runtime
from ..engines.engine import Engine
from ..engines.onnx_engine import ExitEngine
from ..engines.parity import cases, check_parity, compare_exits, differences
from ..engines.pooled_encoder import SentenceEncoder
from ..engines.sentence_files import read_form
from ..engines.text_encoder import VECTORS
from ..engines.torch_engine import fake_quantise
from ..errors import InvalidInput, ParityError
from ..heads import SPAN_LOGITS, is_answerer, is_bare_encoder
from ..machine import use_threads
from ..tasks.rows import load_tokenizer


def check_as_weights(directory: Path, runtime: Runtime) -> None:
    """Holds what an export computes against the weights in its directory, where they are.

    Raises:
        InvalidInput: the weights are not finite, or the engine computes something else.
    """
    if not (directory / WEIGHTS).is_file():
        return
    use_threads(1)
    weights = open_as_trained(directory, option="a model to serve")
    if runtime.target is None:
        return
    engine = Engine.load(directory, runtime.name, threads=1, verify=False)
    try:
        _compare(engine, weights, directory)
    except ParityError as error:
        differing = "; ".join(
            f"{facts['output']} differ by {facts['max_abs']:.3g} (cosine {facts['cosine']:.4f}) on {facts['inputs']}"
            for facts in error.outputs
        )
        raise InvalidInput(
            f"{engine.file} must compute what the weights beside it do: {error.rule}",
            got=differing,
            repair=f"export it again from them: albert-plus export DIR --to {runtime.target} --out OUT",
        ) from None


def _as_engines_are(weights: PreTrainedModel, directory: Path) -> tuple[PreTrainedModel, tuple[str, ...]]:
    """A model as its engines compute it, and the names of the outputs that are compared: of an encoder the vectors, or where its files do not
    say how they are made its hidden states."""
    if is_answerer(weights.config):
        return weights, SPAN_LOGITS
    if not is_bare_encoder(weights.config):
        return weights, ("logits",)
    form = read_form(directory)
    if form is None:
        return weights, ("last_hidden_state",)
    return SentenceEncoder(weights, pooling=form.pooling, normalize=form.normalize).eval(), (VECTORS,)


def _compare(engine: Engine, weights: PreTrainedModel, directory: Path) -> None:
    """Compares what an engine computes with what the weights do.

    Raises:
        ParityError: the engine and the weights do not compute the same within what the precision allows.
    """
    runtime, config = engine.runtime, weights.config
    weights, outputs = _as_engines_are(weights, directory)
    checked = cases(weights, load_tokenizer(directory, config))
    if isinstance(engine, ExitEngine):
        compare_exits(weights, engine, checked, criterion_of(config, engine.own_threshold))
        return
    if runtime.as_trained and read_scheme(directory) is not None:
        fake_quantise(weights, directory)

    def run(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        answered = engine(**tensors)
        return {output: answered[output] for output in outputs}

    check_parity(differences(weights, run, checked), what=runtime.name, precision=runtime.precision)
