"""The command line answers before it opens a library: help, completion, and what is wrong with a command."""

import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "datasets", "numpy", "onnx", "onnxruntime", "pyarrow", "huggingface_hub")

_HELP = """
import contextlib, io, sys

from hf_albert_plus.cli.app import app
import hf_albert_plus.cli.settings

assert "pydantic" not in sys.modules, "pydantic by our own imports"
import typer

def verbs(command, path=()):
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from verbs(below, (*path, name))

count = 0
for path in verbs(typer.main.get_command(app)):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            app([*path, "--help"])
        except SystemExit as ended:
            assert ended.code == 0, path
    assert "Usage" in said.getvalue(), path
    count += 1
print(count, *sorted(name for name in HEAVY if name in sys.modules))
"""


def _run(script, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True,
        env={**os.environ, "COLUMNS": "100", **environment},
    )  # fmt: skip


def test_help_opens_no_library():
    count, *opened = _run(f"HEAVY = {HEAVY}{_HELP}").stdout.split()
    assert int(count) > 30
    assert opened == []


@pytest.mark.parametrize("words", [["--help"], ["finetune", "--help"]])
def test_help_of_the_program_itself_opens_no_library(words):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "hf_albert_plus", *words], capture_output=True, text=True, check=True
    )
    opened = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "typer" in opened
    assert opened.isdisjoint(HEAVY)


_WRONG = """
import contextlib, io, sys

from hf_albert_plus.cli.app import app
from hf_albert_plus.errors import InvalidInput

COMMANDS = {
    "--model": ["finetune", "--model", "nowhere", "--data", ".", "--task", "sst2", "--out", "z"],
    "--teacher": ["distill", "--teacher", "no/where", "--out", "z", "--set", "num_hidden_layers=1"],
    "--data": ["prune", "--model", ".", "--data", "nowhere", "--task", "sst2", "--out", "z"],
    "--tokenizer": ["corpus", "build", "--corpus", ".", "--tokenizer", "nowhere", "--out", "z"],
    "SOURCE": ["convert", "nowhere", "--out", "z"],
    "--masked-lm": ["augment", "--data", ".", "--task", "sst2", "--masked-lm", "nowhere", "--out", "z"],
    "--task": ["qat", "--model", ".", "--data", ".", "--task", "sst3", "--out", "z"],
    "--epochs": ["sparsify", "--model", ".", "--data", ".", "--task", "sst2", "--epochs", "-1", "--out", "z"],
    "--rate": ["capacity", "served.json", "--rate", "0"],
}
for option, words in COMMANDS.items():
    try:
        app(words, standalone_mode=False)
    except InvalidInput as error:
        assert option in str(error), (option, str(error))
    else:
        raise AssertionError(option)
print(*sorted(name for name in HEAVY if name in sys.modules))
"""


def test_a_wrong_word_is_refused_before_a_library_is_opened(tmp_path):
    done = _run(f"HEAVY = {HEAVY}{_WRONG}", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("albert-plus fine", {"finetune"}),
        ("albert-plus finetune --lear", {"--learning-rate"}),
        ("albert-plus finetune --precision ", {"auto", "fp32", "bf16"}),
        ("albert-plus bench pre", {"pretrain"}),
        ("albert-plus bench --base", {"--baseline"}),
        ("albert-plus bench DIR --base", {"--baseline"}),
    ],
)
def test_bash_completes_words(words, expected):
    """The protocol of completion: bash gives the words so far, and asks for those that may follow."""
    parts = words.split(" ")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'albert-plus'; from hf_albert_plus.cli.app import app; app(prog_name='albert-plus')"],
        capture_output=True, text=True,
        env={**os.environ, "_ALBERT_PLUS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(parts) - 1)},
    )  # fmt: skip
    assert set(done.stdout.split()) == expected
