"""The demo's grammar: words with synonyms, kinds and polarities, events, and the sentences that tell them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any


@dataclass(frozen=True)
class Noun:
    """A countable noun. `kind` is the more general word that it entails."""

    singular: str
    plural: str
    synonym: str
    synonym_plural: str
    kind: str


@dataclass(frozen=True)
class Verb:
    """A transitive verb and a synonym in base, past and participle form."""

    base: str
    past: str
    participle: str
    synonym_past: str
    synonym_participle: str


def _noun(singular: str, synonym: str, kind: str, plural: str = "", synonym_plural: str = "") -> Noun:
    return Noun(singular, plural or f"{singular}s", synonym, synonym_plural or f"{synonym}s", kind)


def _verb(base: str, synonym_past: str, past: str = "", participle: str = "", synonym_participle: str = "") -> Verb:
    past = past or (f"{base}d" if base.endswith("e") else f"{base}ed")
    return Verb(base, past, participle or past, synonym_past, synonym_participle or synonym_past)


PEOPLE = (
    _noun("doctor", "physician", "person"),
    _noun("lawyer", "attorney", "person"),
    _noun("teacher", "instructor", "person"),
    _noun("child", "kid", "person", plural="children"),
    _noun("author", "writer", "person"),
    _noun("singer", "vocalist", "person"),
    _noun("sailor", "mariner", "person"),
    _noun("farmer", "grower", "person"),
    _noun("baker", "pastrycook", "person"),
    _noun("guard", "watchman", "person", synonym_plural="watchmen"),
    _noun("painter", "artist", "person"),
    _noun("driver", "chauffeur", "person"),
)
THINGS = (
    _noun("car", "automobile", "vehicle"),
    _noun("boat", "vessel", "vehicle"),
    _noun("bicycle", "bike", "vehicle"),
    _noun("hound", "dog", "animal"),
    _noun("rabbit", "bunny", "animal", synonym_plural="bunnies"),
    _noun("pony", "horse", "animal", plural="ponies"),
    _noun("sofa", "couch", "object", synonym_plural="couches"),
    _noun("picture", "painting", "object"),
    _noun("stone", "rock", "object"),
    _noun("parcel", "package", "object"),
    _noun("letter", "note", "object"),
    _noun("lamp", "lantern", "object"),
)
VERBS = (
    _verb("watch", "observed"),
    _verb("find", "discovered", past="found"),
    _verb("repair", "fixed"),
    _verb("buy", "purchased", past="bought"),
    _verb("help", "assisted"),
    _verb("carry", "transported", past="carried"),
    _verb("choose", "selected", past="chose", participle="chosen"),
    _verb("sell", "vended", past="sold"),
    _verb("hide", "concealed", past="hid", participle="hidden"),
    _verb("clean", "washed"),
    _verb("pull", "dragged"),
    _verb("touch", "handled"),
)
PLACES = (
    ("garden", "yard"), ("forest", "woods"), ("harbour", "port"), ("market", "bazaar"), ("street", "road"),
    ("kitchen", "galley"), ("village", "hamlet"), ("station", "terminal"),
)  # fmt: skip
TIMES = (
    ("yesterday", "the day before"), ("at dawn", "at daybreak"), ("at dusk", "at nightfall"), ("in spring", "in springtime"),
    ("last week", "a week ago"), ("at noon", "at midday"),
)  # fmt: skip
GOOD = ("wonderful", "charming", "brilliant", "moving", "clever", "delightful", "superb", "funny", "gripping", "fresh")
BAD = ("dreadful", "boring", "clumsy", "hollow", "stale", "tedious", "awful", "dull", "shallow", "messy")
SUBJECTS = ("film", "story", "plot", "cast", "music", "ending", "script", "acting", "dialogue", "scenery")
INTENSIFIERS = ("", "", "really", "very", "truly", "quite", "rather")
INTRANSITIVE = (
    ("sleeps", "sleep"), ("laughs", "laugh"), ("waits", "wait"), ("sings", "sing"), ("smiles", "smile"),
    ("travels", "travel"), ("works", "work"), ("dances", "dance"),
)  # fmt: skip


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
