"""What searches for other budgets left of a shape when a search first came upon it: kept, so that the same search finds the same when it goes on."""

from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from ..records.files import read_kept, write_json
from .workshop import Workshop

_FILE = "taken-up.json"


@dataclass(frozen=True)
class FirstSeen:
    """What there was of a shape.

    Attributes:
        taught: it had learned all that it is given, and not its first passes alone.
        exits: it had exits.
        at: when that was, as records have it: what was made before costs this search nothing.
    """

    taught: bool
    exits: bool
    at: str


def first_seen(name: str, shop: Workshop, *, asked: str) -> FirstSeen:
    """What there was of a shape when a search first came upon it.

    Args:
        asked: the budget of the search, in words.
    """
    path = shop.out / _FILE
    known = read_kept(path, what="what a search took up", shape=dict[str, dict[str, dict[str, Any]]])
    of_this = known.setdefault(asked, {})
    if name not in of_this:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        of_this[name] = asdict(FirstSeen(shop.was_taught(name), shop.has_exits(name), now))
        write_json(path, known)
    return FirstSeen(**of_this[name])
