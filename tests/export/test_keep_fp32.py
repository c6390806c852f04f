"""Which products stay in fp32: patterns, the search against brute force, and the score's gate."""

from itertools import combinations

import onnx
import pytest
import torch

from hf_albert_plus.engines.batching import pad_rows
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput, ScoreError, StageConflict
from hf_albert_plus.export.precision.keep_fp32 import fewest_in_fp32, rank_by_sensitivity
from hf_albert_plus.export.precision.products import count_products, matching_products
from hf_albert_plus.export.real_examples import task_examples
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.random_inputs import random_inputs
from hf_albert_plus.tasks.rows import load_tokenizer
from tests.support.ranges import random_ranges

NAMES = list("abcdefgh")


@pytest.mark.parametrize("needed", [(), ("a",), ("h",), ("b", "g"), ("c", "d", "e"), tuple(NAMES)])
def test_the_search_finds_the_smallest_set_where_products_add_up(needed):
    """Where the condition is that certain products are kept, brute force has one smallest set: those."""
    smallest = next(kept for size in range(9) for kept in combinations(NAMES, size) if set(needed) <= set(kept))
    asked = []

    def holds(kept):
        asked.append(frozenset(kept))
        return set(needed) <= set(kept)

    found = fewest_in_fp32(NAMES, holds)
    assert set(found) == set(smallest) == set(needed)
    assert len(asked) == len(set(asked)) <= 2 * len(NAMES) + 4


def test_no_product_of_the_result_can_go_back_alone():
    """A condition that any three of the eight satisfy: three are found, and two do not hold."""
    found = fewest_in_fp32(NAMES, lambda kept: len(kept) >= 3)
    assert len(found) == 3


def test_a_condition_that_never_holds_is_said():
    assert fewest_in_fp32(NAMES, lambda kept: False) is None


@pytest.fixture(scope="module")
def fragile_dir(tmp_path_factory, classifier_dir):
    """The classifier with one product that int8 ruins: eight activations so large that their neighbours fall below one step, in pairs that
    cancel each other out. They are more than an export multiplies in fp32 by itself."""
    model = AlbertPlusForSequenceClassification.from_pretrained(classifier_dir).eval()
    ffn = model.albert_plus.encoder.ffn[0]
    with torch.no_grad():
        for channel in range(4, 12, 2):
            ffn.intermediate.bias[channel : channel + 2] = 3000.0
            ffn.intermediate.weight[channel + 1] = ffn.intermediate.weight[channel]
            ffn.output.weight[:, channel + 1] = -ffn.output.weight[:, channel]
    directory = tmp_path_factory.mktemp("fragile") / "model"
    import shutil

    shutil.copytree(classifier_dir, directory)
    model.save_pretrained(directory)
    return directory


def _agreement(fragile_dir, data_dir):
    """Points: rows of a task on which an engine's logits are within 0.05 of the torch model's."""
    torch_engine = Engine.load(fragile_dir)
    tokenizer = load_tokenizer(fragile_dir, torch_engine.config)
    examples = task_examples(fragile_dir, torch_engine.config, data=str(data_dir), task="sst2", count=96)
    batches = [pad_rows(examples[start : start + 32], tokenizer) for start in range(0, 96, 32)]
    expected = [torch_engine(**batch).logits for batch in batches]

    def score(engine):
        close = [
            (engine(**batch).logits - wanted).abs().amax(1) < 0.05
            for batch, wanted in zip(batches, expected, strict=True)
        ]
        return 100 * float(torch.cat(close).float().mean())

    return score


@pytest.mark.slow
def test_sensitivity_ranks_the_ruined_products_first(fragile_dir, tmp_path):
    export(fragile_dir, to=["onnx"], output=tmp_path / "x")
    model = Engine.load(fragile_dir).model
    graph = tmp_path / "x" / "onnx" / "model.onnx"
    ranked = rank_by_sensitivity(graph, random_inputs(model, batch=8, length=16), random_ranges(model, graph))
    assert len(ranked) == 27
    assert all("ffn.0.output" in name for name in ranked[:4])


@pytest.mark.slow
def test_the_stage_keeps_the_fewest_products_that_hold_the_score(fragile_dir, data_dir, tmp_path):
    score = _agreement(fragile_dir, data_dir)
    settings = ExportSettings(data=str(data_dir), task="sst2", max_drop=5.0, examples=16)
    record = export(fragile_dir, to=["onnx-int8"], output=tmp_path / "x", settings=settings, scorer=score)
    facts = record.result["exports"]["onnx-int8"]
    assert 0 < len(facts["kept_fp32"]) <= 4
    assert all("ffn.0.output" in name for name in facts["kept_fp32"])
    assert facts["quantised_products"] + len(facts["kept_fp32"]) == facts["weight_products"] == 27
    assert facts["drop"] <= 5.0
    assert record.result["torch_score"] == 100.0
    products = count_products(onnx.load(tmp_path / "x" / "onnx" / "model_int8.onnx").graph)
    assert sorted(products.fp32) == facts["kept_fp32"]


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("onnx-int8", r"onnx-int8 may lose at most 1 points, got 50.00 .*embedding tables"),
        ("onnx-qdq", "onnx-qdq may lose at most 1 points.*more --examples"),
    ],
)
@pytest.mark.slow
def test_a_score_that_cannot_be_held_is_an_error(classifier_dir, data_dir, tmp_path, to, words):
    """A judge that gives every int8 graph nothing."""
    settings = ExportSettings(data=str(data_dir), task="sst2", max_drop=1.0, examples=8)
    with pytest.raises(ScoreError, match=words):
        export(
            classifier_dir,
            to=[to],
            output=tmp_path / "x",
            settings=settings,
            scorer=lambda engine: 50.0 if engine.runtime.name == "torch" else 0.0,
        )
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_patterns_keep_what_they_name(classifier_dir, tmp_path):
    settings = ExportSettings(keep_fp32=("*.layers.3.*", "classifier"))
    record = export(classifier_dir, to=["onnx", "onnx-int8"], output=tmp_path / "x", settings=settings)
    facts = record.result["exports"]["onnx-int8"]
    assert len(facts["kept_fp32"]) == 7
    assert all("layers.3" in name or name == "classifier" for name in facts["kept_fp32"])
    assert record.settings["keep_fp32"] == ["*.layers.3.*", "classifier"]
    names = matching_products(tmp_path / "x" / "onnx" / "model.onnx", ["*query"])
    assert [name.rpartition(".")[2] for name in names] == ["query"] * 4
    with pytest.raises(InvalidInput, match="--keep-fp32 must match a weight product, got '\\*.layer.3.\\*'"):
        export(
            classifier_dir, to=["onnx-int8"], output=tmp_path / "y", settings=ExportSettings(keep_fp32=("*.layer.3.*",))
        )


def test_nothing_is_left_to_take_out_whatever_the_condition():
    """Scores do not grow with every product kept: over random conditions, each kept product is needed by itself."""
    import random

    for seed in range(200):
        drawn = random.Random(seed)
        verdicts: dict[frozenset, bool] = {frozenset(NAMES): True, frozenset(): False}

        def holds(kept, verdicts=verdicts, drawn=drawn):
            return verdicts.setdefault(frozenset(kept), drawn.random() < 0.4)

        found = fewest_in_fp32(NAMES, holds)
        assert holds(found)
        assert not any(holds(tuple(other for other in found if other != name)) for name in found)


@pytest.mark.slow
def test_openvino_keeps_what_the_patterns_name(classifier_dir, data_dir, tmp_path):
    settings = ExportSettings(data=str(data_dir), task="sst2", examples=8, keep_fp32=("*.layers.1.*",))
    record = export(
        classifier_dir, to=["openvino-int8"], output=tmp_path / "x", settings=settings, scorer=lambda engine: 50.0
    )
    facts = record.result["exports"]["openvino-int8"]
    assert len(facts["kept_fp32"]) == 6
    assert all("layers.1" in name for name in facts["kept_fp32"])
    assert facts["quantised_products"] == facts["weight_products"] - 6 == 21


@pytest.mark.slow
def test_an_export_is_used_again_only_for_the_same_examples(classifier_dir, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("the film is good .\nthe plot is dull .\n", encoding="utf-8")

    def run(**changes):
        settings = ExportSettings(texts=texts, examples=2, **changes)
        return export(classifier_dir, to=["onnx-qdq"], output=tmp_path / "x", settings=settings)

    assert not run().reused
    assert run(threads=1).reused  # decides no file
    texts.write_text("another film\n", encoding="utf-8")
    with pytest.raises(StageConflict, match="made by another run .*texts"):
        run()
    with pytest.raises(InvalidInput, match="a task needs a scorer"):
        export(classifier_dir, to=["onnx-int8"], output=tmp_path / "y", settings=ExportSettings(data="x", task="sst2"))
