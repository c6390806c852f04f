"""Progress bars, one style for all stages, and words between them. They go to stderr, so that stdout stays for results."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tqdm.auto import tqdm

from .processes import is_first

Item = TypeVar("Item")
# Least seconds between two drawings: a log keeps each of them as a line.
_ON_SCREEN, _IN_A_LOG = 0.2, 10.0
_FORMAT = "  {desc:<34.34} {percentage:3.0f}%|{bar:24}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"


def bar(*, total: float, description: str, initial: float = 0, unit_scale: bool = False) -> "tqdm[Any]":
    """A bar of one line; `unit_scale` prints 52.0M for 52,000,000."""
    return tqdm(
        total=total,
        desc=description,
        initial=initial,
        unit_scale=unit_scale,
        bar_format=_FORMAT,
        mininterval=_ON_SCREEN if sys.stderr.isatty() else _IN_A_LOG,
        dynamic_ncols=True,
        disable=not is_first(),
    )


def track(items: Iterable[Item], *, total: int, description: str | None) -> Iterator[Item]:
    """Yields items under a bar; without a description there is no bar, since somebody else's stands for them."""
    if description is None:
        yield from items
        return
    with bar(total=total, description=description) as progress:
        for item in items:
            yield item
            progress.update()


def say(text: str) -> None:
    """A line that no bar writes over."""
    tqdm.write(text, file=sys.stderr)


@contextmanager
def steps(description: str, *, total: int) -> Iterator[Any]:
    """A bar for work in named steps: call the yielded function with the name of each step as it begins."""
    with bar(total=total, description=description) as progress:
        begun = 0

        def begin(name: str) -> None:
            nonlocal begun
            progress.update(min(begun, 1))
            begun += 1
            progress.set_postfix_str(name)

        yield begin
        progress.update(progress.total - progress.n)
        progress.set_postfix_str("")
