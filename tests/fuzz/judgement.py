"""Whether a command ended as one may: with its work done, or with a sentence that a user can act upon."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.cases import Case
from tests.fuzz.states import is_kept
from tests.fuzz.values import is_much

_SAID = re.compile(r"error:|Error|Usage:", re.IGNORECASE)
_FRAME = re.compile(r'File "([^"]+)", line (\d+),? in (\S+)')
_OURS = re.compile(r"/(hf_albert_plus|export|eval)/(?!.*site-packages)")
_NOT_PRINTED = re.compile(r"[\s│╭╮╰╯─'\"\\]+")


@dataclass(frozen=True)
class Ended:
    """How a case ended.

    Attributes:
        code: its exit code, -N for signal N, None where it was killed at the deadline.
        folder: with `stdout`, `stderr`, `tmp/` and the directory that it ran in.
        is_changed: whether an input was written to.
    """

    case: Case
    words: list[str]
    code: int | None
    seconds: float
    folder: Path
    is_changed: bool

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8", errors="backslashreplace")


def judge(ended: Ended) -> dict[str, Any]:
    """The case's number, outcome ("0", "refused", "other"), failure if any with where it comes from, and whether it names the value."""
    case, code, said = ended.case, ended.code, ended.text("stderr")
    trace = "\n".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted((ended.folder / "tmp").glob("albert-plus-*.txt"))
    )
    failure = _failure(ended, said, trace)
    if code is None and failure and (ended.folder / "where").is_file():
        trace = _turned(ended.text("where"))
    return {
        "number": case.number,
        "outcome": "0" if code == 0 else "refused" if code == 2 else "other",
        "code": code,
        "seconds": round(ended.seconds, 2),
        "failure": failure,
        "group": failure and (_group(trace or said) or failure),
        "command": "albert-plus " + " ".join(_quoted(word) for word in ended.words),
        "said": _cut(_frames(trace) if trace else said),
        "names": _names_value(ended, said) if code == 2 else None,
    }


def _turned(stack: str) -> str:
    """The main thread of faulthandler's stacks, which comes last and has its innermost frame first, as a traceback has it."""
    frames = [line for line in stack.rpartition("(most recent call first)")[2].splitlines() if _FRAME.search(line)]
    return "\n".join([*frames[::-1], "DoesNotEnd: "])


def _failure(ended: Ended, said: str, trace: str) -> str | None:
    code, case = ended.code, ended.case
    if code is None:
        return None if is_much(case.parameter, case.value) else "does not end"
    if code < 0:
        return f"killed by signal {-code}"
    if code == 70:
        return "a fault of albert-plus"
    if "Traceback (most recent call last)" in said or "Traceback (most recent call last)" in ended.text("stdout"):
        return "prints a traceback"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if code and not _SAID.search(said):
        return f"exit code {code} without a message"
    if case.kind == "valid" and code:
        return "the command line that works is refused"
    if not is_kept(ended.folder / "here"):
        return "files of somebody else are gone"
    if ended.is_changed:
        return "inputs are changed"
    wrong = _not_json(ended) if code == 0 else None
    return wrong


def _not_json(ended: Ended) -> str | None:
    """What was promised as JSON and is none, or has numbers that are not finite."""
    here = ended.folder / "here"
    texts = {
        path.name: path for path in (here / "result.json", here / "out" / "record.json", here / "out" / "report.json")
    }
    contents = {
        name: path.read_bytes() for name, path in texts.items() if path.is_file() and ended.case.kind != "state"
    }
    stdout = ended.text("stdout")
    if ended.words[-1] == "--json" and stdout.strip():
        contents["stdout"] = stdout.encode()
    for name, text in contents.items():
        try:
            json.loads(text, parse_constant=_refuse)
        except ValueError as error:
            return f"{name} is no JSON: {error}"
    return None


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _group(text: str) -> str | None:
    """`TypeError in hf_albert_plus/records.py: read_record`."""
    frames = [match for match in _FRAME.finditer(text) if "site-packages" not in match[1] and _OURS.search(match[1])]
    lines = [line for line in text.strip().splitlines() if re.match(r"[\w.]+(: |$)", line)]
    if not frames or not lines:
        return None
    place = re.split(r"/(?=(?:hf_albert_plus|export|eval)/)", frames[-1][1], maxsplit=1)[-1]
    return f"{lines[-1].partition(':')[0]} in {place}: {frames[-1][3]}"


def _frames(trace: str) -> str:
    """The last frames and the error."""
    lines = trace.strip().splitlines()
    frames = [line.strip() for line in lines if _FRAME.search(line)]
    return "\n".join([*frames[-4:], *[line for line in lines[-6:] if not line.startswith(" ")]])


def _names_value(ended: Ended, said: str) -> bool | None:
    """Whether the message names the value, or the file that it is about. None where there is nothing to name."""
    case = ended.case
    sought = case.value if case.kind == "option" else Path(case.file).name if case.kind == "file" else "out"
    plain = _NOT_PRINTED.sub("", ascii(sought.replace("{in}", "").rstrip("/"))[1:-1])[:40]
    if not plain:
        return None
    text = _NOT_PRINTED.sub("", ascii(said))
    held = (
        [case.where]
        if case.kind == "option"
        else [Path(case.file).parent.name, case.file.partition("/")[0]]
        if case.kind == "file"
        else []
    )
    return any(_NOT_PRINTED.sub("", one) in text for one in (plain, *held) if one)


def _quoted(word: str) -> str:
    import shlex

    return (
        ascii(word) if not word.isprintable() else shlex.quote(word if len(word) < 200 else f"{word[:60]}…{len(word)}")
    )


def _cut(text: str) -> str:
    return text if len(text) < 1500 else f"{text[:300]}\n…\n{text[-1100:]}"


__all__ = ["Ended", "judge"]
