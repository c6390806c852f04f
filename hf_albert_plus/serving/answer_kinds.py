"""What each kind of model answers texts with, and which route has it: a route that is asked for something else says where it is."""

from ..engines.text_answers import AnswerRule, ClassifierFacts, EncoderFacts, ModelFacts
from ..errors import InvalidInput
from .catalogue import ChosenModel
from .refusals import Unusable

# Route -> what a model that answers there gives, and what any other does not.
_GIVEN = {
    "/classify": "texts labels",
    "/tag": "each word a tag",
    "/answer": "questions a span of their context",
    "/embed": "texts vectors",
}
_NOT_GIVEN = {
    "/classify": "texts no label",
    "/tag": "words no tag",
    "/answer": "questions no answer",
    "/embed": "texts no vector",
}


def rule_at(route: str, chosen: ChosenModel) -> AnswerRule:
    """How a model's logits become what a route of labels, tags or spans gives.

    Raises:
        Unusable: the model does not answer there.
    """
    facts = chosen.model.facts
    if isinstance(facts, ClassifierFacts) and _route_of(facts) == route:
        return facts.rule
    raise _elsewhere(chosen, asked=route)


def threshold_of(rule: AnswerRule, asked: float | None) -> float | None:
    """The threshold of no answer that holds for a request (see `AnswerRule.threshold_of`).

    Raises:
        Unusable: one is asked for of a model that has none.
    """
    try:
        return rule.threshold_of(asked)
    except InvalidInput as error:
        raise Unusable(str(error)) from None


def facts_of_vectors(chosen: ChosenModel) -> EncoderFacts:
    """What there is to know of a model's vectors.

    Raises:
        Unusable: it gives none.
    """
    facts = chosen.model.facts
    if isinstance(facts, EncoderFacts):
        return facts
    raise _elsewhere(chosen, asked="/embed")


def _elsewhere(chosen: ChosenModel, *, asked: str) -> Unusable:
    """What a route answers that a model is not for."""
    route = _route_of(chosen.model.facts)
    return Unusable(f"{chosen.name} gives {_GIVEN[route]}, and {_NOT_GIVEN[asked]}: ask {route}")


def _route_of(facts: ModelFacts) -> str:
    """Where a model answers."""
    if not isinstance(facts, ClassifierFacts):
        return "/embed"
    if facts.rule.has_spans:
        return "/answer"
    return "/tag" if facts.rule.is_by_token else "/classify"
