"""Runs pytest again and again without importing the large libraries each time: a process that has them forks for every run.

    python -m tests.faults.warm_pytest

Reads lines of JSON, each the words of a pytest, and answers each with its exit code, 124 where it did not end in time. What pytest prints
goes to a file, which the first word names.
"""

import importlib
import json
import os
import signal
import sys

TIMEOUT_S = 900
# None of them is the package's own: what has a fault is imported anew in every run.
LIBRARIES = ("datasets", "onnx", "onnx_ir", "onnxruntime", "pytest", "torch", "transformers.models.bert.modeling_bert")


def main() -> None:
    """Answers until there is no more to read."""
    answers = os.dup(1)
    os.dup2(2, 1)
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        log, *words = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(log, words)
        _, status = os.waitpid(child, 0)
        ended_late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        code = 124 if ended_late else os.waitstatus_to_exitcode(status)
        os.write(answers, f"{json.dumps(code)}\n".encode())


def _run(log: str, words: list[str]) -> None:
    """One pytest, in a process of its own."""
    import pytest

    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    signal.alarm(TIMEOUT_S)
    code = 70  # that of a program that failed by itself
    try:
        # Plugins that are there already are not to be rewritten.
        code = int(pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *words]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
