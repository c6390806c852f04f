"""The command line, run in this process."""

from typer.testing import CliRunner

from hf_albert_plus.cli.app import app


def invoke(*words):
    """Runs the command line in this process; its errors are raised, its result returned."""
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result
