"""A group of verbs of which one needs no name: `albert-plus bench DIR` is `albert-plus bench targets DIR`."""

import copy
from typing import Any

from typer.core import TyperGroup


class DefaultGroup(TyperGroup):
    """A group whose words go to its first verb where they do not begin with a verb's name. Its help shows that verb's options too."""

    @property
    def default(self) -> str:
        """The verb that needs no name."""
        return next(iter(self.commands))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else None
        completes_the_first_word = first is None and ctx.resilient_parsing
        if not completes_the_first_word and first not in self.commands and first not in ctx.help_option_names:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        shown = copy.copy(self)
        shown.params = self.commands[self.default].params
        shown.subcommand_metavar = f"| {' | '.join(list(self.commands)[1:])} ..."
        super(DefaultGroup, shown).format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        default = self.commands[self.default]
        context = default.make_context(self.default, [], parent=ctx, resilient_parsing=True)
        return [*super().shell_complete(ctx, incomplete), *default.shell_complete(context, incomplete)]
