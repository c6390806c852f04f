"""What ends a candidate and no search."""

from ..errors import InvalidInput, InvarianceError, ParityError, QuantisationError

# Parts that cannot be removed, a training that diverges, an export that says something else than its model. A directory that holds something else
# than it should is none of them.
SETBACKS = (InvalidInput, ParityError, InvarianceError, QuantisationError)
