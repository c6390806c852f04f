"""The graphs that an encoder with exits is put together from: its start, what lies between one exit and the next, and the rules for leaving.

n rows, S tokens, H hidden, C classes, J exits with the last layer's classifier.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from onnx import TensorProto
from torch import nn

from hf_albert_plus.compression.exits.criteria import Kind, label_cuts
from hf_albert_plus.engines.classifier_config import label_thresholds_of
from hf_albert_plus.engines.onnx_session import THRESHOLD
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.graph.tracing import FP32_PASSES, apply_passes, quiet_exporters, save_graph, tidy
from hf_albert_plus.model_inputs import longest_input, reads_token_types
from hf_albert_plus.random_inputs import sample_ids, seeded

# The first with a `Gelu` of its own, as in the graphs without exits.
_OPSET = 20


@dataclass(frozen=True)
class Steps:
    """A model as equal steps: each runs `layers` layers and ends at an exit, the last one at the classifier."""

    layers: int
    count: int


def steps_of(config: Any) -> Steps:
    """How a config's layers and exits repeat.

    Raises:
        InvalidInput: they do not.
    """
    repair = "use its segments, or exits after every layer of a shared encoder, that albert-plus calibrate --keep-exits keeps"
    layers = list(config.exit_layers or ())
    if not layers:
        raise InvalidInput("a loop needs exits", got="none", repair=repair)
    size, depth = layers[0], config.num_hidden_layers
    if layers != list(range(size, depth, size)) or depth % size:
        raise InvalidInput(f"a loop over {depth} layers needs exits at even distances", got=layers, repair=repair)
    if config.layer_rank is not None:
        raise InvalidInput(
            "a loop needs layers that are the same", got="layers that differ by layer_rank", repair=repair
        )
    for name in ("attention_map", "ffn_map"):
        blocks = getattr(config, name)
        if any(blocks[layer] != blocks[layer % size] for layer in range(depth)):
            raise InvalidInput(
                f"a loop needs blocks that repeat every {size} layers, from exit to exit",
                got=list(blocks),
                repair=repair,
            )
    return Steps(size, depth // size)


class _Start(nn.Module):
    """Token ids `[n, S]` -> hidden states `[n, S, H]`."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, token_type_ids: torch.Tensor | None = None) -> torch.Tensor:
        return self.model.albert_plus.embeddings(input_ids, token_type_ids, None, None)


class _Layers(nn.Module):
    """Hidden states `[n, S, H]` and a mask `[n, S]` -> the hidden states that the layers from `first` up to `end` make."""

    def __init__(self, model: Any, first: int, end: int):
        super().__init__()
        self.model, self.first, self.end = model, first, end

    def hidden(self, hidden: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        mask = torch.where(attention_mask[:, None, None, :] == 1, 0.0, torch.finfo(hidden.dtype).min)
        return self.model.albert_plus.encoder.run(hidden, mask, self.first, self.end)


class _Step(_Layers):
    """Hidden states and mask -> those after the layers, which a branch reads."""

    def forward(self, hidden: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.hidden(hidden, attention_mask)


class _PooledStep(_Layers):
    """Hidden states and mask -> those after the layers, and what the pooler gives of them, `[n, H]`, which the exit reads."""

    def forward(self, hidden: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.hidden(hidden, attention_mask)
        return hidden, self.model.albert_plus.pool(hidden, attention_mask)


class _Branch(nn.Module):
    """Hidden states, mask and the weights of a branch -> what that branch says, `[n, C]`."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, hidden: torch.Tensor, attention_mask: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        given = dict(zip(self.model.exits[0].state_dict(), weights, strict=True))
        return torch.func.functional_call(self.model.exits[0], given, (hidden, attention_mask))


class _Classifier(nn.Module):
    """The hidden states after the last layer, and the mask where the pooling reads it -> what the model's own classifier says, `[n, C]`."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, hidden: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        return self.model.exit(len(self.model.config.exit_layers), hidden, attention_mask)


class _Segment(_Layers):
    """Hidden states and mask -> those after the layers, and what the exit there says, `[n, C]`."""

    def __init__(self, model: Any, first: int, end: int, exit_: int):
        super().__init__(model, first, end)
        self.exit = exit_

    def forward(self, hidden: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.hidden(hidden, attention_mask)
        return hidden, self.model.exit(self.exit, hidden, attention_mask)


class _LastSegment(_Segment):
    """What the classifier says after the last layers, `[n, C]`: nobody goes on."""

    def forward(self, hidden: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(hidden, attention_mask)[1]


def segments_of(config: Any) -> list[tuple[int, int]]:
    """The layers from one exit to the next, from 0: first, and one past the last."""
    ends = [*(config.exit_layers or ()), config.num_hidden_layers]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def export_start(model: Any, path: Path) -> Path:
    """The fp32 graph from token ids to hidden states."""
    ids = sample_ids(model.config)
    given = (ids, torch.zeros_like(ids)) if reads_token_types(model.config) else (ids,)
    return _export(_Start(model), given, path, inputs=["input_ids", "token_type_ids"][: len(given)], outputs=["hidden"])


def branch_weights(model: Any) -> dict[str, torch.Tensor]:
    """The weights of all branches by the name that a step takes them under, each `[J - 1, …]`; none where exits are no branches."""
    if model.config.exit_head != "branch":
        return {}
    states = [branch.state_dict() for branch in model.exits]
    return {name.replace(".", "_"): torch.stack([state[name] for state in states]) for name in states[0]}


def weights_of_branch(model: Any, round_: int) -> dict[str, numpy.ndarray]:
    """The weights that a round's branch takes; none where exits are no branches, and in the last round, which has the classifier."""
    weights = branch_weights(model)
    return {name: stacked[round_].numpy() for name, stacked in weights.items() if round_ < len(stacked)}


def export_loop(model: Any, directory: Path) -> list[Path]:
    """The fp32 graphs that a loop is made of: the step that all rounds run; where exits are branches, also the branch, which takes its
    weights as inputs and runs in all rounds but the last, and the model's classifier, which runs in the last one."""
    weights = {name: stacked[0] for name, stacked in branch_weights(model).items()}
    layers, given = steps_of(model.config).layers, _hidden(model.config)
    names = ["hidden", "attention_mask"]
    if not weights:
        pooled = _PooledStep(model, 0, layers)
        return [_export(pooled, given, directory / "step.onnx", inputs=names, outputs=["next_hidden", "pooled"])]
    read = 1 if model.config.pooling == "first" else 2
    step, branch, classifier = (directory / f"{name}.onnx" for name in ("step", "branch", "classifier"))
    return [
        _export(_Step(model, 0, layers), given, step, inputs=names, outputs=["next_hidden"]),
        _export(
            _Branch(model), given, branch, inputs=[*names, *weights], outputs=["said"], weights=list(weights.values())
        ),
        _export(_Classifier(model), given[:read], classifier, inputs=names[:read], outputs=["said"]),
    ]


def export_segments(model: Any, directory: Path) -> list[Path]:
    """The fp32 graphs of all segments, `segment_0.onnx` and on."""
    paths, ends = [], segments_of(model.config)
    for number, (first, end) in enumerate(ends):
        is_last = number == len(ends) - 1
        segment = (_LastSegment if is_last else _Segment)(model, first, end, number)
        path = directory / f"segment_{number}.onnx"
        outputs = ["said"] if is_last else ["next_hidden", "said"]
        given = _hidden(model.config)
        paths.append(_export(segment, given, path, inputs=["hidden", "attention_mask"], outputs=outputs))
    return paths


def _hidden(config: Any) -> tuple[torch.Tensor, torch.Tensor]:
    ids = sample_ids(config)
    hidden = torch.randn(*ids.shape, config.hidden_size, generator=seeded(0))
    mask = torch.ones_like(ids)
    mask[1, 1:] = 0
    return hidden, mask


def _export(
    module: Any, given: Any, path: Path, *, inputs: list[str], outputs: list[str], weights: Sequence[torch.Tensor] = ()
) -> Path:
    """`weights` are given too, behind the inputs of rows and tokens, and keep their sizes."""
    model = module.model
    config = model.config
    axes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("tokens", max=longest_input(config))}
    shapes: Any = (*[axes] * len(given), *([[None] * len(weights)] if weights else []))
    was = config._attn_implementation
    model.eval().set_attn_implementation("eager")
    try:
        with quiet_exporters():
            program: Any = torch.onnx.export(
                module.eval(), (*given, *([list(weights)] if weights else [])), dynamo=True, input_names=inputs, output_names=outputs,
                dynamic_shapes=shapes, opset_version=_OPSET,
            )  # fmt: skip
    finally:
        model.set_attn_implementation(was)
    tidy(program.model, ("rows", "tokens"))
    apply_passes(program.model, FP32_PASSES)
    save_graph(program.model, path)
    return path


# Adds a node: operator, inputs, output, attributes -> the output's name.
Add = Callable[..., str]


# From a graph's nodes, its constants and the model's config to the nodes of a rule.
_Rule = Callable[[Add, dict[str, numpy.ndarray], Any], None]


def _said_by_classes(node: Add, constants: dict[str, numpy.ndarray], config: Any) -> tuple[str, int]:
    """The logits that probabilities are made of, and of how many classes: of several labels those of the least sure one."""
    constants["class_axis"] = numpy.asarray([-1], dtype=numpy.int64)
    if not label_thresholds_of(config):
        return "said", config.num_labels
    node("Abs", ["said"], "sizes")
    node("ReduceMin", ["sizes", "class_axis"], "nearest", keepdims=1)
    node("Sub", ["nearest", "nearest"], "zeros")
    return node("Concat", ["zeros", "nearest"], "said_of_least_sure", axis=-1), 2


def _entropy(node: Add, constants: dict[str, numpy.ndarray], config: Any) -> None:
    said, classes = _said_by_classes(node, constants, config)
    constants["log_classes"] = numpy.asarray(numpy.log(classes), dtype=numpy.float32)
    node("LogSoftmax", [said], "log_probability", axis=-1)
    node("Exp", ["log_probability"], "probability")
    node("Mul", ["probability", "log_probability"], "terms")
    node("ReduceSum", ["terms", "class_axis"], "negative_entropy", keepdims=0)
    node("Neg", ["negative_entropy"], "entropy")
    node("Div", ["entropy", "log_classes"], "normalised_entropy")
    node("Less", ["normalised_entropy", THRESHOLD], "may_leave")


def _confidence(node: Add, constants: dict[str, numpy.ndarray], config: Any) -> None:
    said, _ = _said_by_classes(node, constants, config)
    node("Softmax", [said], "probability", axis=-1)
    node("ReduceMax", ["probability", "class_axis"], "largest", keepdims=0)
    node("GreaterOrEqual", ["largest", THRESHOLD], "may_leave")


def _patience(node: Add, constants: dict[str, numpy.ndarray], config: Any) -> None:
    thresholds = label_thresholds_of(config)
    if thresholds or config.num_labels == 1:
        constants["class_axis"] = numpy.asarray([-1], dtype=numpy.int64)
    if thresholds:
        constants["label_cuts"] = label_cuts(thresholds).numpy()
        node("GreaterOrEqual", ["said", "label_cuts"], "given")
        node("Cast", ["given"], "prediction", to=TensorProto.INT64)
        node("Sub", ["prediction", "last_prediction"], "changes")
        node("Abs", ["changes"], "distances")
        node("ReduceMax", ["distances", "class_axis"], "distance", keepdims=0)
        node("Equal", ["distance", "none"], "agrees")
    elif config.num_labels == 1:
        constants["tolerance"] = numpy.asarray(config.exit_tolerance, dtype=numpy.float32)
        node("Squeeze", ["said", "class_axis"], "prediction")
        node("Sub", ["prediction", "last_prediction"], "change")
        node("Abs", ["change"], "distance")
        node("Less", ["distance", "tolerance"], "agrees")
    else:
        node("ArgMax", ["said"], "prediction", axis=-1, keepdims=0)
        node("Equal", ["prediction", "last_prediction"], "agrees")
    node("Add", ["same", "one_step"], "one_more")
    node("Where", ["agrees", "one_more", "none"], "same_now")
    node("Cast", ["same_now"], "same_count", to=TensorProto.FLOAT)
    node("GreaterOrEqual", ["same_count", THRESHOLD], "may_leave")


RULES: dict[Kind, _Rule] = {
    "entropy": _entropy,
    "confidence": _confidence,
    "patience": _patience,
}
