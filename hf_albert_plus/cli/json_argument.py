"""`--json` of the verbs that measure: with a file it is written beside the tables, without one it takes their place on standard output."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

# What stands for standard output, as in other tools.
STANDARD_OUTPUT = Path("-")


class OneVerb(TyperCommand):
    """A verb whose `--json` may stand alone where its option takes a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        takes_file = any("--json" in each.opts and not getattr(each, "is_flag", False) for each in self.params)
        return super().parse_args(ctx, _with_dash(args) if takes_file else args)


def _with_dash(args: list[str]) -> list[str]:
    """The words with a dash behind a `--json` that no name of a file follows."""
    words: list[str] = []
    for word, following in zip_longest(args, args[1:], fillvalue="--"):
        words += [word, str(STANDARD_OUTPUT)] if word == "--json" and following.startswith("--") else [word]
    return words
