"""Errors that a user can repair, as text: how they cross from one process to another without a traceback."""

import json

from ..errors import InvalidInput


def error_text(error: InvalidInput) -> str:
    """An error as JSON."""
    return json.dumps({"rule": error.rule, "got": str(error.got), "repair": error.repair})


def error_of(text: str) -> InvalidInput:
    """The error that `error_text` wrote."""
    facts = json.loads(text)
    return InvalidInput(facts["rule"], got=facts["got"], repair=facts["repair"])
