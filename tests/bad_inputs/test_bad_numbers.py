"""Numbers that mean nothing are refused before anything is opened, in Python as on the command line; names are printed as they are."""

import json
import math
import sys
import time

import pytest

from hf_albert_plus.batch_scoring.settings import ScoreSettings
from hf_albert_plus.bootstrap import percentile_interval
from hf_albert_plus.cli.console import print_rows, printable
from hf_albert_plus.cli.pipeline import RunSettings
from hf_albert_plus.distillation.methods import get_method
from hf_albert_plus.distillation.phases import Layers
from hf_albert_plus.distillation.settings import AugmentSettings
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.batched_inference import parse_batching
from hf_albert_plus.eval.metrics import METRICS, compute_metrics
from hf_albert_plus.eval.settings import BenchSettings, EvalSettings, PlanSettings, ServedSettings
from hf_albert_plus.eval.targets import parse_shapes
from hf_albert_plus.pretraining.settings import published_learning_rate
from hf_albert_plus.tasks.glue import TASKS
from hf_albert_plus.text.documents import Part
from hf_albert_plus.text.settings import TokenizerSettings

DIGITS = "9" * 5000
NONE = [math.nan, math.inf, -math.inf, -1, 1e300]
COUNTS = [-1, 0, 10**18, 10**30]


@pytest.mark.parametrize("value", NONE, ids=str)
@pytest.mark.parametrize(
    ("kind", "name"),
    [(BenchSettings, "seconds"), (ServedSettings, "seconds"), (ServedSettings, "wait_ms"), (PlanSettings, "rate"), (AugmentSettings, "probability")],
)  # fmt: skip
def test_numbers_that_mean_nothing_are_refused(kind, name, value):
    with pytest.raises(InvalidInput, match=f"--{name.replace('_', '-')} must be .*; use --{name.replace('_', '-')} "):
        kind(**{name: value})


@pytest.mark.parametrize("value", [*NONE, 0], ids=str)
def test_rates_that_mean_nothing_are_refused(value):
    with pytest.raises(InvalidInput, match="--rate must be greater than 0"):
        BenchSettings(rate=(100.0, value))


@pytest.mark.parametrize("value", COUNTS)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (EvalSettings, "rounds"), (ServedSettings, "texts"), (ServedSettings, "clients"), (PlanSettings, "texts"),
        (AugmentSettings, "copies"), (AugmentSettings, "candidates"), (TokenizerSettings, "vocab_size"), (TokenizerSettings, "sample"),
        (ScoreSettings, "token_budget"), (ScoreSettings, "part_rows"),
    ],
)  # fmt: skip
def test_counts_that_mean_nothing_are_refused(kind, name, value):
    with pytest.raises(InvalidInput, match=f"--{name.replace('_', '-')} must be .*{value}"):
        kind(**{name: value})


@pytest.mark.parametrize("kind", [EvalSettings, BenchSettings, ServedSettings])
@pytest.mark.parametrize("value", [-1, 0, 3])
def test_lengths_without_room_for_a_word_are_refused(kind, value):
    with pytest.raises(
        InvalidInput, match=f"--max-length must be at least 4 and at most 1,048,576, got {value}; use --max-length 128"
    ):
        kind(max_length=value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "list of BATCHxLENGTH"),
        ("axb", "list of BATCHxLENGTH, got 'axb'"),
        ("0x0", "list of BATCHxLENGTH"),
        ("1x0", "list of BATCHxLENGTH"),
        ("1x1e9", "list of BATCHxLENGTH"),
        ("1x8,", "list of BATCHxLENGTH"),
        ("١x8", "list of BATCHxLENGTH"),
        (f"1x{DIGITS}", "list of BATCHxLENGTH, got '1x9{100,200} …"),
        ("999999999x999999999", "at most 1,048,576 tokens a batch, got 999999999x999999999"),
        ("999999x8", "at most 1,048,576 tokens"),
    ],
    ids=lambda value: value[:12],
)
def test_shapes_that_are_none_are_refused(text, said):
    with pytest.raises(InvalidInput, match=said):
        parse_shapes(text)
    with pytest.raises(InvalidInput, match=said):
        RunSettings(shapes=text)


@pytest.mark.parametrize(
    "text",
    ["file:0", "length:0", "file:-1", "file:", "x", f"file:{DIGITS}", f"length:{DIGITS}"],
    ids=lambda text: text[:12],
)
def test_batchings_that_are_none_are_refused(text):
    with pytest.raises(
        InvalidInput, match="--batching must be length, length:TOKENS or file:ROWS, got .*; use --batching"
    ):
        parse_batching(text)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300, 10**30], ids=str)
@pytest.mark.parametrize("name", ["temperature", "epochs", "hidden_weight"])
def test_settings_of_methods_are_finite(name, value):
    with pytest.raises(InvalidInput, match=f"--set {name} must be a number up to 1,000,000, got .*; use --set {name}="):
        get_method("kd-hidden").phases(Layers(student=2, teacher=4), {name: value})


def test_no_batch_has_no_learning_rate_of_its_own():
    """The settings refuse the batch; until then a rate is computed from it."""
    assert published_learning_rate("lamb", batch_size=-1) > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--teacher", "x", "--data", "y", "--task", "sst2", "--out", "z", "--seconds", "nan"], "--seconds must be"),
        (["run", "--teacher", "x", "--data", "y", "--task", "sst2", "--out", "z", "--seconds", "inf"], "--seconds must be"),
        (["run", "--teacher", "x", "--data", "y", "--task", "sst2", "--out", "z", "--shapes", ""], "--shapes must be"),
        (["eval", "{model}", "--data", "y", "--task", "sst2", "--max-length", "0"], "--max-length must be at least 4"),
        (["eval", "{model}", "--data", "y", "--task", "sst2", "--rounds", str(10**30)], "--rounds must be at least 1 and at most 1,000"),
        (["eval", "{model}", "--data", "..", "--task", "sst2", "--batching", "file:0"], "--batching must be"),
        (["submit", "sst2={model}", "--data", "y", "--max-length", "-1"], "--max-length must be at least 4"),
        (["retrieve", "x", "--data", "y", "--task", "mrpc", "--max-length", "-1"], "--max-length must be at least 4"),
        (["bench", "{model}", "--baseline", "{model}", "--seconds", "nan"], "--seconds must be"),
        (["bench", "{model}", "--baseline", "{model}", "--seconds", "inf"], "--seconds must be"),
        (["bench", "{model}", "--baseline", "{model}", "--shapes", ""], "--shapes must be"),
        (["bench", "{model}", "--baseline", "{model}", "--data", "y", "--task", "sst2", "--rate", "nan"], "--rate must be"),
        (["bench", "{model}", "--baseline", "{model}", "--data", "y", "--task", "sst2", "--rate", "inf"], "--rate must be"),
        (["bench-serve", "x", "--data", "y", "--task", "sst2", "--clients", str(10**9)], "--clients must be at least 1"),
        (["bench-serve", "x", "--data", "y", "--task", "sst2", "--texts", "0"], "--texts must be at least 1"),
        (["bench-pretrain", "--corpus", "x", "--seconds", "inf"], "--seconds must be"),
        (["capacity", "x.json", "--rate", "inf"], "--rate must be"),
        (["augment", "--data", "y", "--task", "sst2", "--out", "z", "--word-vectors", "x", "--copies", str(10**9)], "--copies must be at least 1"),
        (["tokenizer", "train", "--corpus", "x.txt", "--out", "z", "--vocab-size", str(10**12)], "--vocab-size must be at least 32"),
        (["corpus", "build", "--corpus", "x.txt", "--tokenizer", "y", "--out", "z", "--held-out", "nan"], "--held-out must be"),
        (["score", "--input", "x.txt", "--engine", "y", "--output", "z", "--token-budget", str(10**30)], "--token-budget must be"),
    ],
    ids=lambda words: f"{words[0]} {words[-2]} {words[-1][:10]}" if isinstance(words, list) else None,
)  # fmt: skip
def test_verbs_refuse_numbers_before_they_open_anything(words, said, classifier_dir, tmp_path, monkeypatch, capsys):
    from hf_albert_plus.cli.app import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["albert-plus", *(word.format(model=classifier_dir) for word in words)])
    start = time.thread_time()
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, said in capsys.readouterr().err) == (2, True)
    assert time.thread_time() - start < 20
    assert list(tmp_path.iterdir()) == []


def test_metrics_that_are_no_numbers_are_undefined():
    """No JSON has them."""
    import numpy

    task, labels = TASKS["stsb"], numpy.array([1.0, 2.0, 3.0])
    with numpy.errstate(all="ignore"):
        found = compute_metrics(numpy.array([1e308, -1e308, 1e308]), labels, task)
    assert all(value is None or math.isfinite(value) for value in found.values())
    json.dumps(found, allow_nan=False)
    assert percentile_interval(numpy.array([1.0, numpy.inf])) is None
    assert set(METRICS) >= set(task.metrics)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("[red]x[/]", "[red]x[/]"), ("a\nb", r"a\nb"), ("a\x1b[31mb", r"a\x1b[31mb"), ("\x07\r", r"\x07\r"), ("é 文", "é 文"), ("\u202eb", r"\u202eb")],
)  # fmt: skip
def test_names_are_printed_as_they_are(text, shown, capsys):
    from rich.text import Text

    assert Text.from_markup(printable(text)).plain == shown
    print_rows(["model", "score"], [[text, "[/] 1"]], title=text)
    printed = capsys.readouterr().out
    assert printed.count(shown) == 2
    assert "[/] 1" in printed


def test_an_error_is_printed_as_it_is(monkeypatch, capsys):
    from hf_albert_plus.cli.app import main

    monkeypatch.setattr(sys, "argv", ["albert-plus", "card", "[red]\x1b[31m[/x]"])
    with pytest.raises(SystemExit):
        main()
    assert r"[red]\x1b[31m[/x]" in capsys.readouterr().err


def test_parts_know_the_option_that_named_them(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="--text must be UTF-8"):
        list(Part(str(tmp_path / "t.txt"), "text", 0, 1, size=1, option="--text").documents())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"teacher_epochs": -1}, "--teacher-epochs must be above 0 and at most 1,000,000, got -1; use --teacher-epochs 1"),
        ({"student_epochs": 0}, "--student-epochs must be above 0"),
        ({"learning_rate": 2}, "--learning-rate must be between 0 and 1, got 2"),
        ({"student_learning_rate": 2}, "--student-learning-rate must be between 0 and 1, got 2; use --student-learning-rate 5e-5"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)  # fmt: skip
def test_a_run_names_the_option_that_was_given(given, said):
    with pytest.raises(InvalidInput, match=said):
        RunSettings(**given)
