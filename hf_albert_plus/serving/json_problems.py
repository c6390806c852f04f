"""Bodies of requests as what they should be, and what is wrong with one that is not, in a sentence."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from .refusals import RequestError, Unusable

Asked = TypeVar("Asked", bound=BaseModel)
# How pydantic says that a value has not this form of several.
_OTHER_FORMS = {"string_type", "list_type", "model_type", "model_attributes_type", "dataclass_type"}


CLASSIFIED = "a text, an object with text and text_pair, or a list of these"


def read_body(kind: type[Asked], body: bytes, *, forms: str = CLASSIFIED) -> Asked:
    """A request, as its body says it.

    Args:
        forms: what its inputs may be, for the refusal.

    Raises:
        RequestError: no JSON, or another form.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise refusal_of(error, body, forms=forms) from None


def refusal_of(error: ValidationError, body: bytes, *, forms: str = CLASSIFIED) -> RequestError:
    """What a request is refused with whose body has another form.

    Args:
        forms: what its inputs may be.
    """
    problems = error.errors(include_url=False, include_input=False)
    if problems[0]["type"] != "json_invalid":
        return Unusable(first_problem(problems, forms=forms))
    if _has_half_a_pair(body):
        return Unusable("a text must be made of characters, and this one has half of a surrogate pair")
    return RequestError(f"the body must be JSON: {problems[0]['ctx']['error']}")


def _has_half_a_pair(body: bytes) -> bool:
    """Whether a body is JSON whose texts are no Unicode, which is all that Python's own reader takes and pydantic's does not."""
    try:
        json.loads(body)
    except (RecursionError, ValueError):
        return False
    return True


def first_problem(errors: Sequence[Mapping[str, Any]], *, forms: str = CLASSIFIED) -> str:
    """What is wrong first, in a sentence, without what was given: that may be anything."""
    kinds = {str(problem["type"]) for problem in errors}
    specific = [problem for problem in errors if problem["type"] not in _OTHER_FORMS]
    problem = specific[0] if specific else errors[-1]
    # Names of fields and places in lists; what pydantic calls the forms of a union says nothing to a client.
    places = [str(part) for part in problem["loc"] if isinstance(part, int) or (part.isidentifier() and part.islower())]
    where = ".".join(part for part in places if part not in ("body", "str"))
    if not specific and len(kinds) > 1:
        return f"{where} must be {forms}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
