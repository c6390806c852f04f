"""What each kind of model answers texts with, and which route has it: a route that is asked for something else says where it is."""

from ..engines.text_answers import AnswerRule, ClassifierFacts, EncoderFacts, ModelFacts
from .catalogue import ChosenModel
from .refusals import Unusable

# Route -> what a model that answers there gives, and what any other does not.
_GIVEN = {"/classify": "texts labels", "/tag": "each word a tag", "/embed": "texts vectors"}
_NOT_GIVEN = {"/classify": "texts no label", "/tag": "words no tag", "/embed": "texts no vector"}


def rule_of_texts(chosen: ChosenModel) -> AnswerRule:
    """How a model's logits become the labels of texts.

    Raises:
        Unusable: it gives them none.
    """
    facts = chosen.model.facts
    if isinstance(facts, ClassifierFacts) and not facts.rule.is_by_token:
        return facts.rule
    raise _elsewhere(chosen, asked="/classify")


def rule_of_words(chosen: ChosenModel) -> AnswerRule:
    """How a model's logits become the tags of words.

    Raises:
        Unusable: it gives them none.
    """
    facts = chosen.model.facts
    if isinstance(facts, ClassifierFacts) and facts.rule.is_by_token:
        return facts.rule
    raise _elsewhere(chosen, asked="/tag")


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
    return "/tag" if facts.rule.is_by_token else "/classify"
