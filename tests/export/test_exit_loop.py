"""Encoders with exits as one ONNX graph, a Loop or a row of Ifs, in onnxruntime against torch's exits: row by row, exit layer by exit
layer."""

import json
from collections import Counter
from functools import cache
from pathlib import Path

import numpy
import onnx
import onnxruntime
import pytest
import torch

from hf_albert_plus.compression.exits.criteria import Criterion, confidence, least_sure, normalised_entropy, taken_exits
from hf_albert_plus.engines.onnx_session import THRESHOLD, open_session
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.exits.exit_loop import assemble_loop
from hf_albert_plus.export.exits.exit_parts import (
    Steps,
    export_loop,
    export_segments,
    export_start,
    steps_of,
    weights_of_branch,
)
from hf_albert_plus.export.exits.exit_ranges import ranges_of_loop, ranges_of_segments
from hf_albert_plus.export.exits.exit_segments import assemble_segments
from hf_albert_plus.export.precision.int8 import quantise
from tests.support.exits import all_exits, batch_of, classifier
from tests.support.ranges import random_examples
from tests.support.small_models import small_config

GRID = {
    "shared": {"exit_head": "shared"},
    "pooled": {"exit_head": "pooled"},
    "pooled, two layers a step": {"exit_head": "pooled", "exit_layers": [2], "ffn_sharing": "cycle:2"},
    "no token types, no pooler": {"exit_head": "shared", "type_vocab_size": 0, "pooler": "none", "hidden_act": "relu"},
    "E = H, binary": {"exit_head": "pooled", "embedding_size": 32, "num_labels": 2},
    "bottleneck": {"exit_head": "pooled", "bottleneck_size": 16, "norm_type": "no_norm", "num_feedforward_networks": 2},
    "branches": {"exit_head": "branch"},
    "branches, two layers a step": {
        "exit_head": "branch",
        "exit_layers": [2],
        "attention_sharing": "cycle:2",
        "num_labels": 2,
    },
    "mean": {"exit_head": "pooled", "pooling": "mean"},
    "branches on the mean": {"exit_head": "branch", "pooling": "mean", "pooler": "none"},
    "one token type": {"exit_head": "pooled", "type_vocab_size": 1},
    "relative positions": {"exit_head": "pooled", "relative_attention_buckets": 8, "type_vocab_size": 0},
    "pruned": {"exit_head": "pooled", "block_attention_heads": [3], "block_intermediate_sizes": [16]},
}


# What is no loop: blocks of their own, uneven distances.
SEGMENTED = {
    "branches, pruned": {
        "exit_head": "branch", "exit_layers": [1, 3], "ffn_sharing": "none", "block_intermediate_sizes": [8, 16, 24, 48],
    },
    "blocks of their own": {"exit_head": "pooled", "exit_layers": [2], "attention_sharing": "none", "ffn_sharing": 2},
    "uneven distances": {"exit_head": "shared", "exit_layers": [3]},
    "layers that differ from their block": {"exit_head": "pooled", "exit_layers": [2], "layer_rank": 3},
    "uneven distances on the mean": {"exit_head": "branch", "exit_layers": [1, 3], "pooling": "mean"},
}  # fmt: skip


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """Models and the graphs of their parts, each traced once."""

    @cache
    def traced(name):
        model, directory = classifier(**{**GRID, **SEGMENTED}[name]), tmp_path_factory.mktemp("exits")
        start = export_start(model, directory / "start.onnx")
        if name in GRID:
            return model, start, export_loop(model, directory), assemble_loop
        return model, start, export_segments(model, directory), assemble_segments

    return traced


@pytest.fixture(params=[*GRID, *SEGMENTED])
def exported(request, export):
    return export(request.param)


@pytest.fixture(params=GRID)
def loop(request, export):
    return export(request.param)[:3]


def inputs_of(model, **shape):
    inputs = batch_of(model, **shape)
    if model.config.type_vocab_size < 2:
        inputs.pop("token_type_ids", None)
    return inputs


def run(proto, inputs, threshold=None):
    feed = {name: tensor.numpy() for name, tensor in inputs.items()}
    if threshold is not None:
        feed[THRESHOLD] = numpy.asarray(threshold, dtype=numpy.float32)
    session = open_session(proto.SerializeToString(), threads=1)
    logits, layers = session.run(["logits", "layers"], feed)
    return torch.from_numpy(logits), torch.from_numpy(layers)


def between(values):
    """A threshold from 0 to 1 that no row is at."""
    values = torch.cat([values.flatten(), torch.tensor([0.0, 1.0])]).sort().values
    place = len(values) // 2
    return float((values[place - 1] + values[place]) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["entropy", "confidence", "patience"])
@pytest.mark.parametrize("shape", [{"batch": 12, "length": 9}, {"batch": 1, "length": 5}, {"batch": 3, "length": 16}])
def test_the_graph_says_what_torch_says(exported, kind, shape):
    model, start, parts, assemble = exported
    inputs = inputs_of(model, **shape)
    logits_JBC = all_exits(model, inputs)
    depths = torch.tensor([*model.config.exit_layers, 4])
    measure = {"entropy": normalised_entropy, "confidence": confidence}.get(kind)
    thresholds = [1.0, 2.0] if measure is None else [between(measure(logits_JBC[:-1])), 0.0, 1.0]
    proto = assemble(start, parts, model, kind=kind, threshold=thresholds[0])
    for threshold in thresholds:
        taken = taken_exits(logits_JBC, Criterion(kind, threshold))
        logits, layers = run(proto, inputs, threshold)
        assert torch.equal(layers, depths[taken])
        expected = logits_JBC[taken, torch.arange(len(taken))]
        torch.testing.assert_close(logits, expected, atol=2e-6, rtol=2e-5)
    # Its own threshold is the first.
    own = run(proto, inputs)
    given = run(proto, inputs, thresholds[0])
    assert all(torch.equal(mine, other) for mine, other in zip(own, given, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["loop", "segments"])
def test_at_the_threshold_a_row_stays(form, tmp_path):
    """Exits whose classes are even are at 1, certain ones at 0: there rows stay, in the graph as in torch, and a little above they leave."""
    logits = {"even": [0.0, 0.0], "certain": [0.0, 200.0]}
    for said, at, above in (("even", 1.0, 1.001), ("certain", 0.0, 1e-30)):
        model = classifier(exit_head="pooled", num_labels=2)
        for exit_ in model.exits:
            torch.nn.init.zeros_(exit_.classifier.weight)
            exit_.classifier.bias.data = torch.tensor(logits[said])
        folder = tmp_path / said
        folder.mkdir()
        start = export_start(model, folder / "start.onnx")
        if form == "loop":
            proto = assemble_loop(start, export_loop(model, folder), model, kind="entropy", threshold=at)
        else:
            proto = assemble_segments(start, export_segments(model, folder), model, kind="entropy", threshold=at)
        inputs = inputs_of(model, batch=3, length=5)
        assert taken_exits(all_exits(model, inputs), Criterion("entropy", at)).tolist() == [3, 3, 3]
        assert run(proto, inputs)[1].tolist() == [4, 4, 4]
        assert run(proto, inputs, above)[1].tolist() == [1, 1, 1]


def test_the_body_stores_the_blocks_once(loop):
    model, start, parts = loop
    proto = assemble_loop(start, parts, model, kind="entropy", threshold=0.5)
    (loop,) = (node for node in proto.graph.node if node.op_type == "Loop")
    (body,) = (attribute.g for attribute in loop.attribute)
    # Which head a column of a branch is of.
    heads = 2 * model.config.exit_size if model.config.exit_head == "branch" else 0
    # Besides the weights a few dozen constants and, for a trace of a position table, what it gathers by; where distances count, their
    # buckets.
    positions = model.config.max_position_embeddings * (3 if model.config.relative_attention_buckets else 1)
    assert stored_in(proto.graph) <= model.num_parameters() + heads + positions + 100
    assert {node.domain for node in (*proto.graph.node, *body.node)} == {""}


@pytest.mark.parametrize("name", ["branches", "branches, two layers a step"])
@pytest.mark.parametrize("is_int8", [False, True])
def test_the_last_round_runs_the_classifier_and_no_branch(name, is_int8, export, tmp_path):
    """By the nodes that onnxruntime ran: with a threshold that nobody leaves at, a branch a round but the last."""
    model, start, parts, _ = export(name)
    if is_int8:
        start, *parts = quantised(model, start, parts, tmp_path)
    proto = assemble_loop(start, parts, model, kind="entropy", threshold=0.0)
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, {each: tensor.numpy() for each, tensor in inputs_of(model).items()})
    events = [event["name"] for event in json.loads(Path(session.end_profiling()).read_text())]
    rounds = steps_of(model.config).count
    ran = {
        part: Counter(each for each in events if each.startswith(f"{part}/"))
        for part in ("step", "branch", "classifier")
    }
    for part, times in (("step", rounds), ("branch", rounds - 1), ("classifier", 1)):
        assert ran[part], part
        assert {count for each, count in ran[part].items() if each.endswith("kernel_time")} == {times}


def quantised(model, start, parts, folder):
    """A loop's parts in int8."""
    ranges = ranges_of_loop(model, start, parts, random_examples(model.config))
    for part, of_part in zip((start, *parts), ranges, strict=True):
        counts = quantise(part, folder / part.name, ranges=of_part)
        assert counts.quantised_products == counts.weight_products
    return [folder / part.name for part in (start, *parts)]


@pytest.mark.slow
def test_int8_leaves_by_what_its_own_exits_say(loop, tmp_path):
    """Against the quantised step, run in turns on a row at a time."""
    model, *traced = loop
    start, *parts = quantised(model, *traced, tmp_path)
    inputs = inputs_of(model, batch=6)
    proto = assemble_loop(start, parts, model, kind="entropy", threshold=0.5)
    first, once, *last = (open_session(path, threads=1) for path in (start, *parts))
    heads = [*(exit_.classifier for exit_ in model.exits), model.classifier]
    steps = steps_of(model.config)
    for row in range(6):
        single = {name: tensor[row : row + 1] for name, tensor in inputs.items()}
        feed = {name: tensor.numpy() for name, tensor in single.items()}
        mask = feed["attention_mask"]
        (hidden,) = first.run(None, {name: feed[name] for name in feed if name != "attention_mask"})
        said = []
        for number in range(steps.count):
            hidden, *pooled = once.run(None, {"hidden": hidden, "attention_mask": mask})
            if pooled:
                with torch.no_grad():
                    said.append(heads[min(number, len(heads) - 1)](torch.from_numpy(*pooled)))
                continue
            branch, classifier = last
            feed_of = {"hidden": hidden, "attention_mask": mask}
            weights = weights_of_branch(model, number)
            (logits,) = (
                branch.run(None, {"hidden": hidden, "attention_mask": mask, **weights})
                if weights
                else classifier.run(None, {port.name: feed_of[port.name] for port in classifier.get_inputs()})
            )
            said.append(torch.from_numpy(logits))
        logits_JBC = torch.stack(said)
        threshold = between(normalised_entropy(logits_JBC))
        taken = int(taken_exits(logits_JBC, Criterion("entropy", threshold))[0])
        logits, layers = run(proto, single, threshold)
        assert layers.tolist() == [(taken + 1) * steps.layers]
        torch.testing.assert_close(logits, logits_JBC[taken], atol=1e-5, rtol=1e-4)


def test_steps_by_hand():
    assert steps_of(small_config(exit_layers=[1, 2, 3], exit_head="shared")) == Steps(1, 4)
    assert steps_of(small_config(exit_layers=[2], exit_head="pooled", attention_sharing="cycle:2")) == Steps(2, 2)


@pytest.mark.slow
def test_int8_segments_have_every_product_of_a_branch(tmp_path):
    """Four of attention and two of the feed-forward network a layer, and seven of the branch; the classifier has its pooler."""
    model = classifier(exit_layers=[3], exit_head="branch")
    start, segments = export_start(model, tmp_path / "start.onnx"), export_segments(model, tmp_path)
    ranges = ranges_of_segments(start, segments, random_examples(model.config))
    for part, of_part, products in zip(segments, ranges[1:], (3 * 6 + 7, 6 + 2), strict=True):
        counts = quantise(part, tmp_path / f"int8_{part.name}", ranges=of_part)
        assert counts.quantised_products == counts.weight_products == products


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"exit_layers": None}, "a loop needs exits, got none; use its segments"),
        ({"exit_layers": [1, 3]}, r"a loop over 4 layers needs exits at even distances, got \[1, 3\]"),
        ({"exit_layers": [3]}, r"a loop over 4 layers needs exits at even distances, got \[3\]"),
        (
            {"ffn_sharing": "none"},
            r"a loop needs blocks that repeat every 1 layers, from exit to exit, got \[0, 1, 2, 3\]",
        ),
    ],
)
def test_what_is_no_loop_is_told_so(fields, message):
    with pytest.raises(InvalidInput, match=message):
        steps_of(small_config(**{"exit_layers": [1, 2, 3], "exit_head": "pooled", **fields}))


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [0.1, 2500.0])
def test_a_regression_leaves_when_its_value_stays(tolerance, tmp_path):
    torch.manual_seed(0)
    model = classifier(num_labels=1, exit_head="pooled", exit_tolerance=tolerance)
    inputs = inputs_of(model, batch=12)
    steps = all_exits(model, inputs).diff(dim=0).abs().quantile(0.5)
    with torch.no_grad():  # so that half of the steps are less than what counts as the same
        for exit_ in (*(each.classifier for each in model.exits), model.classifier):
            exit_.weight.mul_(tolerance / steps)
            exit_.bias.mul_(tolerance / steps)
    start, parts = export_start(model, tmp_path / "start.onnx"), export_loop(model, tmp_path)
    logits_JBC = all_exits(model, inputs)
    for patience in (1, 2):
        proto = assemble_loop(start, parts, model, kind="patience", threshold=patience)
        logits, layers = run(proto, inputs)
        taken = taken_exits(logits_JBC, Criterion("patience", patience, tolerance))
        assert len(set(taken.tolist())) > 1
        assert patience > 1 or 0 < int((taken == 1).sum()) < 12
        assert torch.equal(layers, taken + 1)
        torch.testing.assert_close(
            logits, logits_JBC[taken, torch.arange(len(taken))], atol=2e-5 * tolerance, rtol=2e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["loop", "segments"])
def test_several_labels_leave_as_in_torch(form, tmp_path):
    """By the least sure label, and by patience while the labels that are given stay the same."""
    several = {"problem_type": "multi_label_classification", "label_thresholds": [0.45, 0.5, 0.6]}
    model = classifier(exit_head="pooled", **several)
    start = export_start(model, tmp_path / "start.onnx")
    parts = (export_loop if form == "loop" else export_segments)(model, tmp_path)
    inputs = inputs_of(model, batch=12)
    logits_JBC = all_exits(model, inputs)
    sure = least_sure(logits_JBC[:-1])
    found = set()
    for kind, threshold in (("entropy", between(normalised_entropy(sure))), ("confidence", between(confidence(sure))), ("patience", 1.0), ("patience", 2.0)):  # fmt: skip
        assemble = assemble_loop if form == "loop" else assemble_segments
        proto = assemble(start, parts, model, kind=kind, threshold=threshold)
        taken = taken_exits(logits_JBC, Criterion(kind, threshold, label_thresholds=(0.45, 0.5, 0.6)))
        logits, layers = run(proto, inputs)
        assert torch.equal(layers, taken + 1)
        torch.testing.assert_close(logits, logits_JBC[taken, torch.arange(12)], atol=2e-6, rtol=2e-5)
        found |= {(kind, depth) for depth in taken.tolist()}
    assert {kind for kind, depth in found if depth < 3} == {"entropy", "confidence", "patience"}


@pytest.mark.slow
def test_a_loop_and_its_segments_agree(export, tmp_path):
    model, start, parts, _ = export("pooled, two layers a step")
    inputs = inputs_of(model, batch=12)
    threshold = between(normalised_entropy(all_exits(model, inputs)[:-1]))
    segments = export_segments(model, tmp_path)
    once = assemble_loop(start, parts, model, kind="entropy", threshold=threshold)
    many = assemble_segments(start, segments, model, kind="entropy", threshold=threshold)
    for one, other in zip(run(once, inputs), run(many, inputs), strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=2e-5)
    # Segments that share their weights read one copy.
    assert stored_in(many.graph) < 1.1 * stored_in(once.graph)


def stored_in(graph):
    """Numbers that a graph and those inside it hold."""
    inner = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return sum(onnx.numpy_helper.to_array(t).size for t in graph.initializer) + sum(map(stored_in, inner))


def test_int8_segments_run_with_nobody_left(export, tmp_path):
    """A segment that nobody reaches is not run."""
    model, start, segments, _ = export("blocks of their own")
    (tmp_path / "int8").mkdir()
    ranges = ranges_of_segments(start, segments, random_examples(model.config))
    for part, of_part in zip((start, *segments), ranges, strict=True):
        quantise(part, tmp_path / "int8" / part.name, ranges=of_part)
    parts = [tmp_path / "int8" / part.name for part in segments]
    proto = assemble_segments(tmp_path / "int8" / "start.onnx", parts, model, kind="entropy", threshold=1.0)
    inputs = inputs_of(model, batch=5)
    logits, layers = run(proto, inputs)
    assert layers.tolist() == [2] * 5
    torch.testing.assert_close(logits, all_exits(model, inputs)[0], atol=0.05, rtol=0.05)
    assert run(proto, inputs, 0.0)[1].tolist() == [4] * 5
