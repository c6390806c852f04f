"""Exits of a task of numbers: by patience alone, and alike in any unit."""

import pytest
import torch
from transformers import AutoTokenizer

from hf_albert_plus.compression.exits.criteria import Criterion, criterion_of, run_with_exits, taken_exits
from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.records.record import read_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.command_line import invoke
from tests.support.exits import all_exits, batch_of, classifier


def test_a_regression_leaves_by_patience_alone():
    model = classifier(num_labels=1, exit_head="pooled")
    inputs = batch_of(model)
    rule = Criterion("patience", 1, tolerance=0.5)
    found = run_with_exits(model, rule, **inputs)
    taken = taken_exits(all_exits(model, inputs), rule)
    assert torch.equal(found.layers_B, taken + 1)
    with pytest.raises(InvalidInput, match="a regression has no probabilities to leave by, got entropy; use patience"):
        run_with_exits(model, Criterion("entropy", 0.5), **inputs)


def test_a_regression_of_several_numbers_has_no_exits():
    model = classifier(num_labels=2, exit_head="pooled", problem_type="regression")
    with pytest.raises(InvalidInput, match="may leave by exits where it gives one number, got 2; run it without exits"):
        run_with_exits(model, Criterion("patience", 1), **batch_of(model))


def test_similarities_have_no_entropy(classifier_dir, data_dir, tmp_path):
    with pytest.raises(InvalidInput, match="--criterion must be patience for stsb, .* got entropy"):
        invoke("calibrate", "--model", classifier_dir, "--data", data_dir, "--task", "stsb", "--out", tmp_path / "c")


def test_numbers_leave_alike_in_any_unit(data_dir, tokenizer_dir, tmp_path):
    """Prices in cents leave where the same prices in thousands do: what counts as the same follows the answers' deviation."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    model = classifier(
        num_labels=1, exit_head="shared", pooling="mean", vocab_size=len(tokenizer), problem_type="regression"
    )
    with torch.no_grad():  # layers that change little, so that some texts leave
        for module in model.albert_plus.encoder.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.reset_parameters()
            elif isinstance(module, torch.nn.Linear):
                module.weight.mul_(0.2)
                module.bias.zero_()
    texts = {
        split: list(load_split(str(data_dir), get_task("sst2"), split)["sentence"]) for split in ("train", "validation")
    }
    found = {}
    for unit in (1, 1e5):
        folder = tmp_path / str(unit)
        (folder / "prices").mkdir(parents=True)
        for split, given in texts.items():
            lines = [f'"{text}",{unit * len(text)}' for text in given]
            (folder / "prices" / f"{split}.csv").write_text("\n".join(["text,price", *lines]))
        with torch.no_grad():
            model.classifier.weight.mul_(unit)
            model.classifier.bias.mul_(unit)
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        invoke("calibrate", "--model", folder / "model", "--data", folder / "prices", "--kind", "number", "--criterion", "patience",
               "--max-drop", 100, "--keep-exits", "--max-length", 64, "--out", folder / "c")  # fmt: skip
        config = AlbertPlusConfig.from_pretrained(folder / "c")
        found[unit] = read_record(folder / "c").result, config
        answers = all_exits(model, dict(tokenizer(texts["validation"], padding=True, return_tensors="pt")))[-1]
        assert config.exit_tolerance == pytest.approx(float(answers.std()) / 15, rel=1e-3)
        assert criterion_of(config, config.exit_threshold).tolerance == config.exit_tolerance
    (small, config), (large, scaled) = found.values()
    assert [layers for _, layers, _ in small["curve"]] == [layers for _, layers, _ in large["curve"]]
    assert 1 < min(layers for _, layers, _ in small["curve"]) < 4
    assert scaled.exit_tolerance == pytest.approx(1e5 * config.exit_tolerance, rel=1e-4)
