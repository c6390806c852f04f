"""An encoder with exits as an ONNX `Loop`, whose body stores the blocks once and whose condition is the exit: for blocks that repeat from exit
to exit."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import helper

from hf_albert_plus.compression.settings import Kind
from hf_albert_plus.export.exits.exit_graph import (
    BOOL,
    FLOAT,
    INT,
    Nodes,
    begin,
    carried_by,
    leave,
    prefixed,
    values_of,
    whole,
)
from hf_albert_plus.export.exits.exit_parts import branch_weights, steps_of


def assemble_loop(start: Path, parts: Sequence[Path], model: Any, *, kind: Kind, threshold: float) -> onnx.ModelProto:
    """A `Loop` over equal steps, of fp32 or quantised products.

    Args:
        parts: as `export_loop` gives them.
    """
    steps = steps_of(model.config)
    inner = [prefixed(onnx.load(path), path.stem) for path in parts]
    step = inner[0]
    add = Nodes("exit", outer=[value.name for value in step.graph.input])
    add.constants |= {
        "one_step": numpy.asarray(1, dtype=numpy.int64),
        "layers_a_step": numpy.asarray(steps.layers, dtype=numpy.int64),
        "last_step": numpy.asarray(steps.count - 1, dtype=numpy.int64),
    }
    add("Equal", ["iteration", "last_step"], "is_last")
    if len(inner) > 1:
        _, branch, classifier = inner
        last, earlier = _says_last(classifier, model.config), _says_earlier(branch, model)
        add("If", ["is_last"], "said", then_branch=last, else_branch=earlier)
    else:
        _say_pooled(add, model)
    add("Add", ["iteration", "one_step"], "steps_run")
    add("Mul", ["steps_run", "layers_a_step"], "layers_run")
    carried = leave(add, model.config, kind, step="step", state="exit", is_last="is_last")
    add("Size", ["exit/kept_places"], "left")
    add("Greater", ["left", "none"], "go_on")
    names = carried_by(kind)
    given = ["step/hidden", "step/attention_mask", *(f"exit/{name}" for name in names[2:])]
    body = helper.make_graph(
        [*step.graph.node, *add.nodes],
        "step",
        [
            helper.make_tensor_value_info("exit/iteration", INT, []),
            helper.make_tensor_value_info("exit/going_on", BOOL, []),
            *values_of(names, given, model.config, "n"),
        ],
        [helper.make_tensor_value_info("exit/go_on", BOOL, []), *values_of(names, carried, model.config, "n_left")],
        [*step.graph.initializer, *add.initializers()],
    )
    around = Nodes("loop")
    around.constants |= {"steps": numpy.asarray(steps.count, dtype=numpy.int64), "go": numpy.asarray(True)}
    begun = begin(around, model.config, kind)
    around("Loop", ["steps", "go", *begun], *(f"after_{name}" for name in names), body=body)
    answers = ("loop/after_logits_so_far", "loop/after_layers_so_far")
    return whole(start, around, model.config, parts=inner, threshold=threshold, answers=answers)


def _say_pooled(add: Nodes, model: Any) -> None:
    """Adds what a round says of what its pooler gives: by a classifier of its own, or the model's in all rounds."""
    heads = [*(exit_.classifier for exit_ in model.exits), model.classifier]
    add.constants |= {
        "weights": numpy.stack([head.weight.detach().numpy().T for head in heads]),
        "biases": numpy.stack([head.bias.detach().numpy() for head in heads]),
        "first": numpy.asarray(0, dtype=numpy.int64),
    }
    number = "iteration" if len(heads) > 1 else "first"
    add("Gather", ["weights", number], "weight", axis=0)
    add("Gather", ["biases", number], "bias", axis=0)
    add("MatMul", ["step/pooled", "weight"], "product")
    add("Add", ["product", "bias"], "said")


def _says_last(classifier: onnx.ModelProto, config: Any) -> onnx.GraphProto:
    """What the last round says: the model's classifier alone runs."""
    last = Nodes("classifier")
    last("Identity", ["step/next_hidden"], "hidden")
    if config.pooling == "mean":
        last("Identity", ["step/attention_mask"], "attention_mask")
    return _says(last, classifier, config)


def _says_earlier(branch: onnx.ModelProto, model: Any) -> onnx.GraphProto:
    """What a round before the last says: its branch, whose weights are taken out of those of all."""
    earlier = Nodes("branch")
    earlier("Identity", ["step/next_hidden"], "hidden")
    earlier("Identity", ["step/attention_mask"], "attention_mask")
    for name, stacked in branch_weights(model).items():
        earlier.constants[f"all_{name}"] = stacked.numpy()
        earlier("Gather", [f"all_{name}", "exit/iteration"], name, axis=0)
    return _says(earlier, branch, model.config)


def _says(given: Nodes, part: onnx.ModelProto, config: Any) -> onnx.GraphProto:
    """A branch of an `If`: what gives a part its inputs, then the part."""
    return helper.make_graph(
        [*given.nodes, *part.graph.node],
        given.prefix,
        [],
        [helper.make_tensor_value_info(f"{given.prefix}/said", FLOAT, ["n", config.num_labels])],
        [*part.graph.initializer, *given.initializers()],
    )
