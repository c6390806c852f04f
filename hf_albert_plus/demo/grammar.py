"""Events and the sentences that tell them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from .lexicon import PEOPLE, PLACES, THINGS, TIMES, VERBS, Noun, Verb


@dataclass(frozen=True)
class Event:
    """Who did what to whom, where and when."""

    agent: Noun
    verb: Verb
    patient: Noun
    place: tuple[str, str]
    time: tuple[str, str]
    negated: bool = False


SLOTS = ("agent", "verb", "patient", "place", "time")
_CHOICES: dict[str, Sequence[Any]] = {
    "agent": PEOPLE,
    "verb": VERBS,
    "patient": THINGS + PEOPLE,
    "place": PLACES,
    "time": TIMES,
}


def draw_event(random: Random) -> Event:
    """An event with different agent and patient."""
    agent = random.choice(PEOPLE)
    patient = random.choice([noun for noun in _CHOICES["patient"] if noun is not agent])
    return Event(agent, random.choice(VERBS), patient, random.choice(PLACES), random.choice(TIMES))


def change(event: Event, slot: str, random: Random) -> Event:
    """The event with another filler in one slot."""
    taken = (getattr(event, slot), event.agent if slot == "patient" else event.patient)
    return replace(event, **{slot: random.choice([filler for filler in _CHOICES[slot] if filler not in taken])})


def tell(
    event: Event,
    random: Random,
    *,
    synonyms: float = 0.0,
    passive: bool = False,
    front_time: bool = False,
    details: bool = True,
) -> str:
    """A sentence for an event.

    Args:
        synonyms: probability that a word is replaced by its synonym.
        passive: "the car was bought by the lawyer".
        front_time: the time comes first.
        details: whether place and time are told at all.
    """

    def pick(plain: str, synonym: str) -> str:
        return synonym if random.random() < synonyms else plain

    agent = f"the {pick(event.agent.singular, event.agent.synonym)}"
    patient = f"the {pick(event.patient.singular, event.patient.synonym)}"
    verb = event.verb
    if passive:
        core = f"{patient} was {'not ' if event.negated else ''}{pick(verb.participle, verb.synonym_participle)} by {agent}"
    elif event.negated:
        core = f"{agent} never {pick(verb.past, verb.synonym_past)} {patient}"
    else:
        core = f"{agent} {pick(verb.past, verb.synonym_past)} {patient}"
    if not details:
        return f"{core} ."
    place, time = f"in the {pick(*event.place)}", pick(*event.time)
    return f"{time} , {core} {place} ." if front_time else f"{core} {place} {time} ."


def retell(event: Event, random: Random) -> str:
    """The event in other words: synonyms, either voice, the time at either end."""
    return tell(event, random, synonyms=0.5, passive=random.random() < 0.4, front_time=random.random() < 0.4)


__all__ = ["SLOTS", "Event", "change", "draw_event", "retell", "tell"]
