"""`--json` of the verbs that measure: a file beside the tables, or standard output in their place."""

import json

import pytest

from hf_albert_plus.cli.json_argument import OneVerb, _with_dash
from tests.support.command_line import commands, invoke


@pytest.fixture
def scored(exported_dir, data_dir):
    return ["eval", f"student={exported_dir}:onnx", "--task", "sst2", "--data", data_dir, "--max-length", 32]


@pytest.mark.parametrize("words", [["--json"], ["--json", "-"]])
def test_without_a_file_the_numbers_alone_are_printed(words, scored, tmp_path):
    printed = json.loads(invoke(*scored, *words).stdout)
    told = invoke(*scored, "--json", tmp_path / "scores.json")
    written = json.loads((tmp_path / "scores.json").read_text())
    assert "student onnx fp32" in told.stdout
    assert not (tmp_path / "-").exists()
    assert [row["metrics"] for row in printed["rows"]] == [row["metrics"] for row in written["rows"]]


@pytest.mark.slow
def test_an_option_may_follow(exported_dir, short_benches):
    words = ["bench", "--json", "--baseline", f"{exported_dir}:onnx", "--shapes", "1x8", "--seconds", 0.05, f"a={exported_dir}:onnx"]  # fmt: skip
    document = json.loads(invoke(*words).stdout)
    assert [row["label"] for row in document["rows"]] == ["a onnx fp32", "model onnx fp32"]
    assert document["rows"][0]["loads"]["1x8"]["p50_ms"] > 0


@pytest.mark.parametrize(
    ("given", "read"),
    [("", ""), ("--json", "--json -"), ("a --json", "a --json -"), ("--json --out b", "--json - --out b"), ("--json c a", "--json c a"), ("a b", "a b")],
)  # fmt: skip
def test_a_dash_stands_where_no_file_does(given, read):
    assert _with_dash(given.split()) == read.split()


def test_every_json_of_the_command_line_may_stand_alone():
    verbs = [each for each in commands().values() if any("--json" in p.opts for p in each.params)]
    assert len(verbs) > 25
    assert [each.name for each in verbs if not (isinstance(each, OneVerb) or all(p.is_flag for p in each.params if "--json" in p.opts))] == []  # fmt: skip
