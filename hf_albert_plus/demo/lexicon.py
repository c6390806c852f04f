"""The demo grammar's words: nouns with a synonym and a kind, verbs with a synonym, adjectives with a polarity."""

from dataclasses import dataclass


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

__all__ = [
    "BAD",
    "GOOD",
    "INTENSIFIERS",
    "INTRANSITIVE",
    "PEOPLE",
    "PLACES",
    "SUBJECTS",
    "THINGS",
    "TIMES",
    "VERBS",
    "Noun",
    "Verb",
]
