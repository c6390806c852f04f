"""Records without the paths of the machine that made them: of an absolute path its name alone stays."""

import re
import shlex
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]")
# An absolute path of at least two names among other words; what follows a colon, as in an address, is none.
_AMONG_WORDS = re.compile(r"(?:(?<=\s)|(?<=[=('\"])|^)(?:file://)?[/~][^\s'\",;:()=]*/(?P<name>[^\s'\",;:()/]+)/?")


def without_machine_paths(content: Any) -> Any:
    """JSON with the names alone of all that it names by an absolute path: its values, the words of its command, and paths among words."""
    if isinstance(content, dict):
        return {
            key: _of_command(value) if key == "command" and isinstance(value, str) else without_machine_paths(value)
            for key, value in content.items()
        }
    if isinstance(content, list):
        return [without_machine_paths(each) for each in content]
    return _named(content) if isinstance(content, str) else content


def _named(text: str) -> str:
    """A text without absolute paths."""
    if text.startswith(("/", "~/", "file:///")) and "\n" not in text:
        return PurePosixPath(text.removeprefix("file://")).name or text
    if _WINDOWS.match(text):
        return PureWindowsPath(text).name or text
    return _AMONG_WORDS.sub(lambda found: found["name"], text)


def _of_command(command: str) -> str:
    """A command whose words name files without their folders, where these are the machine's."""
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote: no shell ever ran it
        return _named(command)
    return shlex.join(_of_word(word) for word in words)


def _of_word(word: str) -> str:
    """`--out=/home/me/x`, `name=/home/me/x:onnx` and `/home/me/x` without their folders."""
    option, equals, value = word.rpartition("=")
    return f"{option}{equals}{_named(value)}" if equals else _named(word)
