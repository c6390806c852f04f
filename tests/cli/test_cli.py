"""The command line as its user meets it."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.benches import shortened_benches
from tests.support.command_line import invoke
from tests.support.processes import running

VERBS = [
    "demo",
    "run",
    "variants",
    "convert",
    "finetune",
    "distill",
    "augment",
    "retrieve",
    "export",
    "eval",
    "inspect",
    "bench",
    "report",
    "submit",
    "card",
    "push",
    "pretrain",
    "bench targets",
    "bench peers",
    "bench passes",
    "bench self-check",
    "bench cuda",
    "bench gpu",
    "bench pretrain",
    "tokenizer train",
    "tokenizer import",
    "corpus build",
    "serve",
    "bench serve",
    "capacity",
    "score",
    "embed",
    "qat",
    "prune",
    "sparsify",
    "calibrate",
    "calibrate-scores",
]
# As they were called before they were members of bench.
HIDDEN = ["bench-pretrain", "bench-serve"]


def albert_plus(*arguments, cwd=None, check=True, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "hf_albert_plus", *map(str, arguments)],
        capture_output=True, text=True, cwd=cwd, env={**os.environ, "COLUMNS": "100", **environment},
    )  # fmt: skip
    if check and done.returncode:
        raise AssertionError(done.stderr)
    return done


def _help_of(verb):
    from typer.testing import CliRunner

    from hf_albert_plus.cli.app import app

    return CliRunner().invoke(app, [*verb.split(), "--help"], env={"COLUMNS": "300"}).output


@pytest.mark.slow
@pytest.mark.parametrize("verb", [*VERBS, *HIDDEN])
def test_help_shows_an_example_that_parses(verb):
    """The example names only options that the verb has."""
    output = _help_of(verb)
    example = re.search(r"Example: albert-plus (.+)", output)
    assert example is not None
    words = example[1].split()
    assert example[1].startswith(f"{verb} ")
    for option in (word for word in words if word.startswith("--")):
        assert option in output.replace(example[0], "")


def test_help_of_serve_names_the_routes():
    assert all(route in _help_of("serve") for route in ("/classify", "/tag", "/answer", "/embed", "/v2"))


def test_help_lists_the_verbs():
    output = albert_plus("--help").stdout
    assert all(verb.split()[0] in output for verb in VERBS)
    assert not any(verb in output for verb in HIDDEN)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["finetune", "--model", "x", "--data", "y", "--task", "sst3", "--out", "z"], ["--task", "'sst3'", "did you mean 'sst2'"]),
        (["finetune", "--model", "x", "--data", "y", "--task", "sst2", "--out", "z", "--epochs", "-1"], ["--epochs", "-1", "use --epochs 1"]),
        (["finetune", "--model", "{encoder}", "--data", "no-such", "--task", "sst2", "--out", "z", "--max-length", "32"], ["--data", "no-such", "nyu-mll/glue"]),
        (["finetune", "--model", "no-such/model", "--data", "{data}", "--task", "sst2", "--out", "z"], ["--model", "no-such/model"]),
        (["finetune", "--model", "{encoder}", "--data", "{data}", "--task", "sst2", "--out", "z", "--max-length", "999"], ["--max-length", "999", "64"]),
        (["distill", "--teacher", "{model}", "--data", "{data}", "--task", "sst2", "--out", "z", "--max-length", "32", "--set", "layers"], ["key=value", "'layers'"]),
        (["distill", "--teacher", "{model}", "--data", "{data}", "--task", "sst2", "--out", "z", "--set", "num_layers=3"], ["num_hidden_layers"]),
        (["export", "{model}", "--to", "tflite", "--out", "z"], ["--to", "'tflite'", "onnx-int8"]),
        (["export", "nowhere", "--to", "onnx", "--out", "z"], ["nowhere", "config.json"]),
        (["eval", "{model}:onnx", "--task", "sst2", "--data", "{data}"], ["onnx/model.onnx", "albert-plus export"]),
        (["bench", "{model}", "--baseline", "{model}", "--shapes", "big"], ["--shapes", "'big'", "1x16"]),
        (["bench", "{model}", "--baseline", "{model}", "--shapes", "1x500"], ["500", "64"]),
        (["report", "--scores", "none.json", "--bench", "none.json", "--out", "z"], ["none.json"]),
        (["convert", "{data}", "--out", "z"], ["SOURCE"]),
        (["run", "--teacher", "{encoder}", "--data", "{data}", "--task", "sst2", "--out", "z", "--max-length", "32", "--student", "albert-base"], ["--student", "'albert-base-v1'"]),
        (["run", "--teacher", "{encoder}", "--data", "{data}", "--task", "sst2", "--out", "z", "--max-length", "32", "--shapes", "8x1024"], ["--shapes", "1024"]),
        (["run", "--teacher", "{encoder}", "--data", "{data}", "--task", "sst2", "--task", "qnli", "--out", "z", "--max-length", "32", "--shapes", "1x8"], ["qnli/train"]),
        (["finetune", "--model", "x", "--data", "y", "--task", "sst2", "--out", "z", "--seed", "-1"], ["--seed", "-1"]),
        (["distill", "--teacher", "{model}", "--data", "{data}", "--task", "sst2", "--out", "z", "--set", "hidden_act=swish2"], ["hidden_act", "'swish2'"]),
        (["run", "--teacher", "{encoder}", "--data", "{data}", "--task", "mrpc", "--out", "z", "--max-length", "32", "--method", "twinbert", "--shapes", "1x8"], ["--method twinbert", "use albert-plus distill --method twinbert"]),
        (["run", "--teacher", "{encoder}", "--data", "{data}", "--task", "sst2", "--out", "z", "--max-length", "32", "--method", "pkd", "--set", "temperature=0", "--shapes", "1x8"], ["temperature must be greater than 0"]),
        (["run", "--teacher", "{encoder}", "--data", "{data}", "--task", "sst2", "--out", "z", "--max-length", "32", "--method", "distilbert", "--shapes", "1x8"], ["the phase general needs a teacher with a masked language modelling head"]),
        (["distill", "--teacher", "{model}", "--data", "{data}", "--task", "sst2", "--out", "z", "--method", "extreme", "--max-length", "32"], ["a tokenizer of its own, got half", "train_new_from_iterator"]),
        (["demo", "--out", "z", "--stop-after", "sleep"], ["--stop-after", "'sleep'", "bench"]),
        (["run", "--teacher", "{encoder}", "--data", "{data}", "--task", "sst2", "--out", "z", "--max-length", "32", "--stop-after", "sleep"], ["--stop-after", "'sleep'", "bench"]),
    ],
)  # fmt: skip
def test_a_wrong_value_ends_with_2_the_repair_and_nothing_written(
    arguments, words, encoder_dir, classifier_dir, data_dir, tmp_path, monkeypatch, capsys
):
    from hf_albert_plus.cli.app import main

    names = {"encoder": encoder_dir, "model": classifier_dir, "data": data_dir}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["albert-plus", *(argument.format(**names) for argument in arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "error:" in said
    for word in words:
        assert word in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_wrong_value_shows_no_traceback(classifier_dir, tmp_path):
    done = albert_plus("export", classifier_dir, "--to", "tflite", "--out", tmp_path / "z", check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: --to must be a known export, got 'tflite'; ")


def test_a_missing_option_ends_with_2():
    done = albert_plus("finetune", check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def run_arguments(encoder_dir, data_dir):
    return [
        "run", "--teacher", encoder_dir, "--data", data_dir, "--task", "sst2", "--task", "stsb", "--teacher-epochs", "2",
        "--student-epochs", "2", "--max-length", "32", "--shapes", "1x8,2x16", "--seconds", "0.05", "--precision", "fp32",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def finished(run_arguments, tmp_path_factory):
    """A run that is killed while it trains its second student, and run again."""
    out = tmp_path_factory.mktemp("run") / "out"
    command = [sys.executable, "-m", "hf_albert_plus", *map(str, run_arguments), "--out", str(out)]
    half_done = out / "trained" / "student-stsb.partial"
    with running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 600
        while not half_done.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        assert half_done.exists()
        process.kill()
    assert not (out / "report").exists()
    before = {path: path.stat().st_mtime_ns for path in (out / "trained" / "student-sst2").rglob("*")}
    with shortened_benches():
        done = invoke(*run_arguments, "--out", out)
    assert {path: path.stat().st_mtime_ns for path in (out / "trained" / "student-sst2").rglob("*")} == before
    return out, done


@pytest.mark.slow
def test_a_killed_run_resumes_where_it_was(finished):
    out, done = finished
    assert done.stderr.count("done before") == 6  # sst2's five stages and stsb's teacher
    assert not list(out.rglob("*.partial"))
    assert (out / "report" / "report.html").exists()


@pytest.mark.slow
def test_a_run_prints_the_table_and_what_serves_its_students(finished):
    out, done = finished
    for name in ("student-sst2", "student-stsb"):
        line = f"to serve it: albert-plus serve {out / 'models' / name}:onnx-int8"
        assert line in done.stdout.splitlines()
    for label in (
        "teacher torch fp32",
        "teacher onnx fp32",
        "teacher onnx int8",
        "student torch fp32",
        "student onnx fp32",
        "student onnx int8",
    ):
        assert label in done.stdout
    assert "1.00x" in done.stdout
    assert "…" not in done.stdout


@pytest.mark.slow
def test_a_run_leaves_directories_that_transformers_opens(finished):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    out, _ = finished
    for name in ("teacher-sst2", "student-sst2", "teacher-stsb", "student-stsb"):
        directory = out / "models" / name
        tokenizer = AutoTokenizer.from_pretrained(directory)
        assert "token_type_ids" in tokenizer("one", "two")
        AutoModelForSequenceClassification.from_pretrained(directory)
        assert (directory / "onnx" / "model_int8.onnx").exists()
        assert (directory / "README.md").read_text().startswith("---\n")
    record = json.loads((out / "models" / "student-sst2" / "record.json").read_text())
    facts = record["result"]["exports"]["onnx-int8"]
    assert facts["quantised_products"] == facts["weight_products"] > 0
    assert record["result"]["trained"]["stage"] == "distill"


@pytest.mark.slow
def test_a_run_stops_after_a_stage_and_goes_on(run_arguments, tmp_path):
    out = tmp_path / "out"
    assert json.loads(invoke(*run_arguments, "--out", out, "--stop-after", "finetune", "--json").stdout)["rows"] == []
    teachers = {"teacher-sst2", "teacher-stsb"}
    assert {path.name for path in (out / "trained").iterdir()} == teachers
    done = invoke(*run_arguments, "--out", out, "--stop-after", "distill")
    assert done.output.count("done before") == 2
    assert {path.name for path in (out / "trained").iterdir()} == teachers | {"student-sst2", "student-stsb"}
    assert [path.name for path in out.iterdir()] == ["trained"]


@pytest.mark.slow
def test_a_finished_run_is_printed_again_as_json(finished, run_arguments):
    out, _ = finished
    done = albert_plus(*run_arguments, "--out", out, "--json")
    content = json.loads(done.stdout)
    assert next(row["model"] for row in content["rows"]) == "teacher torch fp32"
    assert done.stderr.count("done before") == 12


@pytest.mark.slow
def test_other_settings_in_the_same_directory_are_refused(finished, run_arguments):
    out, _ = finished
    done = albert_plus(*run_arguments, "--out", out, "--seed", "7", check=False)
    assert done.returncode == 2
    assert "settings.seed: 42 there, 7 asked for" in done.stderr


@pytest.mark.slow
def test_a_half_written_file_is_never_reused(finished, run_arguments, tmp_path):
    import shutil

    out, _ = finished
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    weights = copy / "trained" / "student-sst2" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    done = albert_plus(*run_arguments, "--out", copy, check=False)
    assert done.returncode == 2
    assert "model.safetensors differs from its record" in done.stderr


@pytest.mark.slow
def test_eval_bench_and_report_by_hand(finished, data_dir, tmp_path, short_benches):
    out, _ = finished
    student, teacher = out / "models" / "student-sst2", out / "models" / "teacher-sst2"
    targets = [f"student={student}:onnx-int8", f"teacher={teacher}"]
    scored = invoke(
        "eval", *targets, "--task", "sst2", "--max-length", "32", "--data", data_dir, "--json", tmp_path / "s.json"
    )
    assert "student onnx int8" in scored.stdout
    timed = invoke(
        "bench",
        targets[0],
        "--baseline",
        targets[1],
        "--shapes",
        "1x8",
        "--seconds",
        "0.05",
        "--json",
        tmp_path / "b.json",
    )
    assert "1.00x" in timed.stdout
    invoke("report", "--scores", tmp_path / "s.json", "--bench", tmp_path / "b.json", "--out", tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert text.index("teacher torch fp32") < text.index("student onnx int8")
    assert Path(tmp_path / "report" / "record.json").exists()
