"""Routes that read and write their bodies by themselves: what FastAPI does for a route takes as long as a small model takes a text."""

from starlette.routing import Match, Route
from starlette.types import Scope


class ByItself(Route):
    """A route that tells its application which one it is, as FastAPI's do."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        return match, {**child, "route": self} if match is not Match.NONE else child
