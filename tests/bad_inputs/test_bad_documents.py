"""Documents of another shape, of another verb or with parts that do not belong together are refused with their place."""

import copy
import json
import os
import sys

import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.load.capacity import read_measured
from hf_albert_plus.eval.measured_documents import read_latency, read_scores, to_json
from hf_albert_plus.eval.predictions import read_predictions
from hf_albert_plus.eval.reporting.cards import read_facts, render
from hf_albert_plus.machine import FORMAT
from hf_albert_plus.tasks.glue import get_task

MACHINE = {
    "processor": "p", "cores": 2, "threads": 2, "affinity": [0, 1], "governor": None, "load_average": 0.5, "memory_gib": 4.0,
    "features": ["avx2"], "platform": "x", "versions": {"torch": "2", "onnxruntime": "1"},
}  # fmt: skip
SCORES = {
    "kind": "scores", "format": FORMAT, "task": "sst2", "protocol": "GLUE", "data": {"path": "d", "sha256": "0"}, "max_length": 32,
    "references": {"sst2": [0, 1]},
    "rows": [{
        "label": "a torch fp32", "name": "a", "runtime": "torch", "task": "sst2", "split": "validation", "examples": 2,
        "glue_examples": 872, "metrics": {"accuracy": 50.0}, "spread": {"accuracy": [50.0, 50.0]}, "intervals": {"accuracy": [0.0, 100.0]},
        "runs": [{
            "directory": "d", "seed": 1, "metrics": {"accuracy": 50.0}, "model_sha256": "1", "architecture_sha256": "2",
            "predictions": [0, 0],
        }],
    }],
    "environment": MACHINE,
}  # fmt: skip
CELL = {
    "p50_ms": 1.0, "p90_ms": 1.0, "p95_ms": 1.0, "p99_ms": 1.0, "max_ms": 1.0, "samples": 2, "outliers": 0, "items_per_s": 9.0,
    "speedup": 1.0, "speedup_interval": [1.0, 1.0], "warm_up": {"calls": 3, "stable": True}, "rounds": [[1.0], [1.0]],
}  # fmt: skip
LATENCY = {
    "kind": "latency", "format": FORMAT, "baseline": "a torch fp32", "loads": ["1x8"],
    "ceilings": {"fp32": {"gops_per_s": 10.0, "library": "torch"}},
    "rows": [{
        "label": "a torch fp32", "name": "a", "runtime": "torch", "directory": "d", "parameters": 9, "effective_parameters": 18, "sequence_flops": 512,
        "published_training_speedup": None, "file_bytes": 36, "load_ms": 1.0, "load_mb": 1.0, "peak_rss_mb": 9.0,
        "model_sha256": "1", "architecture_sha256": "2", "loads": {"1x8": CELL},
    }],
    "traffic": None, "environment": {**MACHINE, "load_average_after": 0.4},
}  # fmt: skip
SERVED = {
    "kind": "served", "texts_a_request": 1, "environment": {"cores": 2}, "throughput": {"served": {"items_per_s": 400.0}},
    "one_at_a_time": {"p50_ms": 4.0}, "half_pace": {"p99_ms": 9.0},
}  # fmt: skip
CARD = {
    "kind": "card", "name": "a-sst2", "task": "sst2", "data_name": "GLUE", "protocol": "GLUE", "max_length": 32,
    "encoder": {
        "model_type": "albert_plus", "num_hidden_layers": 2, "hidden_size": 8, "embedding_size": 4, "num_attention_heads": 2,
        "intermediate_size": 8, "attention_map": [0, 0], "ffn_map": [0, 1],
    },
    "parameters": {"head": {"stored": 1, "effective": 1}}, "training": {}, "baseline": "b", "machine": MACHINE,
    "scores": [{
        "label": "a", "runtime": "torch", "task": "sst2", "split": "validation", "examples": 2, "glue_examples": 872,
        "metrics": {"accuracy": 50.0}, "seeds": [1], "in_words": {"accuracy": "50.0"}, "against_baseline": "+1.0",
    }],
    "latency": [{"label": "a", "runtime": "torch", "sizes": {}, "loads": {"1x8": {"pace": "1", "speedup": "1x"}}}],
}  # fmt: skip
KINDS = {
    "scores": (SCORES, read_scores),
    "latency": (LATENCY, read_latency),
    "served": (SERVED, read_measured),
    "card": (CARD, read_facts),
}


def written(folder, content):
    path = folder / "document.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def changed(document, place, value):
    """A copy with another value at `a.0.b`; without it, where the value is `...`."""
    document = copy.deepcopy(document)
    *above, last = [int(key) if key.isdecimal() and not key.startswith("1x") else key for key in place.split(".")]
    inner = document
    for key in above:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return document


@pytest.mark.parametrize("kind", KINDS)
def test_whole_documents_are_read_as_they_are(kind, tmp_path):
    document, read = KINDS[kind]
    found = read(written(tmp_path, document))
    if kind != "served":
        assert json.dumps(to_json(found)) == json.dumps(document)  # the keys in their order too
    if kind == "card":
        assert "# a-sst2" in render(found)


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("scores", ["rows.0.spread", "rows.0.runs.0.metrics"]),
        (
            "latency",
            [
                "traffic",
                "rows.0.parameters",
                "rows.0.file_bytes",
                "rows.0.load_ms",
                "rows.0.published_training_speedup",
            ],
        ),
    ],
)
def test_documents_of_earlier_versions_may_lack_figures_and_have_others(kind, places, tmp_path):
    document, read = KINDS[kind]
    for place in places:
        document = changed(document, place, ...)
    document = changed(changed(document, "rows.0.more", 1), "environment.more", {"a": 1})
    assert read(written(tmp_path, document)).rows[0].label == "a torch fp32"


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[]", b"5", b'"x"', b"null", b"{}", b'{"kind": ["x"]}', b'{"kind": NaN}', b"[" * 100_000],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_such_document_is_refused(kind, content, tmp_path):
    path = written(tmp_path, content)
    with pytest.raises(InvalidInput, match=r"; (measure again|make|swap)") as raised:
        KINDS[kind][1](path)
    assert str(path) in str(raised.value) or "a file of kind" in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_is_not_waited_for(kind, tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InvalidInput, match="must be a JSON file, got .*pipe.json, which is no regular file"):
        KINDS[kind][1](tmp_path / "pipe.json")


@pytest.mark.parametrize(
    ("kind", "place", "value", "said"),
    [
        ("scores", "rows", [], "rows: List should have at least 1 item"),
        ("scores", "rows.0.runs", [], "rows.0.runs: List should have at least 1 item"),
        ("scores", "rows.0.name", "../../a", "rows.0.name: String should match pattern"),
        ("scores", "rows.0.metrics.accuracy", 1e308, "rows.0.metrics.accuracy"),
        ("scores", "rows.0.metrics.accuracy", "x", "rows.0.metrics.accuracy"),
        ("scores", "rows.0.intervals.accuracy", [1.0], "rows.0.intervals.accuracy: List should have at least 2 items"),
        ("scores", "rows.0.runs.0.predictions", [None, 1], r"rows.0.runs.0.predictions.0"),
        ("scores", "rows.0.runs.0.directory", "a\0b", "rows.0.runs.0.directory: String should match pattern"),
        ("scores", "environment", ..., "environment: Field required"),
        ("scores", "environment.cores", "2", "environment.cores: Input should be a valid integer"),
        ("scores", "references.sst2", [0, 1, 1], "belong together, got another number of predictions of 'a torch fp32' than of labels"),
        ("scores", "references", {}, "belong together"),
        ("scores", "rows.0.task", "mrpc", "belong together, got a row of 'mrpc' among those of sst2"),
        ("scores", "rows.0.metrics", {"f1": 1.0}, "belong together, got the metrics f1 of 'a torch fp32', and sst2 has accuracy"),
        ("scores", "task", "sst3", "belong together, got the task 'sst3'"),
        ("latency", "baseline", "b", "its baseline's too, got the baseline 'b' among the rows a torch fp32"),
        ("latency", "loads", [], "loads: List should have at least 1 item"),
        ("latency", "loads", ["a\0b"], r"loads.0: String should match pattern"),
        ("latency", "rows.0.loads.1x8.p50_ms", 0, "rows.0.loads.1x8.p50_ms"),
        ("latency", "rows.0.loads.1x8.rounds", [[]], "rows.0.loads.1x8.rounds.0: List should have at least 1 item"),
        ("latency", "rows.0.loads.1x8.speedup_interval", None, "rows.0.loads.1x8.speedup_interval"),
        ("latency", "ceilings.fp32", 5, "ceilings.fp32"),
        ("latency", "environment.load_average_after", ..., "environment.load_average_after: Field required"),
        ("served", "texts_a_request", 0, "texts_a_request"),
        ("served", "throughput.served.items_per_s", 0, "throughput.served.items_per_s"),
        ("served", "environment", [], "environment"),
        ("served", "half_pace.p99_ms", "9", "half_pace.p99_ms"),
        ("card", "encoder.num_hidden_layers", 10**30, "num_hidden_layers"),
        ("card", "encoder.ffn_map", ..., "ffn_map: Field required"),
        ("card", "encoder.exit_layers", [1], "exit_head: Field required"),
        ("card", "parameters.head.stored", "1", "parameters.head.stored"),
        ("card", "training", {"stage": "x"}, "training"),
        ("card", "scores", [], "scores: List should have at least 1 item"),
        ("card", "scores.0.in_words", {}, "belong together, got scores that are none of 'sst2'"),
        ("card", "task", "sst3", "must come from albert-plus card or report"),
        ("card", "task", "stsb", "belong together, got scores that are none of 'stsb'"),
        ("card", "machine.versions.torch", ..., "machine.versions.torch: Field required"),
    ],
)  # fmt: skip
def test_documents_of_another_shape_are_refused_with_the_place(kind, place, value, said, tmp_path):
    document, read = KINDS[kind]
    path = written(tmp_path, changed(document, place, value))
    with pytest.raises(InvalidInput, match=said) as raised:
        read(path)
    assert str(path) in str(raised.value)
    assert "; measure again: albert-plus" in str(raised.value) or "; make " in str(raised.value)


def test_rows_of_a_card_have_the_same_loads(tmp_path):
    other = {**CARD["latency"][0], "loads": {"8x8": {"pace": "1", "speedup": "1x"}}}
    with pytest.raises(InvalidInput, match="belong together, got rows of several loads"):
        read_facts(written(tmp_path, {**CARD, "latency": [*CARD["latency"], other]}))


def test_a_model_of_two_names_and_a_score_that_is_undefined_are_reported(classifier_dir, tmp_path):
    """The file is the same: its card has the name of the table."""
    from hf_albert_plus.eval.reporting.stage import report

    scores = changed(SCORES, "rows.0.runs.0.directory", str(classifier_dir))
    scores = {
        **scores,
        "rows": [
            *scores["rows"],
            {**scores["rows"][0], "label": "c torch fp32", "name": "c", "metrics": {"accuracy": None}},
        ],
    }
    scores["rows"][1]["runs"] = [{**scores["rows"][0]["runs"][0], "model_sha256": "3"}]
    latency = changed(changed(LATENCY, "rows.0.name", "b"), "rows.0.label", "b torch fp32")
    paths = []
    for name, document in (("scores", scores), ("latency", {**latency, "baseline": "b torch fp32"})):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(document))
    report([paths[0]], bench=paths[1], output=tmp_path / "report", title="t", data_name="d")
    assert {path.name for path in (tmp_path / "report" / "cards").glob("*.json")} == {"b-sst2.json", "c-sst2.json"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "must be UTF-8 with tabs .*; write it as GLUE's submissions are"),
        ("index\tprediction\n0\t1\n".encode("utf-16"), "must be UTF-8"),
        (
            b"index\tprediction\n0\t" + b"x" * 200_000 + b"\n",
            "field larger than|a prediction of sst2 must be 0 negative, 1 positive, got .x",
        ),
        (b'{"kind": "scores"}', "must have the columns index and prediction"),
        (b"index\tprediction\n" + b"9" * 5000 + b"\t1\n", "an index must be a number, each once, got '9{100,200} …"),
        ("index\tprediction\n²\t1\n".encode(), "an index must be a number, each once, got '²'"),
        (b"index\tprediction\n0\t" + b"9" * 5000 + b"\n", "a prediction of sst2 must be .* got '9{100,200} …"),
    ],
    ids=range(7),
)
def test_broken_prediction_files_are_refused(content, said, tmp_path):
    path = tmp_path / "predictions.tsv"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=said) as raised:
        read_predictions(path, get_task("sst2"))
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "words",
    [
        ["report", "--scores", "{it}", "--bench", "{it}", "--out", "z"],
        ["card", "{it}"],
        ["capacity", "{it}"],
        ["eval", "--predictions", "{it}", "--task", "sst2", "--data", "{data}"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("content", [b"[]", b"\xff", b"null"])
def test_every_verb_says_what_is_wrong_with_its_documents(words, content, data_dir, tmp_path, monkeypatch, capsys):
    from hf_albert_plus.cli.app import main

    path = written(tmp_path, content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["albert-plus", *(word.format(it=path, data=data_dir) for word in words)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, str(path) in capsys.readouterr().err) == (2, True)
