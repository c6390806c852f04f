"""From a classifier to exits, a threshold and graphs that leave by it, as a user goes; and what is refused on the way."""

import json
import shutil
from dataclasses import replace

import numpy
import pytest
import torch
from sklearn.metrics import accuracy_score

from hf_albert_plus.compression.exits.criteria import Criterion, run_with_exits, taken_exits
from hf_albert_plus.compression.exits.exit_answers import AnswersOfExits, exit_logits
from hf_albert_plus.compression.exits.stage import calibrate_exits
from hf_albert_plus.compression.settings import CalibrateSettings
from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from hf_albert_plus.engines import parity
from hf_albert_plus.engines.artefacts import RUNTIMES
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput, ParityError
from hf_albert_plus.eval.scoring import logits_scorer_for
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.records.record import read_record, training_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.rows import encode, load_tokenizer
from hf_albert_plus.tasks.splits import load_split
from tests.support.command_line import invoke


@pytest.fixture(scope="module", params=["loop", pytest.param("segments", marks=pytest.mark.slow)])
def with_exits(request, classifier_dir, data_dir, tmp_path_factory):
    """An all-shared classifier with a branch after every layer, or with an exit on its pooler where no loop ends."""
    folder, head = tmp_path_factory.mktemp("exits"), {"loop": "branch", "segments": "pooled"}[request.param]
    layers = [1, 2, 3] if request.param == "loop" else [3]
    invoke("distill", "--method", "fastbert", "--phases", "exits", "--teacher", classifier_dir, "--student", classifier_dir,
           "--data", data_dir, "--task", "sst2", "--epochs", 3, "--learning-rate", 1e-2, "--max-length", 32, "--precision", "fp32", "--set",
           f"exit_head={head}", "--set", f"exit_layers={layers}", "--out", folder / "exits")  # fmt: skip
    return folder, request.param


@pytest.fixture(scope="module")
def exits_dir(with_exits, data_dir):
    """An export with and without exits."""
    folder, _ = with_exits
    invoke("calibrate", "--model", folder / "exits", "--data", data_dir, "--task", "sst2", "--max-drop", 100, "--keep-exits",
           "--max-length", 32, "--out", folder / "calibrated")  # fmt: skip
    invoke("export", folder / "calibrated", "--to", "onnx", "--to", "onnx-exits", "--out", folder / "exported")
    return folder / "exported"


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["entropy", "patience"])
def test_a_threshold_is_found_on_all_rows_and_judged_by_folds(with_exits, data_dir, criterion, tmp_path):
    """Against scikit-learn and a run of torch's exits over the same rows."""
    folder, _ = with_exits
    invoke("calibrate", "--model", folder / "exits", "--data", data_dir, "--task", "sst2", "--criterion", criterion, "--max-drop",
           3, "--keep-exits", "--max-length", 32, "--out", tmp_path / "c")  # fmt: skip
    result, config = read_record(tmp_path / "c").result, AlbertPlusConfig.from_pretrained(tmp_path / "c")
    assert (config.exit_criterion, config.exit_threshold) == (criterion, result["threshold"])
    model = AlbertPlusForSequenceClassification.from_pretrained(tmp_path / "c").eval()
    task, tokenizer = get_task("sst2"), load_tokenizer(tmp_path / "c", config)
    rows = encode(load_split(str(data_dir), task, "validation"), task, tokenizer, max_length=32)
    labels = numpy.asarray(rows["labels"][:])
    logits_JBC = exit_logits(model, rows.remove_columns(["labels", "length"]), tokenizer, 7)
    found, judged = result["found_on"], result["cross_fitted"]
    taken = taken_exits(logits_JBC, Criterion(criterion, result["threshold"]))
    said = logits_JBC[taken, torch.arange(len(labels))].argmax(-1).numpy()
    assert found["score"] == pytest.approx(100 * accuracy_score(labels, said))
    layers = torch.tensor(result["layers"], dtype=torch.float64)[taken]
    assert found["average_layers"] == pytest.approx(float(layers.mean()), abs=1e-4)
    assert sum(found["leave_at"].values()) == found["rows"] == judged["rows"] == len(labels)
    assert found["score"] >= found["full_score"] - 3 - 1e-9
    assert judged["drop"] <= 3
    assert judged["folds"] == 5
    low, high = judged["drop_interval"]
    assert low <= judged["drop"] <= high
    assert list(result["exit_costs"]) == [str(layer) for layer in result["layers"][:-1]]
    for layer, logits_BC in zip(result["layers"], logits_JBC, strict=True):
        expected = 100 * accuracy_score(labels, logits_BC.argmax(-1).numpy())
        assert result["score_of_exit"][str(layer)] == pytest.approx(expected)
    # What a score says of the training is of the training.
    assert training_record(tmp_path / "c")["stage"] == "distill"
    depths = [layers for _, layers, _ in result["curve"]]
    assert depths == sorted(depths)
    svg = (tmp_path / "c" / "score_by_depth.svg").read_text()
    assert all(
        f">{text}</text>" in svg for text in ("all layers", f"threshold {result['threshold']:.3g}", "on other rows")
    )
    weights = AlbertPlusForSequenceClassification.from_pretrained(folder / "exits").state_dict()
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in weights.items())


@pytest.mark.slow
def test_rows_are_asked_once_for_all_thresholds(with_exits, data_dir, tmp_path, monkeypatch):
    folder, _ = with_exits
    known, sst2 = AnswersOfExits(), get_task("sst2")

    def threshold(name, *, max_drop, answered):
        record = calibrate_exits(
            folder / "exits",
            data=str(data_dir),
            task=sst2,
            output=tmp_path / name,
            settings=CalibrateSettings(max_drop=max_drop, max_length=32),
            score=logits_scorer_for("sst2"),
            answered=answered,
        )
        return record.result

    alone = threshold("alone", max_drop=3, answered=None)
    threshold("before", max_drop=30, answered=known)
    monkeypatch.delattr("hf_albert_plus.compression.exits.exit_answers.exit_logits")
    assert threshold("after", max_drop=3, answered=known) == alone


@pytest.mark.slow
@pytest.mark.parametrize("head", ["branch", "pooled", "shared"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_exits_that_are_kept_say_what_they_said(head, dtype, classifier_dir, data_dir, tmp_path):
    """Where a look costs a layer and any score will do, all rows leave by the first exit, and the others go; weights keep their type."""
    shutil.copytree(classifier_dir, tmp_path / "source")
    config = AlbertPlusConfig.from_pretrained(classifier_dir, exit_layers=[2, 3], exit_head=head)
    source = AlbertPlusForSequenceClassification.from_pretrained(classifier_dir, config=config).to(dtype).eval()
    with torch.no_grad():
        for parameter in source.exits.parameters():  # at the threshold, where all classes are as likely, a row stays
            parameter.mul_(20)
    source.save_pretrained(tmp_path / "source")
    invoke("calibrate", "--model", tmp_path / "source", "--data", data_dir, "--task", "sst2", "--max-drop", 100, "--exit-cost", 1,
           "--max-length", 32, "--out", tmp_path / "c")  # fmt: skip
    found = AlbertPlusForSequenceClassification.from_pretrained(tmp_path / "c", dtype="auto").eval()
    assert (found.dtype, found.config.exit_layers, found.config.exit_head) == (dtype, [2], head)
    assert read_record(tmp_path / "c").result["layers"] == [2, 4]
    assert read_record(tmp_path / "c").result["cost"] == 3
    batch = load_tokenizer(tmp_path / "c", found.config)(["a good film", "no"], padding=True, return_tensors="pt")
    with torch.no_grad():
        mine, theirs = (model(**batch, output_exits=True) for model in (found, source))
    assert torch.equal(mine.logits, theirs.logits)
    assert len(mine.exit_logits) == 1
    assert torch.equal(mine.exit_logits[0], theirs.exit_logits[0])


def threshold_between(model, tokenizer, texts: list[str]) -> tuple[float, list[str]]:
    """A threshold that no text's entropy at any exit is as near to as rounding could move it; and three texts, of which the first
    leaves by the first exit and the last does not."""
    with torch.no_grad():
        said = [model(**tokenizer([text], return_tensors="pt"), output_exits=True).exit_logits for text in texts]
    probabilities_NJC = torch.stack([torch.cat(logits) for logits in said]).softmax(-1)
    entropies_NJ = -(probabilities_NJC * probabilities_NJC.log()).sum(-1) / numpy.log(2)
    order = entropies_NJ[:, 0].argsort()
    low, high = entropies_NJ[order[len(order) // 4], 0], entropies_NJ[order[-(len(order) // 4)], 0]
    values = entropies_NJ[(low <= entropies_NJ) & (entropies_NJ <= high)].sort().values
    widest = values.diff().argmax()
    assert values.diff()[widest] > 1e-5
    return float(values[widest : widest + 2].mean()), [texts[order[place]] for place in (0, len(order) // 2, -1)]


@pytest.mark.slow
def test_graphs_that_leave_are_exports_like_others(with_exits, data_dir, tmp_path):
    folder, form = with_exits
    invoke("calibrate", "--model", folder / "exits", "--data", data_dir, "--task", "sst2", "--max-drop", 100,
           "--keep-exits", "--max-length", 32, "--out", tmp_path / "c")  # fmt: skip
    config = json.loads((tmp_path / "c" / "config.json").read_text())
    model = AlbertPlusForSequenceClassification.from_pretrained(tmp_path / "c").eval()
    tokenizer = load_tokenizer(tmp_path / "c", model.config)
    rows = load_split(str(data_dir), get_task("sst2"), "validation")["sentence"][:]
    threshold, three = threshold_between(model, tokenizer, rows)
    batch = tokenizer(three, padding=True, return_tensors="pt")
    (tmp_path / "c" / "config.json").write_text(json.dumps({**config, "exit_threshold": threshold}))
    (tmp_path / "c" / "record.json").unlink()
    invoke(
        "export",
        tmp_path / "c",
        "--to",
        "onnx-exits",
        "--to",
        "onnx-int8-exits",
        "--exit-form",
        form,
        "--out",
        tmp_path / "e",
    )
    exports = read_record(tmp_path / "e").result["exports"]
    assert {facts["form"] for facts in exports.values()} == {form}
    assert all("milliseconds" not in facts for facts in exports.values())
    assert ("no_loop" in exports["onnx-exits"]) == (form == "segments")
    assert exports["onnx-exits"]["rows_that_leave_alike"] == exports["onnx-exits"]["rows_compared"] > 10
    int8 = exports["onnx-int8-exits"]
    products = ["narrow_weight", "query_weight", "key_weight", "value_weight", "output_weight", "dense_weight",
                "classifier_weight"] if form == "loop" else []  # fmt: skip
    kept = [f"exits.{name}" for name in products]
    assert int8["threshold_found_on"] == "the model's logits in torch, by albert-plus calibrate"
    assert {facts["threshold"] for facts in exports.values()} == {threshold}
    assert int8["kept_fp32"] == kept
    assert int8["quantised_products"] == int8["weight_products"] - len(kept) > 6
    engine = Engine.load(tmp_path / "e", "onnx-exits", threads=1)
    rule = Criterion("entropy", threshold)
    expected, found = (
        run_with_exits(AlbertPlusForSequenceClassification.from_pretrained(tmp_path / "c").eval(), rule, **batch),
        engine(**batch),
    )
    assert torch.equal(found.layers, expected.layers_B)
    assert len(set(found.layers.tolist())) > 1
    torch.testing.assert_close(found.logits, expected.logits_BC, atol=1e-5, rtol=1e-5)
    engine.threshold = 0.0
    with torch.no_grad():
        torch.testing.assert_close(engine(**batch).logits, model(**batch).logits, atol=1e-5, rtol=1e-5)
    assert engine(**batch).layers.tolist() == [4, 4, 4]
    words = ("--task", "sst2", "--data", data_dir, "--max-length", 32)
    invoke(
        "eval",
        tmp_path / "e",
        *(f"{tmp_path / 'e'}:{name}" for name in exports),
        *words,
        "--json",
        tmp_path / "scores.json",
    )
    torch_row, fp32, _ = (row["runs"][0] for row in json.loads((tmp_path / "scores.json").read_text())["rows"])
    alone = [int(run_with_exits(model, rule, **tokenizer([text], return_tensors="pt")).layers_B) for text in rows]
    assert fp32["average_layers"] == pytest.approx(sum(alone) / len(alone), abs=1e-4)
    assert "average_layers" not in torch_row


@pytest.mark.slow
@pytest.mark.parametrize("with_exits", ["loop"], indirect=True)
def test_rows_that_leave_elsewhere_are_no_parity(with_exits, data_dir, tmp_path, monkeypatch):
    """Nothing is left to compare then."""
    folder, _ = with_exits
    invoke("calibrate", "--model", folder / "exits", "--data", data_dir, "--task", "sst2", "--max-drop", 100, "--max-length", 32,
           "--out", tmp_path / "c")  # fmt: skip

    def later(*given, **inputs):
        out = run_with_exits(*given, **inputs)
        return replace(out, layers_B=out.layers_B + 1)

    monkeypatch.setattr(parity, "run_with_exits", later)
    with pytest.raises(ParityError, match="50 % of the rows must leave where torch's do.*train them longer"):
        invoke("export", tmp_path / "c", "--to", "onnx-int8-exits", "--out", tmp_path / "e")


@pytest.mark.slow
def test_exits_are_timed_on_real_sentences_alone(exits_dir, data_dir, tmp_path, short_benches):
    words = (
        "bench",
        f"exits={exits_dir}:onnx-exits",
        "--baseline",
        f"plain={exits_dir}:onnx",
        "--seconds",
        0.05,
        "--threads",
        1,
    )
    with pytest.raises(
        InvalidInput, match="random tokens leave where they please, got exits.* without --data; add --data"
    ):
        invoke(*words, "--shapes", "1x8")
    real = ("--data", data_dir, "--task", "sst2", "--max-length", 32, "--scenario", "single-stream")
    with pytest.raises(InvalidInput, match="as the baseline of --shapes; use another --baseline"):
        invoke("bench", f"{exits_dir}:onnx", "--baseline", f"{exits_dir}:onnx-exits", "--shapes", "1x8", *real)
    invoke(*words, "--shapes", "1x8", *real, "--json", tmp_path / "bench.json")
    document = json.loads((tmp_path / "bench.json").read_text())
    found = {row["name"]: list(row["loads"]) for row in document["rows"]}
    assert found == {"plain": ["1x8", "sst2 single stream"], "exits": ["sst2 single stream"]}
    assert document["loads"] == found["plain"]


def test_graphs_with_exits_answer_calls_at_once():
    assert RUNTIMES["onnx-exits"].concurrent
    assert RUNTIMES["onnx-int8-exits"].concurrent


def test_what_has_no_exits_or_no_threshold_is_told_so(classifier_dir, with_exits, data_dir, tmp_path):
    folder, _ = with_exits
    words = ("--data", data_dir, "--task", "sst2", "--max-length", 32, "--out", tmp_path / "c")
    with pytest.raises(InvalidInput, match="--model must be a classifier with exits, got .* without; train some"):
        invoke("calibrate", "--model", classifier_dir, *words)
    with pytest.raises(InvalidInput, match="--max-length must not exceed the model's 64 positions, got 128"):
        invoke("calibrate", "--model", folder / "exits", *words, "--max-length", 128)
    with pytest.raises(InvalidInput, match="onnx-exits needs a classifier with exits and a threshold, got no exits"):
        invoke("export", classifier_dir, "--to", "onnx-exits", "--out", tmp_path / "e")
    with pytest.raises(InvalidInput, match="onnx-int8-exits needs .* got no threshold; .* then albert-plus calibrate"):
        invoke("export", folder / "exits", "--to", "onnx-int8-exits", "--out", tmp_path / "e")
    with pytest.raises(InvalidInput, match="--max-drop must be a number from 0"):
        CalibrateSettings(max_drop=-1)
    with pytest.raises(InvalidInput, match="--folds must be from 2 to 1,000"):
        CalibrateSettings(folds=1)
    with pytest.raises(InvalidInput, match="--folds 900 need at least 1800 rows .* use fewer --folds, or more rows"):
        invoke("calibrate", "--model", folder / "exits", *words, "--folds", 900)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("with_exits", ["loop"], indirect=True)
def test_the_faster_form_is_taken_where_there_are_two(with_exits, data_dir, tmp_path):
    folder, _ = with_exits
    invoke("calibrate", "--model", folder / "exits", "--data", data_dir, "--task", "sst2", "--keep-exits", "--max-length", 32, "--out", tmp_path / "c")  # fmt: skip
    invoke("export", tmp_path / "c", "--to", "onnx-exits", "--out", tmp_path / "e")
    facts = read_record(tmp_path / "e").result["exports"]["onnx-exits"]
    assert facts["form"] == min(facts["milliseconds"], key=facts["milliseconds"].get)
    assert set(facts["milliseconds"]) == {"loop", "segments"}
    with pytest.raises(InvalidInput, match="--exit-form must be one of .*, got 'lop'"):
        invoke("export", tmp_path / "c", "--to", "onnx-exits", "--exit-form", "lop", "--out", tmp_path / "no")


@pytest.mark.slow
@pytest.mark.parametrize("with_exits", ["segments"], indirect=True)
def test_a_loop_that_cannot_be_is_refused(with_exits, data_dir, tmp_path):
    folder, _ = with_exits
    invoke("calibrate", "--model", folder / "exits", "--data", data_dir, "--task", "sst2", "--max-length", 32, "--out", tmp_path / "c")  # fmt: skip
    with pytest.raises(InvalidInput, match="a loop over 4 layers needs exits at even distances"):
        invoke("export", tmp_path / "c", "--to", "onnx-exits", "--exit-form", "loop", "--out", tmp_path / "no")
