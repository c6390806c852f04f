"""The threshold of a graph with exits in int8: found on what the graph says itself, and where it says another thing than torch."""

import json

import numpy
import onnx
import pytest
import torch

from hf_albert_plus.compression.exits.criteria import Criterion, normalised_entropy, taken_exits
from hf_albert_plus.compression.exits.cross_fitting import fit_threshold
from hf_albert_plus.compression.exits.exit_answers import exit_logits
from hf_albert_plus.compression.exits.prices import prices_of_exits
from hf_albert_plus.compression.exits.thresholds import SearchRule
from hf_albert_plus.compression.settings import CalibrateSettings
from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.onnx_session import THRESHOLD
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.scoring import logits_scorer_for
from hf_albert_plus.export.exits import int8_thresholds
from hf_albert_plus.export.exits.exit_parts import export_loop, export_segments, export_start
from hf_albert_plus.export.exits.int8_thresholds import Recalibration, find_threshold, logits_of_parts
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.records.record import read_record
from hf_albert_plus.serving.trial_process import try_model
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.rows import encode, load_tokenizer
from hf_albert_plus.tasks.splits import load_split
from tests.support.command_line import invoke

SCORE = logits_scorer_for("sst2")


@pytest.fixture(scope="module", params=["branch", pytest.param("pooled", marks=pytest.mark.slow)])
def calibrated(request, classifier_dir, data_dir, tmp_path_factory):
    """A classifier with exits that were trained a little, and a threshold for them."""
    folder = tmp_path_factory.mktemp("int8-thresholds")
    invoke("distill", "--method", "fastbert", "--phases", "exits", "--teacher", classifier_dir, "--student", classifier_dir,
           "--data", data_dir, "--task", "sst2", "--epochs", 0.3, "--learning-rate", 3e-3, "--max-length", 32, "--precision", "fp32", "--set",
           f"exit_head={request.param}", "--out", folder / "exits")  # fmt: skip
    invoke("calibrate", "--model", folder / "exits", "--data", data_dir, "--task", "sst2", "--max-drop", 5, "--folds", 3,
           "--keep-exits", "--max-length", 32, "--out", folder / "calibrated")  # fmt: skip
    return folder / "calibrated"


def rows_of(directory, data_dir):
    config = AlbertPlusConfig.from_pretrained(directory)
    tokenizer = load_tokenizer(directory, config)
    task = get_task("sst2")
    return tokenizer, encode(load_split(str(data_dir), task, "validation"), task, tokenizer, max_length=32)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["loop", "segments"])
def test_the_threshold_is_that_of_the_graphs_own_logits(form, calibrated, data_dir, tmp_path, monkeypatch):
    """It is found on what the int8 parts say, and the graph's rows leave as that has it."""
    said = {}

    def recorded(*given, **options):
        said["logits"] = logits_of_parts(*given, **options)
        return said["logits"]

    monkeypatch.setattr(int8_thresholds, "logits_of_parts", recorded)
    invoke("export", calibrated, "--to", "onnx-exits", "--to", "onnx-int8-exits", "--exit-form", form, "--data", data_dir,
           "--task", "sst2", "--out", tmp_path / "e")  # fmt: skip
    exports = read_record(tmp_path / "e").result["exports"]
    int8, fp32 = exports["onnx-int8-exits"], exports["onnx-exits"]
    config = AlbertPlusConfig.from_pretrained(calibrated)
    tokenizer, encoded = rows_of(calibrated, data_dir)
    # The settings are those of the calibration.
    layers, labels = [*config.exit_layers, config.num_hidden_layers], encoded["labels"][:]
    prices = prices_of_exits(config, length=float(numpy.mean(encoded["length"][:])))
    rule = SearchRule(layers, "entropy", prices, keep_exits=True)
    fit = fit_threshold(said["logits"], labels=labels, rule=rule, score=SCORE, max_drop=5, folds=3, seed=42)
    threshold = fit.calibration.best.criterion.threshold
    assert (int8["threshold"], int8["threshold_rows"]) == (threshold, len(labels))
    assert int8["threshold_found_on"] == "the int8 logits of this graph"
    assert int8["cross_fitted"]["drop"] == fit.cross_fitted.drop
    assert fp32["threshold"] == config.exit_threshold
    assert fp32["cross_fitted"] is None
    # It stands in the graph, which leaves by it, and beside it, where engines read it.
    engine = Engine.load(tmp_path / "e", "onnx-int8-exits", threads=1)
    proto = onnx.load(tmp_path / "e" / "onnx" / "model_exits_int8.onnx")
    (own,) = (onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer if tensor.name == THRESHOLD)
    assert own == numpy.float32(threshold)
    assert engine.own_threshold == threshold
    taken = taken_exits(said["logits"], Criterion("entropy", threshold))
    clear = (normalised_entropy(said["logits"][:-1]) - threshold).abs().amin(0) > 1e-4
    for row in clear.nonzero().flatten().tolist()[:100]:
        given = {name: torch.tensor([encoded[row][name]]) for name in tokenizer.model_input_names}
        answer = engine(**given)
        assert answer.layers.tolist() == [layers[taken[row]]]
        torch.testing.assert_close(answer.logits[0], said["logits"][taken[row], row], atol=1e-3, rtol=1e-3)
    # A server holds it against torch at its own threshold.
    try_model(str(tmp_path / "e"), "onnx-int8-exits", 32)


def test_exits_that_are_less_sure_in_int8_get_another_threshold(calibrated, data_dir, monkeypatch):
    """Logits of a fifth of the size leave at the same exits by another threshold."""
    config = AlbertPlusConfig.from_pretrained(calibrated)
    model = AlbertPlusForSequenceClassification.from_pretrained(calibrated)
    tokenizer, encoded = rows_of(calibrated, data_dir)
    labels = torch.tensor(encoded["labels"][:])
    right = torch.nn.functional.one_hot(labels, 2).double()
    noise = torch.randn(4, len(labels), 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logits = noise + torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.float64)[:, None, None] * right
    recalibration = Recalibration.of(calibrated, ExportSettings(data=str(data_dir), task="sst2"), SCORE)
    assert config.exit_layers == [1, 2, 3]
    found = {}
    for size in (1.0, 0.2):
        monkeypatch.setattr(int8_thresholds, "logits_of_parts", lambda *_, size=size, **__: size * logits)
        criterion, origin = find_threshold(recalibration, model, tokenizer, [], form="loop")
        assert origin.threshold_rows == len(labels)
        found[size] = criterion, taken_exits(size * logits, criterion)
    assert torch.equal(found[1.0][1], found[0.2][1])
    assert len(set(found[1.0][1].tolist())) > 1
    # By the threshold of the surer ones, the others leave later.
    assert found[0.2][0].threshold > found[1.0][0].threshold
    assert (taken_exits(0.2 * logits, found[1.0][0]) > found[0.2][1]).any()


def test_settings_are_those_of_the_calibration(calibrated, data_dir, tmp_path):
    settings = ExportSettings(data=str(data_dir), task="sst2")
    found = Recalibration.of(calibrated, settings, SCORE)
    assert found is not None
    assert (found.settings.max_drop, found.settings.folds, found.settings.max_length) == (5, 3, 32)
    # One of another task or from before says what it can; nothing is found without a task.
    other = Recalibration.of(calibrated, ExportSettings(data=str(data_dir), task="mrpc"), SCORE)
    assert other is not None
    assert other.settings == CalibrateSettings()
    assert Recalibration.of(calibrated, ExportSettings(), SCORE) is None
    record = json.loads((calibrated / "record.json").read_text())
    before = {**record["settings"], "share": 0.5, "exit_cost": 0.2}
    del before["folds"]
    (tmp_path / "record.json").write_text(json.dumps({**record, "settings": before}))
    old = Recalibration.of(tmp_path, settings, SCORE)
    assert old is not None
    assert (old.settings.exit_cost, old.settings.folds) == (0.2, 5)
    (tmp_path / "record.json").write_text(json.dumps({**record, "settings": {**before, "max_drop": "much"}}))
    with pytest.raises(
        InvalidInput, match="the record of a calibrated model must hold the settings of albert-plus calibrate"
    ):
        Recalibration.of(tmp_path, settings, SCORE)


@pytest.mark.slow
def test_parts_say_what_torch_says(calibrated, data_dir, tmp_path):
    """In fp32, whatever the order and length of the rows."""
    model = AlbertPlusForSequenceClassification.from_pretrained(calibrated).eval()
    tokenizer, encoded = rows_of(calibrated, data_dir)
    rows = encoded
    expected = exit_logits(model, rows.remove_columns(["labels", "length"]), tokenizer, 48)
    start = export_start(model, tmp_path / "start.onnx")
    for form, export in (("loop", export_loop), ("segments", export_segments)):
        found = logits_of_parts(model, tokenizer, [start, *export(model, tmp_path)], rows.to_list(), form=form)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
