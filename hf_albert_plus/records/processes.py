"""Stages under `accelerate launch`: all processes train, the first one writes."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import StageConflict

Returned = TypeVar("Returned")
# Threads of one process: more than the cores of any machine that one inference runs on.
MOST_THREADS = 1024


def count() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def count_here() -> int:
    """How many of them run on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def rank() -> int:
    """This process's number, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return rank() == 0


def wait() -> None:
    """Waits until every process is here."""
    if count() > 1:
        _state().wait_for_everyone()


def first_alone(action: Callable[[], Returned]) -> Returned:
    """What `action` gives to the first process, in every process.

    Raises:
        StageConflict: in the others, with the words of the error that the first one raises.
    """
    if count() == 1:
        return action()
    _state()
    from accelerate.utils import broadcast_object_list

    answer: list[Any] = [None, None]
    failure: Exception | None = None
    if is_first():
        try:
            answer[0] = action()
        except Exception as error:
            failure, answer[1] = error, str(error)
    broadcast_object_list(answer)
    if failure is not None:
        raise failure
    if answer[1] is not None:
        raise StageConflict(answer[1])
    return answer[0]


def summed(values: Any) -> Any:
    """The sum of a tensor over all processes, in each of them."""
    if count() == 1:
        return values
    _state()
    from accelerate.utils import reduce

    return reduce(values, reduction="sum")


def _state() -> Any:
    """The connection between the processes, made once; gloo where there is no accelerator."""
    import torch
    from accelerate import PartialState

    cpu = not torch.accelerator.is_available()
    return PartialState(cpu=True, backend="gloo") if cpu else PartialState()
