"""The command line, run in this process."""

import typer
from typer.testing import CliRunner

from hf_albert_plus.cli.app import app


def invoke(*words):
    """Runs the command line in this process; its errors are raised, its result returned."""
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def commands():
    """Name -> every verb of the command line, those that are not listed too."""
    return dict(_commands_of(typer.main.get_command(app)))


def _commands_of(command, path=()):
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands_of(below, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path), command


def parsed(verb, words):
    """The options of a verb, as the command line reads them; unknown ones are errors."""
    command, words = typer.main.get_command(app).commands[verb], list(words)
    if hasattr(command, "commands"):  # a group, as `tokenizer`, or as `bench`, of which one needs no name
        command = command.commands[words.pop(0) if words[0] in command.commands else command.default]
    return command.make_context(verb, words).params
