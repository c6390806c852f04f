"""Bad values of an option, by its declared kind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.verbs import Parameter

WHOLE = ["0", "-1", str(10**30), "", "1.5", "nan", "x", "1e3", str(2**31), str(-(2**63))]
REAL = ["nan", "inf", "-inf", "1e308", "-1", "0", str(10**30), "", "x", "1e-320", "-0.0"]
TEXT = [
    "", " ", "[red]", "[/]", "a\nb", "\x1b[31m", "\x07\x08\t", "\udcff\udcfe", "a" * 100_000, "=", "a=", "=b", "a=b", ":", "a:b", ",", "0,1", "*", "[", "../..",
    "nan", "-1", "none", "é" * 300, "\u202e\ufeff", "%s{0}{x}", "--help", "--", "-", "1x0", "0x1", "-1x-1", "1x1000000000", "no-such/model",
]  # fmt: skip
PAIRS = [
    "hidden_size=0", "hidden_size=-1", "hidden_size=nan", f"hidden_size={10**30}", "hidden_size=[]", "num_hidden_layers=0", "num_attention_heads=0",
    "num_attention_heads=7", "vocab_size=1", "vocab_size=x", "hidden_act=x", "hidden_dropout_prob=2", "hidden_dropout_prob=nan", "layer_norm_eps=-1",
    "attention_sharing=cycle:0", "ffn_sharing=x", "embedding_size=-3", "initializer_range=inf", "exit_layers=[99]", "exit_layers=x", "type_vocab_size=-1",
    "max_position_embeddings=1", "num_labels=0", "temperature=0", "temperature=nan", "layer_map=x", "alpha=inf", "=", "x", "hidden_size=", "a=b=c", "exit_layers=[[1]]",
]  # fmt: skip
# Made in the directory of each case by `states.menagerie`.
PATHS = [
    "", "/", ".", "..", "dangling", "loop", "a-file/below", "n" * 300, "/proc/x/y", "full", "pipe", "a-directory", "a-file", "locked/below", "no-such", "precious",
    "a\nb", "[red]", "\udcff", "a-file/", "missing/below/it", "~nobody/x",
]  # fmt: skip
# Options that say how much to do: much may take long.
AMOUNTS = {
    "epochs", "teacher_epochs", "student_epochs", "seconds", "copies", "rounds", "examples", "draws", "evaluations", "texts", "clients", "sample", "decay",
}  # fmt: skip
_MUCH = {"1e308", str(10**30), str(2**31)}


def bad_values(parameter: Parameter, *, valid: str | None) -> Iterator[str]:
    """Values to try.

    Args:
        valid: what the command line that works has there, if anything.
    """
    kind: Any = parameter.kind
    if kind is int:
        yield from WHOLE
    elif kind is float:
        yield from REAL
    elif parameter.choices:
        yield from parameter.choices
        yield from TEXT[:9]
    elif kind is Path:
        yield from PATHS
    else:
        yield from PAIRS if parameter.name == "set_" else ()
        if valid is not None and "{in}" in valid:
            yield from _around(valid)
            yield from PATHS
        yield from TEXT
        yield from () if valid is not None and "{in}" in valid else PATHS[::3]


def is_much(parameter: str, value: str | None) -> bool:
    """Whether the case asks for so much work that it need not end."""
    return parameter in AMOUNTS and value in _MUCH


def _around(valid: str) -> Iterator[str]:
    """Slips around a path: another engine, another model, a name before it."""
    path, colon, _ = valid.rpartition(":") if ":" in valid else (valid, "", "")
    for engine in ("torch", "onnx", "openvino", "tensorrt", "onnx-exits", "x", ""):
        yield f"{path}:{engine}"
    for other in (
        "encoder",
        "exits",
        "twin",
        "tokenizer",
        "corpus",
        "glue-mrpc",
        "rows.parquet",
        "text.txt",
        "masked-lm",
    ):
        yield f"{{in}}/{other}{colon}"
    yield from (f"={valid}", f"x={valid}", f"{valid}/", f"{valid}x")


__all__ = ["bad_values", "is_much"]
