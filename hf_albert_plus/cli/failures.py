"""How a command ends that cannot go on: what a user can repair in one sentence, a fault of ours with its trace in a file."""

import errno
import os
import re
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from typing import Any

from .._version import __version__
from ..errors import AlbertPlusError, InvalidInput
from .console import notes, printable
from .interrupts import STOPPED

# Exit codes: click's own for a command that is used wrongly, and that of sysexits.h for a fault of the program.
USAGE, SOFTWARE = 2, 70
_AGAIN = "give the same command again, and it goes on from what is finished"
_OF_THE_SYSTEM = {
    errno.ENOSPC: ("the disk must have room for what is written", f"free some space and {_AGAIN}"),
    errno.EDQUOT: ("your quota must have room for what is written", f"free some space and {_AGAIN}"),
    errno.EFBIG: ("files must not be larger than the system allows", "raise the limit (ulimit -f), or write to another disk"),
    errno.EROFS: ("outputs must lie on a disk that can be written", "choose a place that you may write to"),
    errno.EACCES: ("files must be yours to read and to write", "choose a place that you may write to, or change its permissions"),
    errno.EPERM: ("files must be yours to read and to write", "choose a place that you may write to, or change its permissions"),
    errno.ENAMETOOLONG: ("file names must be as short as the file system wants them", "use a shorter name"),
    errno.ELOOP: ("links must lead to a file or a directory", "remove the link, or give another path"),
    errno.ENOENT: ("files and directories that are named must exist", "check the path"),
    errno.ENOTDIR: ("only a directory can hold files", "check the path"),
    errno.EISDIR: ("a file is wanted here and no directory", "give a path of a file"),
    errno.EMFILE: ("the system must allow enough open files", "raise the limit (ulimit -n)"),
    errno.ENOMEM: ("the machine must have memory enough", "use a smaller --batch-size, or a larger machine"),
}  # fmt: skip
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
# How libraries say it that raise no OSError: safetensors and tokenizers, with the number; torch, OpenVINO and onnxruntime, without.
_RUST = re.compile(r"\(os error (\d+)\)")
_FULL = re.compile(
    r"PytorchStreamWriter failed writing|inline_container\.cc.*unexpected pos|iostream error|Protobuf serialization failed"
)
_STOPPED = f"stopped: {_AGAIN}"
_ELSE = ("files and connections must work", "check the path, the disk and the network, and try again")


def run_command(command: Callable[[], object]) -> None:
    """Runs a command. What a user can repair ends the process with a message and exit code 2; what nobody foresaw, with 70, a word
    on whose fault it is, and its trace in a file; Ctrl-C with 130 and a line."""
    _leave_disks_to_the_first_thread()
    try:
        _check_words(sys.argv[1:])
        command()
    except SystemExit as ended:  # click ends the process by itself, where it is used wrongly too
        if ended.code == STOPPED:
            notes.print(_STOPPED)
        raise
    except Exception as error:
        known = as_known(error)
        if known is not None:
            _say(str(known))
            sys.exit(USAGE)
        _say(_our_fault(error))
        sys.exit(SOFTWARE)


def as_known(error: Exception) -> AlbertPlusError | None:
    """The error that a user can repair behind what was raised; None for a fault of ours."""
    if isinstance(error, AlbertPlusError):
        return error
    number = _number_of(error)
    if number is not None:
        rule, repair = _OF_THE_SYSTEM.get(number, _ELSE)
        return InvalidInput(rule, got=str(error), repair=repair)
    if isinstance(error, MemoryError):
        got = str(error) or "too little of it"
        rule, repair = _OF_THE_SYSTEM[errno.ENOMEM]
        return InvalidInput(rule, got=got, repair=repair)
    if isinstance(error, OverflowError):
        return InvalidInput(
            "numbers must not be larger than a machine computes with", got=str(error), repair="use smaller ones"
        )
    return None


def _number_of(error: BaseException) -> int | None:
    """The system's number of what it refused, 0 where it gave none; None for an error of another kind."""
    if isinstance(error, OSError):
        return error.errno or 0
    if of_rust := _RUST.search(str(error)):
        return int(of_rust[1])
    if _FULL.search(str(error)):
        return errno.ENOSPC
    # A library may say what it was doing, and name the disk as the cause.
    number = None if error.__cause__ is None else _number_of(error.__cause__)
    return number if number in _OF_DISKS else None


def _leave_disks_to_the_first_thread() -> None:
    """A full disk ends the work once, with a word: threads that write too, and what a library does at the end, need not say it again."""
    of_threads, unraisable = threading.excepthook, sys.unraisablehook

    def quiet(told: Callable[[Any], object]) -> Callable[[Any], None]:
        def hook(args: Any) -> None:
            if args.exc_value is None or _number_of(args.exc_value) not in _OF_DISKS:
                told(args)

        return hook

    threading.excepthook, sys.unraisablehook = quiet(of_threads), quiet(unraisable)


def _check_words(words: list[str]) -> None:
    """Refuses words that are no text: they could be neither recorded nor printed.

    Raises:
        InvalidInput: bytes that are not UTF-8.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                "the words of a command must be UTF-8", got=ascii(word), repair="rename what it names"
            ) from None


def _our_fault(error: Exception) -> str:
    trace = "".join(traceback.format_exception(error))
    report = f"hf-albert-plus {__version__}\ncommand: {sys.argv}\n\n{trace}"
    try:
        descriptor, path = tempfile.mkstemp(prefix="albert-plus-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(report)
        where = f"its trace is in {path}"
    except OSError as unwritten:
        where = f"its trace could not be written ({unwritten}) and follows\n{trace}"
    return (
        f"this is a fault of albert-plus, not of yours ({type(error).__name__}: {error}). Please report it as an issue of "
        f"hf-albert-plus with the command that you gave; {where}"
    )


def _say(message: str) -> None:
    notes.print(f"[bold red]error:[/] {printable(message, keep=chr(10))}")
